"""The records of an offset-map topic, as bytes.

Topic: `heliograph-offset-map.<link>.internal` on the target, one partition, compacted. Keys and
values start with a version byte, now 1. Numbers are big-endian; `varint` is unsigned LEB128;
`string` is a varint of its UTF-8 bytes followed by them; a uuid is 16 bytes, all zero where a
cluster has no topic ids.

    registration  key    version, 1, producer_id int64
                  value  version, link string, source_cluster_id string, target_cluster_id string,
                         producer_epoch int16, registered_at_ms int64, worker_id string
    opening       key    version, 2, flow, producer_id int64, producer_epoch int16, nonce int64
                  value  version, target_topic string, source_offset int64, target_offset int64,
                         opened_at_ms int64, worker_id string; then 1 as a byte where others
                         (MirrorMaker 2) copied what lies before source_offset, else nothing
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
                         int32 (-1: all); a rate of -1 is what the settings say
    commit        key    version, 6, group string, topic string, partition int32
                  value  version, before int64 (-1: none), wanted int64
    led copy      key    version, 7, topic string
                  value  version, target_topic_id uuid, source_topic string, source_topic_id uuid,
                         is_made byte (1: the link has made the copy)
    flow          source_topic string, partition int32, source_topic_id uuid, target_topic_id uuid

A gap is the distance from the end of the run before, or from the block's starts for the first.

Meaning. *Registration*: the producer id that the link writes with on this target; the first in
log order holds. *Opening*: from `source_offset` on, the flow is copied with (producer id, epoch)
and sequences from 0, to target offsets from `target_offset` on; per (flow, producer id, epoch) the
first in log order holds. Where a higher epoch opens below what was copied before, the source's log
was cut back: from there on, the copies of lower epochs are of records that it no longer has.
*Block*: of the source offsets [source_start, source_next) exactly the runs were copied, to where
they say, and the next record has sequence `next_sequence`. Every block is true for ever; blocks of
one epoch may overlap and then agree. *Terms*: the settings that decide
which records are copied at all; the first in log order hold, and a link without any copies
everything. *Controls*: what an operator has told the link; the last hold. *Commit* and *led copy*:
see `marks.py`; the last under a key holds, and topics are the target's. The nonce keeps the
records of different writers apart, so that compaction cannot replace a record by another writer's.
"""

from __future__ import annotations

import struct
import uuid
from dataclasses import dataclass
from typing import Final, NamedTuple

from .controls import Controls, PausedPart
from .marks import LedCopy, MirroredCommit
from .offset_map import Run

FORMAT_VERSION: Final = 1
REGISTRATION_KIND: Final = 1
OPENING_KIND: Final = 2
BLOCK_KIND: Final = 3
TERMS_KIND: Final = 4
CONTROLS_KIND: Final = 5
COMMIT_KIND: Final = 6
LED_COPY_KIND: Final = 7
VARINT_BYTES_MAX: Final = 10
RUNS_PER_BLOCK_MAX: Final = 1_000_000
"""A reader refuses larger blocks; the mirror writes far smaller ones."""
PAUSED_MAX: Final = 100_000
"""A reader refuses more paused parts of one link."""
TERMS_MAX: Final = 100
"""A reader refuses more terms of one link."""

NO_TOPIC_ID: Final = uuid.UUID(int=0)

_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_INT64: Final = struct.Struct(">q")


class MapFormatError(ValueError):
    """The bytes are no record of this format, or of a newer version than this reader."""


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
    """Where a flow's sequences begin at 0 for a (producer id, epoch)."""

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
    """Whether others copied what lies before; where to, this map does not know."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """What became of the source offsets [source_start, source_next)."""

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
        """The target offset after the last record of the block."""
        return self.runs[-1].target_next if self.runs else self.target_start


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What decides which records a link copies, as names and values."""

    nonce: int
    terms: tuple[tuple[str, str], ...]


MapRecord = Registration | Opening | Block | Terms | Controls | MirroredCommit | LedCopy


MAP_TOPIC_PREFIX: Final = "heliograph-offset-map."
MAP_TOPIC_SUFFIX: Final = ".internal"


def map_topic_name(link: str) -> str:
    """Name of the link's offset-map topic; MM2's pattern for internal topics leaves it alone."""
    return f"{MAP_TOPIC_PREFIX}{link}{MAP_TOPIC_SUFFIX}"


def is_map_topic(topic: str) -> bool:
    """Whether a topic is some link's offset-map topic."""
    return topic.startswith(MAP_TOPIC_PREFIX) and topic.endswith(MAP_TOPIC_SUFFIX)


def encode_record(record: MapRecord) -> tuple[bytes, bytes]:
    """Key and value of a record."""
    out = bytearray((FORMAT_VERSION,))
    match record:
        case Registration():
            _put_string(out, record.link)
            _put_string(out, record.source_cluster_id)
            _put_string(out, record.target_cluster_id)
            out += _INT16.pack(record.producer_epoch)
            out += _INT64.pack(record.registered_at_ms)
            _put_string(out, record.worker_id)
        case Opening():
            _put_string(out, record.target_topic)
            out += _INT64.pack(record.source_offset)
            out += _INT64.pack(record.target_offset)
            out += _INT64.pack(record.opened_at_ms)
            _put_string(out, record.worker_id)
            if record.has_older_copies:
                out.append(1)
        case Block():
            _put_block(out, record)
        case Controls():
            for rate in (record.source_bytes_per_second, record.target_bytes_per_second):
                out += _INT64.pack(-1 if rate is None else rate)
            _put_varint(out, len(record.paused))
            for part in sorted(record.paused, key=str):
                _put_string(out, part.topic or "")
                out += _INT32.pack(-1 if part.partition is None else part.partition)
        case Terms():
            _put_varint(out, len(record.terms))
            for name, value in record.terms:
                _put_string(out, name)
                _put_string(out, value)
        case MirroredCommit():
            out += _INT64.pack(-1 if record.before is None else record.before)
            out += _INT64.pack(record.wanted)
        case LedCopy():
            out += record.target_topic_id.bytes
            _put_string(out, record.source_topic)
            out += record.source_topic_id.bytes
            out.append(record.is_made)
    return encode_key(record), bytes(out)


def encode_key(record: MapRecord) -> bytes:
    """The key alone; a null value under it deletes the record."""
    if isinstance(record, Registration):
        return bytes((FORMAT_VERSION, REGISTRATION_KIND)) + _INT64.pack(record.producer_id)
    if isinstance(record, Controls):
        return bytes((FORMAT_VERSION, CONTROLS_KIND))
    if isinstance(record, Terms):
        return bytes((FORMAT_VERSION, TERMS_KIND)) + _INT64.pack(record.nonce)
    if isinstance(record, MirroredCommit):
        return commit_key(record.group_id, record.topic, record.partition)
    if isinstance(record, LedCopy):
        return led_copy_key(record.topic)
    kind = OPENING_KIND if isinstance(record, Opening) else BLOCK_KIND
    out = bytearray((FORMAT_VERSION, kind))
    _put_string(out, record.flow.source_topic)
    out += _INT32.pack(record.flow.partition)
    out += record.flow.source_topic_id.bytes
    out += record.flow.target_topic_id.bytes
    out += _INT64.pack(record.producer_id)
    out += _INT16.pack(record.producer_epoch)
    if isinstance(record, Block):
        out += _INT64.pack(record.source_start)
    out += _INT64.pack(record.nonce)
    return bytes(out)


def commit_key(group_id: str, topic: str, partition: int) -> bytes:
    """The key of a group's `MirroredCommit`."""
    out = bytearray((FORMAT_VERSION, COMMIT_KIND))
    _put_string(out, group_id)
    _put_string(out, topic)
    out += _INT32.pack(partition)
    return bytes(out)


def led_copy_key(topic: str) -> bytes:
    """The key of a topic's `LedCopy`."""
    out = bytearray((FORMAT_VERSION, LED_COPY_KIND))
    _put_string(out, topic)
    return bytes(out)


class DecodedKey(NamedTuple):
    """A key's fields; those that its kind does not have are None, 0 or empty."""

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
    cursor = _Cursor(key)
    cursor.version()
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
            partition=cursor.int32(),
        )
    elif kind == LED_COPY_KIND:
        decoded = DecodedKey(kind, None, 0, topic=cursor.string())
    elif kind in (OPENING_KIND, BLOCK_KIND):
        flow = FlowKey(cursor.string(), cursor.int32(), cursor.uuid(), cursor.uuid())
        producer_id, producer_epoch = cursor.int64(), cursor.int16()
        source_start = cursor.int64() if kind == BLOCK_KIND else 0
        decoded = DecodedKey(kind, flow, producer_id, producer_epoch, source_start, cursor.int64())
    else:
        raise MapFormatError(f"unknown kind of record {kind}")
    cursor.finish()
    return decoded


def decode_record(key: bytes, value: bytes) -> MapRecord:
    """Read a record that is not a tombstone. Raises MapFormatError."""
    decoded = decode_key(key)
    cursor = _Cursor(value)
    cursor.version()
    record: MapRecord
    if decoded.kind == CONTROLS_KIND:
        record = _get_controls(cursor)
    elif decoded.kind == TERMS_KIND:
        pairs = cursor.varint()
        if pairs > TERMS_MAX:
            raise MapFormatError(f"{pairs} terms")
        terms = tuple((cursor.string(), cursor.string()) for _ in range(pairs))
        record = Terms(nonce=decoded.nonce, terms=terms)
    elif decoded.kind == COMMIT_KIND:
        before, wanted = cursor.int64(), cursor.int64()
        record = MirroredCommit(
            group_id=decoded.group_id,
            topic=decoded.topic,
            partition=decoded.partition,
            before=None if before < 0 else before,
            wanted=wanted,
        )
    elif decoded.kind == LED_COPY_KIND:
        record = LedCopy(
            topic=decoded.topic,
            target_topic_id=cursor.uuid(),
            source_topic=cursor.string(),
            source_topic_id=cursor.uuid(),
            is_made=bool(cursor.byte()),
        )
    elif decoded.flow is None:
        record = _get_registration(decoded, cursor)
    elif decoded.kind == OPENING_KIND:
        record = _get_opening(decoded, decoded.flow, cursor)
    else:
        record = _get_block(decoded, decoded.flow, cursor)
    cursor.finish()
    return record


def _put_block(out: bytearray, block: Block) -> None:
    _put_string(out, block.target_topic)
    out += _INT64.pack(block.target_start)
    _put_varint(out, block.source_next - block.source_start)
    out += _INT32.pack(block.next_sequence)
    _put_varint(out, len(block.runs))
    source_end, target_end = block.source_start, block.target_start
    for source_offset, target_offset, count in block.runs:
        _put_varint(out, source_offset - source_end)
        _put_varint(out, target_offset - target_end)
        _put_varint(out, count)
        source_end = source_offset + count
        target_end = target_offset + count


def _get_controls(cursor: _Cursor) -> Controls:
    rates = [None if rate < 0 else rate for rate in (cursor.int64(), cursor.int64())]
    count = cursor.varint()
    if count > PAUSED_MAX:
        raise MapFormatError(f"{count} paused parts")
    paused = set()
    for _ in range(count):
        topic, partition = cursor.string(), cursor.int32()
        paused.add(PausedPart(topic or None, None if partition < 0 else partition))
    return Controls(
        paused=frozenset(paused),
        source_bytes_per_second=rates[0],
        target_bytes_per_second=rates[1],
    )


def _get_registration(key: DecodedKey, cursor: _Cursor) -> Registration:
    return Registration(
        producer_id=key.producer_id,
        link=cursor.string(),
        source_cluster_id=cursor.string(),
        target_cluster_id=cursor.string(),
        producer_epoch=cursor.int16(),
        registered_at_ms=cursor.int64(),
        worker_id=cursor.string(),
    )


def _get_opening(key: DecodedKey, flow: FlowKey, cursor: _Cursor) -> Opening:
    return Opening(
        flow=flow,
        producer_id=key.producer_id,
        producer_epoch=key.producer_epoch,
        nonce=key.nonce,
        target_topic=cursor.string(),
        source_offset=cursor.int64(),
        target_offset=cursor.int64(),
        opened_at_ms=cursor.int64(),
        worker_id=cursor.string(),
        has_older_copies=cursor.flag_at_end(),
    )


def _get_block(key: DecodedKey, flow: FlowKey, cursor: _Cursor) -> Block:
    target_topic = cursor.string()
    target_start = cursor.int64()
    source_next = key.source_start + cursor.varint()
    next_sequence = cursor.int32()
    runs_count = cursor.varint()
    if runs_count > RUNS_PER_BLOCK_MAX:
        raise MapFormatError(f"block of {runs_count} runs")
    runs: list[Run] = []
    source_end, target_end = key.source_start, target_start
    for _ in range(runs_count):
        source_offset = source_end + cursor.varint()
        target_offset = target_end + cursor.varint()
        run = Run(source_offset, target_offset, cursor.varint())
        if run.records_count == 0:
            raise MapFormatError("a run of no records")
        runs.append(run)
        source_end, target_end = run.source_next, run.target_next
    if source_end > source_next:
        raise MapFormatError(f"runs end at {source_end}, the block at {source_next}")
    return Block(
        flow=flow,
        producer_id=key.producer_id,
        producer_epoch=key.producer_epoch,
        nonce=key.nonce,
        target_topic=target_topic,
        source_start=key.source_start,
        target_start=target_start,
        source_next=source_next,
        next_sequence=next_sequence,
        runs=tuple(runs),
    )


def _put_varint(out: bytearray, value: int) -> None:
    assert value >= 0, value
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def _put_string(out: bytearray, value: str) -> None:
    encoded = value.encode()
    _put_varint(out, len(encoded))
    out += encoded


class _Cursor:
    """Reads fields off the front of some bytes; MapFormatError where they end too soon."""

    __slots__ = ("_bytes", "_position")

    def __init__(self, data: bytes) -> None:
        self._bytes = data
        self._position = 0

    def take(self, count: int) -> bytes:
        start, end = self._position, self._position + count
        if end > len(self._bytes):
            raise MapFormatError(f"{count} bytes at {start}, but only {len(self._bytes)} in all")
        self._position = end
        return self._bytes[start:end]

    def version(self) -> None:
        found = self.byte()
        if found != FORMAT_VERSION:
            raise MapFormatError(f"format version {found}, this reader knows {FORMAT_VERSION}")

    def byte(self) -> int:
        return self.take(1)[0]

    def int16(self) -> int:
        value: int = _INT16.unpack(self.take(2))[0]
        return value

    def int32(self) -> int:
        value: int = _INT32.unpack(self.take(4))[0]
        return value

    def int64(self) -> int:
        value: int = _INT64.unpack(self.take(8))[0]
        return value

    def uuid(self) -> uuid.UUID:
        return uuid.UUID(bytes=self.take(16))

    def varint(self) -> int:
        value = 0
        for index in range(VARINT_BYTES_MAX):
            byte = self.byte()
            value |= (byte & 0x7F) << (7 * index)
            if byte < 0x80:
                if value > 0x7FFF_FFFF_FFFF_FFFF:
                    raise MapFormatError("varint beyond 63 bits")
                return value
        raise MapFormatError(f"varint longer than {VARINT_BYTES_MAX} bytes")

    def string(self) -> str:
        try:
            return self.take(self.varint()).decode()
        except UnicodeDecodeError as error:
            raise MapFormatError("string is not UTF-8") from error

    def flag_at_end(self) -> bool:
        """Whether a last byte 1 follows."""
        if self._position == len(self._bytes):
            return False
        if self.byte() != 1:
            raise MapFormatError("a flag that is not 1")
        return True

    def finish(self) -> None:
        if self._position != len(self._bytes):
            raise MapFormatError(f"{len(self._bytes) - self._position} bytes too many")
