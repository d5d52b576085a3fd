"""Published formats of the mirror: what it writes into topics for others to read.

The offset-map topic of a link, its records (`records`, `record_values`), the map of one partition
(`offset_map`) and the replay of a whole topic into maps (`map_topic`); the journal of gaps
(`gaps`). Nothing here does I/O, and nothing here imports the rest of the mirror, so that any reader
can take this package alone.
"""

from __future__ import annotations

from mirror_maker.formats.fields import MapFormatError
from mirror_maker.formats.gaps import Gap, GapJournal, decode_gap, encode_gap, gaps_topic_name
from mirror_maker.formats.map_topic import MapTopic, extend_map
from mirror_maker.formats.naming import TopicNames
from mirror_maker.formats.offset_map import OffsetMap, Run, Translation, TranslationState
from mirror_maker.formats.record_values import decode_record, encode_record
from mirror_maker.formats.records import (
    FORMAT_VERSION,
    Block,
    FlowKey,
    Opening,
    Registration,
    Terms,
    decode_key,
    is_map_topic,
    map_topic_name,
)

__all__ = [
    "FORMAT_VERSION",
    "Block",
    "FlowKey",
    "Gap",
    "GapJournal",
    "MapFormatError",
    "MapTopic",
    "OffsetMap",
    "Opening",
    "Registration",
    "Run",
    "Terms",
    "TopicNames",
    "Translation",
    "TranslationState",
    "decode_gap",
    "decode_key",
    "decode_record",
    "encode_gap",
    "encode_record",
    "extend_map",
    "gaps_topic_name",
    "is_map_topic",
    "map_topic_name",
]
