"""The records of an offset-map topic and their keys (`record_values.py` has the values).

Topic: `heliograph-offset-map.<link>.internal` on the target, one partition, compacted. Keys and
values start with a version byte, 1. Numbers are big-endian. `varint` is unsigned LEB128. `string`
is a varint of its UTF-8 length followed by the bytes. A uuid is 16 bytes, all zero in a cluster
without topic ids.

    registration  key    version, 1, producer_id int64
                  value  version, link string, source_cluster_id string, target_cluster_id string,
                         producer_epoch int16, registered_at_ms int64, worker_id string
    opening       key    version, 2, flow, producer_id int64, producer_epoch int16, nonce int64
                  value  version, target_topic string, source_offset int64, target_offset int64,
                         opened_at_ms int64, worker_id string; then the byte 1 if others
                         (MirrorMaker 2) copied the records before source_offset, else nothing
    block         key    version, 3, flow, producer_id int64, producer_epoch int16,
                         source_start int64, nonce int64
                  value  version, target_topic string, target_start int64, source_next varint
                         (from source_start), next_sequence int32, runs varint, then per run three
                         varints: source gap, target gap, count
    terms         key    version, 4, nonce int64
                  value  version, count varint, then per term two strings: name, value
    controls      key    version, 5
                  value  version, source_bytes_per_second int64, target_bytes_per_second int64,
                         paused varint, then per part topic string (empty: the link), partition
                         int32 (-1: all); a rate of -1 is the configured one
    commit        key    version, 6, group string, topic string, partition int32
                  value  version, before int64 (-1: none), wanted int64
    owned copy    key    version, 7, topic string
                  value  version, target_topic_id uuid, source_topic string, source_topic_id uuid,
                         is_created byte (1: the link created the copy)
    flow          source_topic string, partition int32, source_topic_id uuid, target_topic_id uuid

A gap is the distance from the end of the run before, or from the block's starts for the first run.

Meaning:

- *Registration*: the producer id that the link writes with on this target. The first in log order
  holds.
- *Opening*: from `source_offset` on, the flow is copied with (producer id, epoch) and sequences
  from 0, to target offsets from `target_offset` on. Per (flow, producer id, epoch) the first in log
  order holds. If a higher epoch opens below what was copied before, the source's log was truncated:
  from there on, copies of lower epochs belong to records that it no longer has. A re-created topic
  is opened at a higher epoch than the topic before it. An opening of another topic id at no higher
  epoch arrived late, from a worker that was dead by then, and does not count.
- *Block*: of the source offsets [source_start, source_next) exactly the runs were copied, to the
  given places, and the next record has sequence `next_sequence`. Every block is true for ever.
  Blocks of one epoch may overlap and then agree.
- *Terms*: the settings that decide which records are copied at all. The first in log order hold. A
  link without terms copies everything.
- *Controls*: an operator's orders to the link. The last hold.
- *Commit* and *owned copy*: see `marks.py`. The last under a key holds, and topics are the
  target's.

The nonce keeps the records of different writers apart, so compaction cannot replace a record by
another writer's.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from local_cluster.foreign_json import INT32_MAX, integer, string
from mirror_maker.formats.controls import Controls
from mirror_maker.formats.fields import INT16, INT32, INT64, Cursor, MapFormatError, put_string
from mirror_maker.formats.marks import MirroredCommit, OwnedCopy
from mirror_maker.formats.offset_map import Run

FORMAT_VERSION: Final = 1
REGISTRATION_KIND: Final = 1
OPENING_KIND: Final = 2
BLOCK_KIND: Final = 3
TERMS_KIND: Final = 4
CONTROLS_KIND: Final = 5
COMMIT_KIND: Final = 6
OWNED_COPY_KIND: Final = 7

NO_TOPIC_ID: Final = uuid.UUID(int=0)


class FlowKey(NamedTuple):
    """One source partition on its way to one target topic, by identity and not only by name."""

    source_topic: str
    partition: int
    source_topic_id: uuid.UUID
    target_topic_id: uuid.UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """The producer id that a link writes with on this target."""

    producer_id: int
    producer_epoch: int
    link: str
    source_cluster_id: str
    target_cluster_id: str
    registered_at_ms: int
    worker_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """The place where a flow's sequences begin at 0 for a (producer id, epoch)."""

    flow: FlowKey
    producer_id: int
    producer_epoch: int
    nonce: int
    target_topic: str
    source_offset: int
    target_offset: int
    opened_at_ms: int
    worker_id: str
    has_older_copies: bool = False
    """Whether others copied earlier records; this map does not know where to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """What was copied of the source offsets [source_start, source_next)."""

    flow: FlowKey
    producer_id: int
    producer_epoch: int
    nonce: int
    target_topic: str
    source_start: int
    target_start: int
    source_next: int
    next_sequence: int
    runs: tuple[Run, ...]

    @property
    def target_next(self) -> int:
        """Return the target offset after the last record of the block."""
        return self.runs[-1].target_next if self.runs else self.target_start


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """The settings that decide which records a link copies, as names and values."""

    nonce: int
    terms: tuple[tuple[str, str], ...]


def flow_of(key: Mapping[str, Any]) -> FlowKey:
    """Return the flow that the key of a JSON record names. Raises ValueError, KeyError."""
    return FlowKey(
        string(key["source_topic"]),
        integer(key["partition"], 0, INT32_MAX),
        uuid.UUID(string(key["source_topic_id"])),
        uuid.UUID(string(key["target_topic_id"])),
    )


MapRecord = Registration | Opening | Block | Terms | Controls | MirroredCommit | OwnedCopy


MAP_TOPIC_PREFIX: Final = "heliograph-offset-map."
MAP_TOPIC_SUFFIX: Final = ".internal"


def map_topic_name(link: str) -> str:
    """Return the link's offset-map topic; MirrorMaker 2's default patterns exclude its name."""
    return f"{MAP_TOPIC_PREFIX}{link}{MAP_TOPIC_SUFFIX}"


def is_map_topic(topic: str) -> bool:
    """Return whether a topic is some link's offset-map topic."""
    return topic.startswith(MAP_TOPIC_PREFIX) and topic.endswith(MAP_TOPIC_SUFFIX)


def encode_key(record: MapRecord) -> bytes:
    """Return the key of a record; a null value under it deletes the record."""
    if isinstance(record, Registration):
        return bytes((FORMAT_VERSION, REGISTRATION_KIND)) + INT64.pack(record.producer_id)
    if isinstance(record, Controls):
        return bytes((FORMAT_VERSION, CONTROLS_KIND))
    if isinstance(record, Terms):
        return bytes((FORMAT_VERSION, TERMS_KIND)) + INT64.pack(record.nonce)
    if isinstance(record, MirroredCommit):
        return commit_key(record.group_id, record.topic, record.partition)
    if isinstance(record, OwnedCopy):
        return owned_copy_key(record.topic)
    kind = OPENING_KIND if isinstance(record, Opening) else BLOCK_KIND
    out = bytearray((FORMAT_VERSION, kind))
    put_string(out, record.flow.source_topic)
    out += INT32.pack(record.flow.partition)
    out += record.flow.source_topic_id.bytes
    out += record.flow.target_topic_id.bytes
    out += INT64.pack(record.producer_id)
    out += INT16.pack(record.producer_epoch)
    if isinstance(record, Block):
        out += INT64.pack(record.source_start)
    out += INT64.pack(record.nonce)
    return bytes(out)


def commit_key(group_id: str, topic: str, partition: int) -> bytes:
    """Return the key of a group's `MirroredCommit`."""
    out = bytearray((FORMAT_VERSION, COMMIT_KIND))
    put_string(out, group_id)
    put_string(out, topic)
    out += INT32.pack(partition)
    return bytes(out)


def owned_copy_key(topic: str) -> bytes:
    """Return the key of a topic's `OwnedCopy`."""
    out = bytearray((FORMAT_VERSION, OWNED_COPY_KIND))
    put_string(out, topic)
    return bytes(out)


class DecodedKey(NamedTuple):
    """A key's fields; fields that its kind does not have are None, 0 or empty."""

    kind: int
    flow: FlowKey | None
    producer_id: int
    producer_epoch: int = 0
    source_start: int = 0
    nonce: int = 0
    group_id: str = ""
    topic: str = ""
    partition: int = 0


def decode_key(key: bytes) -> DecodedKey:
    """Read a key. Raises MapFormatError."""
    cursor = Cursor(key)
    cursor.version(FORMAT_VERSION)
    kind = cursor.byte()
    if kind == REGISTRATION_KIND:
        decoded = DecodedKey(kind, None, cursor.int64())
    elif kind == CONTROLS_KIND:
        decoded = DecodedKey(kind, None, 0)
    elif kind == TERMS_KIND:
        decoded = DecodedKey(kind, None, 0, nonce=cursor.int64())
    elif kind == COMMIT_KIND:
        decoded = DecodedKey(
            kind,
            None,
            0,
            group_id=cursor.string(),
            topic=cursor.string(),
            partition=_partition(cursor),
        )
    elif kind == OWNED_COPY_KIND:
        decoded = DecodedKey(kind, None, 0, topic=cursor.string())
    elif kind in (OPENING_KIND, BLOCK_KIND):
        flow = FlowKey(cursor.string(), _partition(cursor), cursor.uuid(), cursor.uuid())
        producer_id, producer_epoch = cursor.int64(), cursor.int16()
        source_start = cursor.int64() if kind == BLOCK_KIND else 0
        decoded = DecodedKey(kind, flow, producer_id, producer_epoch, source_start, cursor.int64())
    else:
        raise MapFormatError(f"unknown kind of record {kind}")
    cursor.finish()
    return decoded


def _partition(cursor: Cursor) -> int:
    partition = cursor.int32()
    if partition < 0:
        raise MapFormatError(f"partition {partition}")
    return partition
