"""Published formats of the mirror: what it writes into topics for others to read.

The offset-map topic of a link, its records (`records`), the map of one partition (`offset_map`)
and the replay of a whole topic into maps (`map_topic`). Nothing here does I/O, and nothing here
imports the rest of the mirror, so that any reader can take this package alone.
"""

from __future__ import annotations

from .map_topic import MapTopic, extend_map
from .offset_map import OffsetMap, Run, Translation, TranslationState
from .records import (
    FORMAT_VERSION,
    Block,
    FlowKey,
    MapFormatError,
    Opening,
    Registration,
    decode_key,
    decode_record,
    encode_record,
    map_topic_name,
)

__all__ = [
    "FORMAT_VERSION",
    "Block",
    "FlowKey",
    "MapFormatError",
    "MapTopic",
    "OffsetMap",
    "Opening",
    "Registration",
    "Run",
    "Translation",
    "TranslationState",
    "decode_key",
    "decode_record",
    "encode_record",
    "extend_map",
    "map_topic_name",
]
