"""Until when the copies of a link are complete, and where their sources ended. Pure.

Topic: `heliograph-completeness.<link>.internal` on the target, one partition, deleted by age. A
record has no key. Its value is binary; numbers are big-endian, `varint` is unsigned LEB128,
`signed` a zigzag varint, `time` a varint: 0 for none, else 1 + zigzag(written_ms - time in ms).

    value      version byte (1), kind byte (0 changes, 1 vector), worker string, run uint64,
               round varint, part varint, parts varint, written_ms int64,
               count varint, then per session      node_id varint, asked time
               count varint, then per topic        name string, topic id 16 bytes, count varint,
                                                   then its partitions
    partition  partition varint, generation varint, position varint, session varint,
               epoch varint, sampled time, end varint (only with sampled),
               complete_through time, proved_through time, gaps varint, hold byte,
               producer id int64 and since time (hold 1), state string (hold 2)

Meaning. A *run* is one life of a worker. In each *round* it writes what has changed since the round
before, about once a second. A vector has all its partitions, in `parts` records of one round. It
comes first, after each failed write, and every five minutes. Readers apply changes only if they
have every round since a vector.

`session` is 0, or 1 + the index of a session: then each later round's `asked` of that session is a
new sample of the partition with the same end, until the partition is named again. If `position` has
reached the end, the copy is complete through that time as well.

A partition is complete through T if every record that the source committed before T is on the
target, or left out. The link's rules, an aborted transaction or the journal leave a record out.
`gaps` counts the journal's entries. `metrics/end_samples.py` says what proves a sample, and which
samples a new leader epoch withdraws: all after `proved_through`.

A worker also states which partitions its source has, and as of when: `listing.py`. Nothing else
proves that a topic has no more partitions than those that are named.

`position` is the source offset of the next record to copy. `generation` is the producer epoch of
the copy's opening in the map: with a larger one the copy may have been started over.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Iterable, Iterator
from enum import IntEnum
from itertools import groupby
from typing import Final, NamedTuple

from local_cluster.foreign_json import INT32_MAX, INT64_MAX, INT64_MIN
from mirror_maker.formats.fields import Cursor, MapFormatError, put_string, put_varint

COMPLETENESS_VERSION: Final = 1
PARTITIONS_PER_RECORD_MAX: Final = 4_000
"""Of a vector; with long topic names such a record has 200 kB."""
_FIXED: Final = struct.Struct(">Q")
_TIME: Final = struct.Struct(">q")


def completeness_topic_name(link: str) -> str:
    """Return the link's topic; MirrorMaker 2's pattern for internal topics excludes it."""
    return f"heliograph-completeness.{link}.internal"


class HoldKind(IntEnum):
    """What keeps a copy from being complete, as far as its worker knows."""

    NONE = 0
    OPEN_TRANSACTION = 1
    STOPPED = 2


class Hold(NamedTuple):
    """What holds a partition back."""

    kind: HoldKind
    producer_id: int = -1
    """With OPEN_TRANSACTION; -1 while it is unknown."""
    since_ms: int | None = None
    """With OPEN_TRANSACTION: when the worker first saw it, by the worker's clock."""
    state: str = ""
    """With STOPPED: the flow's state."""


NO_HOLD: Final = Hold(HoldKind.NONE)


class Entry(NamedTuple):
    """What a worker states of one partition. Times are milliseconds of its wall clock."""

    topic: str
    topic_id: uuid.UUID
    partition: int
    generation: int
    position: int
    session: int | None
    """Index of the session that repeats the sample; None if none does."""
    epoch: int
    """Leader epoch of the sample; -1 if the source has none, or no sample was taken."""
    sampled_ms: int | None
    end: int | None
    """The source's end at `sampled_ms`; None without a sample."""
    complete_through_ms: int | None
    proved_through_ms: int | None
    gaps: int
    hold: Hold


class SourceSession(NamedTuple):
    """A worker's fetch session with one source broker, or its listing."""

    node_id: int
    asked_ms: int | None
    """When the last request that was answered was written."""


class Statement(NamedTuple):
    """One record."""

    is_vector: bool
    worker_id: str
    run: int
    round: int
    part: int
    parts: int
    written_ms: int
    sessions: tuple[SourceSession, ...]
    entries: tuple[Entry, ...]


def split_vector(statement: Statement) -> Iterator[Statement]:
    """Yield the parts of a vector, each small enough for a record."""
    entries = sorted(statement.entries, key=lambda each: (each.topic, each.partition))
    starts = range(0, max(1, len(entries)), PARTITIONS_PER_RECORD_MAX)
    for part, start in enumerate(starts):
        chosen = tuple(entries[start : start + PARTITIONS_PER_RECORD_MAX])
        yield statement._replace(part=part, parts=len(starts), entries=chosen)


def encode_statement(statement: Statement) -> bytes:
    """Return the value of a record."""
    out = bytearray((COMPLETENESS_VERSION, int(statement.is_vector)))
    put_string(out, statement.worker_id)
    out += _FIXED.pack(statement.run)
    for number in (statement.round, statement.part, statement.parts):
        put_varint(out, number)
    written_ms = statement.written_ms
    out += _TIME.pack(written_ms)
    put_varint(out, len(statement.sessions))
    for session in statement.sessions:
        put_varint(out, session.node_id)
        _put_time(out, session.asked_ms, written_ms)
    topics = [
        (*key, list(found))
        for key, found in groupby(statement.entries, key=lambda each: (each.topic, each.topic_id))
    ]
    put_varint(out, len(topics))
    for name, topic_id, entries in topics:
        put_string(out, name)
        out += topic_id.bytes
        put_varint(out, len(entries))
        _put_entries(out, entries, written_ms)
    return bytes(out)


def _put_entries(out: bytearray, entries: Iterable[Entry], written_ms: int) -> None:
    for entry in entries:
        put_varint(out, entry.partition)
        put_varint(out, entry.generation)
        put_varint(out, entry.position)
        put_varint(out, 0 if entry.session is None else entry.session + 1)
        put_varint(out, entry.epoch + 1)
        _put_time(out, entry.sampled_ms, written_ms)
        if entry.sampled_ms is not None:
            assert entry.end is not None, entry
            put_varint(out, entry.end)
        _put_time(out, entry.complete_through_ms, written_ms)
        _put_time(out, entry.proved_through_ms, written_ms)
        put_varint(out, entry.gaps)
        out.append(entry.hold.kind)
        if entry.hold.kind is HoldKind.OPEN_TRANSACTION:
            out += _TIME.pack(entry.hold.producer_id)
            _put_time(out, entry.hold.since_ms, written_ms)
        elif entry.hold.kind is HoldKind.STOPPED:
            put_string(out, entry.hold.state)


def decode_statement(value: bytes) -> Statement:
    """Decode a value. Raises MapFormatError."""
    cursor = Cursor(value)
    cursor.version(COMPLETENESS_VERSION)
    kind = cursor.byte()
    if kind > 1:
        raise MapFormatError(f"unknown kind {kind} of completeness record")
    worker_id, run = cursor.string(), _FIXED.unpack(cursor.take(_FIXED.size))[0]
    number, part, parts = cursor.varint(), cursor.varint(), cursor.varint()
    if part >= parts:
        raise MapFormatError(f"part {part} of {parts}")
    written_ms = cursor.int64()
    sessions = tuple(
        SourceSession(cursor.varint(), _get_time(cursor, written_ms))
        for _ in range(cursor.varint())
    )
    entries: list[Entry] = []
    for _ in range(cursor.varint()):
        name, topic_id = cursor.string(), cursor.uuid()
        for _ in range(cursor.varint()):
            entries.append(_get_entry(cursor, name, topic_id, written_ms, len(sessions)))
    cursor.finish()
    return Statement(
        bool(kind), worker_id, run, number, part, parts, written_ms, sessions, tuple(entries)
    )


def _get_entry(
    cursor: Cursor, topic: str, topic_id: uuid.UUID, written_ms: int, sessions_count: int
) -> Entry:
    partition, generation, position = cursor.varint(), cursor.varint(), cursor.varint()
    session, epoch = cursor.varint(), cursor.varint() - 1
    if session > sessions_count:
        raise MapFormatError(f"session {session} of {sessions_count}")
    if max(partition, epoch) > INT32_MAX:
        raise MapFormatError(f"partition {partition}, leader epoch {epoch}")
    sampled_ms = _get_time(cursor, written_ms)
    return Entry(
        topic=topic,
        topic_id=topic_id,
        partition=partition,
        generation=generation,
        position=position,
        session=session - 1 if session else None,
        epoch=epoch,
        sampled_ms=sampled_ms,
        end=None if sampled_ms is None else cursor.varint(),
        complete_through_ms=_get_time(cursor, written_ms),
        proved_through_ms=_get_time(cursor, written_ms),
        gaps=cursor.varint(),
        hold=_get_hold(cursor, written_ms),
    )


def _get_hold(cursor: Cursor, written_ms: int) -> Hold:
    try:
        kind = HoldKind(cursor.byte())
    except ValueError as error:
        raise MapFormatError(str(error)) from error
    if kind is HoldKind.OPEN_TRANSACTION:
        return Hold(kind, cursor.int64(), _get_time(cursor, written_ms))
    if kind is HoldKind.STOPPED:
        return Hold(kind, state=cursor.string())
    return NO_HOLD


def _put_time(out: bytearray, time_ms: int | None, written_ms: int) -> None:
    if time_ms is None:
        put_varint(out, 0)
        return
    ago_ms = written_ms - time_ms
    put_varint(out, 1 + ((ago_ms << 1) ^ (ago_ms >> 63)))


def _get_time(cursor: Cursor, written_ms: int) -> int | None:
    value = cursor.varint()
    if not value:
        return None
    value -= 1
    time_ms = written_ms - ((value >> 1) ^ -(value & 1))
    if not INT64_MIN <= time_ms <= INT64_MAX:
        raise MapFormatError(f"no time: {time_ms}")
    return time_ms
