"""Published formats of the mirror: what it writes into topics for others to read.

- `records`, `record_values`, `fields`: the records of a link's offset-map topic, as bytes.
- `offset_map`: the map of one partition. `map_topic`: a whole map topic, replayed.
- `marks`, `controls`: what else lies in a map topic.
- `written_rights`: the ACLs and quotas that a link wrote, as a topic.
- `gaps`: the journal of gaps. `receipts`, `verdicts`: what the audit publishes.
- `completeness`: until when copies are complete.
- `verdict_topic`: a whole verdicts topic, replayed.
- `naming`, `probe`, `workers`: names of copies and probe topics; where workers are found.
- `mm2`: MirrorMaker 2's records.

No module here does I/O or imports the rest of the mirror, so any reader can take this package
alone.
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
