"""Whole records of an offset-map topic, to and from bytes (`records.py` has the layout and the
keys).
"""

from __future__ import annotations

from typing import Final

from mirror_maker.formats.controls import Controls, PausedPart
from mirror_maker.formats.fields import (
    INT16,
    INT32,
    INT64,
    Cursor,
    MapFormatError,
    check_range,
    put_string,
    put_varint,
)
from mirror_maker.formats.marks import MirroredCommit, OwnedCopy
from mirror_maker.formats.offset_map import Run
from mirror_maker.formats.records import (
    COMMIT_KIND,
    CONTROLS_KIND,
    FORMAT_VERSION,
    OPENING_KIND,
    OWNED_COPY_KIND,
    TERMS_KIND,
    Block,
    DecodedKey,
    FlowKey,
    MapRecord,
    Opening,
    Registration,
    Terms,
    decode_key,
    encode_key,
)

RUNS_PER_BLOCK_MAX: Final = 1_000_000
"""Readers refuse larger blocks; the mirror writes far smaller ones."""
PAUSED_MAX: Final = 100_000
"""Readers refuse more paused parts of one link."""
TERMS_MAX: Final = 100
"""Readers refuse more terms of one link."""


def encode_record(record: MapRecord) -> tuple[bytes, bytes]:
    """Return key and value of a record."""
    out = bytearray((FORMAT_VERSION,))
    match record:
        case Registration():
            put_string(out, record.link)
            put_string(out, record.source_cluster_id)
            put_string(out, record.target_cluster_id)
            out += INT16.pack(record.producer_epoch)
            out += INT64.pack(record.registered_at_ms)
            put_string(out, record.worker_id)
        case Opening():
            put_string(out, record.target_topic)
            out += INT64.pack(record.source_offset)
            out += INT64.pack(record.target_offset)
            out += INT64.pack(record.opened_at_ms)
            put_string(out, record.worker_id)
            if record.has_older_copies:
                out.append(1)
        case Block():
            _put_block(out, record)
        case Controls():
            for rate in (record.source_bytes_per_second, record.target_bytes_per_second):
                out += INT64.pack(-1 if rate is None else rate)
            put_varint(out, len(record.paused))
            for part in sorted(record.paused, key=str):
                put_string(out, part.topic or "")
                out += INT32.pack(-1 if part.partition is None else part.partition)
        case Terms():
            put_varint(out, len(record.terms))
            for name, value in record.terms:
                put_string(out, name)
                put_string(out, value)
        case MirroredCommit():
            out += INT64.pack(-1 if record.before is None else record.before)
            out += INT64.pack(record.wanted)
        case OwnedCopy():
            out += record.target_topic_id.bytes
            put_string(out, record.source_topic)
            out += record.source_topic_id.bytes
            out.append(record.is_created)
    return encode_key(record), bytes(out)


def decode_record(key: bytes, value: bytes) -> MapRecord:
    """Read a record that is not a tombstone. Raises MapFormatError."""
    decoded = decode_key(key)
    cursor = Cursor(value)
    cursor.version(FORMAT_VERSION)
    record: MapRecord
    if decoded.kind == CONTROLS_KIND:
        record = _get_controls(cursor)
    elif decoded.kind == TERMS_KIND:
        pairs = cursor.varint()
        if pairs > TERMS_MAX:
            raise MapFormatError(f"{pairs} terms, more than {TERMS_MAX}")
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
        check_range(wanted, None)
    elif decoded.kind == OWNED_COPY_KIND:
        record = OwnedCopy(
            topic=decoded.topic,
            target_topic_id=cursor.uuid(),
            source_topic=cursor.string(),
            source_topic_id=cursor.uuid(),
            is_created=cursor.flag(),
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
    put_string(out, block.target_topic)
    out += INT64.pack(block.target_start)
    put_varint(out, block.source_next - block.source_start)
    out += INT32.pack(block.next_sequence)
    put_varint(out, len(block.runs))
    source_end, target_end = block.source_start, block.target_start
    for source_offset, target_offset, count in block.runs:
        put_varint(out, source_offset - source_end)
        put_varint(out, target_offset - target_end)
        put_varint(out, count)
        source_end = source_offset + count
        target_end = target_offset + count


def _get_controls(cursor: Cursor) -> Controls:
    rates = [None if rate < 0 else rate for rate in (cursor.int64(), cursor.int64())]
    count = cursor.varint()
    if count > PAUSED_MAX:
        raise MapFormatError(f"{count} paused parts, more than {PAUSED_MAX}")
    paused = set()
    for _ in range(count):
        topic, partition = cursor.string(), cursor.int32()
        if not topic and partition >= 0:
            raise MapFormatError(f"partition {partition} of no topic is paused")
        paused.add(PausedPart(topic or None, None if partition < 0 else partition))
    return Controls(
        paused=frozenset(paused),
        source_bytes_per_second=rates[0],
        target_bytes_per_second=rates[1],
    )


def _get_registration(key: DecodedKey, cursor: Cursor) -> Registration:
    return Registration(
        producer_id=key.producer_id,
        link=cursor.string(),
        source_cluster_id=cursor.string(),
        target_cluster_id=cursor.string(),
        producer_epoch=cursor.int16(),
        registered_at_ms=cursor.int64(),
        worker_id=cursor.string(),
    )


def _get_opening(key: DecodedKey, flow: FlowKey, cursor: Cursor) -> Opening:
    opening = Opening(
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
    check_range(opening.source_offset, None)
    check_range(opening.target_offset, None)
    return opening


def _get_block(key: DecodedKey, flow: FlowKey, cursor: Cursor) -> Block:
    target_topic = cursor.string()
    target_start = cursor.int64()
    source_next = key.source_start + cursor.varint()
    next_sequence = cursor.int32()
    check_range(key.source_start, source_next)
    check_range(target_start, None)
    runs_count = cursor.varint()
    if runs_count > RUNS_PER_BLOCK_MAX:
        raise MapFormatError(f"a block of {runs_count} runs, more than {RUNS_PER_BLOCK_MAX}")
    runs: list[Run] = []
    source_end, target_end = key.source_start, target_start
    for _ in range(runs_count):
        source_offset = source_end + cursor.varint()
        target_offset = target_end + cursor.varint()
        run = Run(source_offset, target_offset, cursor.varint())
        if run.records_count == 0:
            raise MapFormatError("a run has no records")
        runs.append(run)
        source_end, target_end = run.source_next, run.target_next
    if source_end > source_next:
        raise MapFormatError(f"runs end at {source_end}, the block at {source_next}")
    check_range(target_start, target_end)
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
