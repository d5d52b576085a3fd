"""Producer snapshot files: Kafka's format version 1, followed by a part that Kafka does not write.

    version int16 = 1, crc uint32 (CRC-32C of everything behind it), count int32, then per producer
    id int64, epoch int16, last_sequence int32, last_offset int64, offset_delta int32,
    timestamp int64, coordinator_epoch int32, current_txn_first_offset int64

Kafka keeps only the newest batch of a producer here, so after a restart a repetition of an older
one is an error. Our part holds the older batches of the window. It follows Kafka's part, inside the
CRC, and Kafka's reader ignores it:

    "HLG1", count int32, then per producer id int64, n int8 and n times
    last_sequence int32, last_offset int64, offset_delta int32, timestamp int64

A snapshot written by Kafka has no such part and is valid too.
"""

from __future__ import annotations

import struct
from typing import Final

from crc32c import crc32c

from local_cluster.log.state.producer_state import (
    BATCHES_KEPT,
    ProducerEntry,
    ProducerState,
    SequencedBatch,
)

SNAPSHOT_SUFFIX: Final = ".snapshot"

_VERSION: Final = 1
_HEAD: Final = struct.Struct(">hI")
_COUNT: Final = struct.Struct(">i")
_ENTRY: Final = struct.Struct(">qhiqiqiq")
_WINDOW: Final = struct.Struct(">qb")
_BATCH: Final = struct.Struct(">iqiq")
_WINDOWS_MAGIC: Final = b"HLG1"


class SnapshotCorruptError(ValueError):
    """A snapshot that is not in its format; an older one or a replay is used instead."""


def encode_snapshot(state: ProducerState) -> bytes:
    """Return the snapshot file of a producer state."""
    body = bytearray(_COUNT.pack(len(state)))
    windows = bytearray()
    windows_count = 0
    for producer_id, entry in state:
        # A producer whose only trace is a transaction marker has no batch.
        last = entry.batches[-1] if entry.batches else SequencedBatch(-1, -1, 0, -1)
        body += _ENTRY.pack(
            producer_id,
            entry.epoch,
            last.last_sequence,
            last.last_offset,
            last.offset_delta,
            entry.last_timestamp_ms,
            entry.coordinator_epoch,
            entry.transaction_first_offset,
        )
        older = entry.batches[:-1]
        if older:
            windows_count += 1
            windows += _WINDOW.pack(producer_id, len(older))
            for batch in older:
                windows += _BATCH.pack(*batch)
    body += _WINDOWS_MAGIC + _COUNT.pack(windows_count) + windows
    return _HEAD.pack(_VERSION, crc32c(body)) + body


def decode_snapshot(content: bytes, end_offset: int, now_ms: int) -> ProducerState:
    """Return the producer state as of `end_offset`. Raises SnapshotCorruptError."""
    try:
        version, crc = _HEAD.unpack_from(content)
        if version != _VERSION:
            raise SnapshotCorruptError(f"snapshot of version {version}")
        if crc32c(memoryview(content)[_HEAD.size :]) != crc:
            raise SnapshotCorruptError("the CRC-32C of the snapshot does not match")
        return _decode_body(content, end_offset, now_ms)
    except struct.error as error:
        raise SnapshotCorruptError(f"snapshot of {len(content)} bytes: {error}") from error


def _decode_body(content: bytes, end_offset: int, now_ms: int) -> ProducerState:
    state = ProducerState(end_offset)
    position = _HEAD.size
    (count,) = _COUNT.unpack_from(content, position)
    position += _COUNT.size
    for _ in range(count):
        (
            producer_id,
            epoch,
            last_sequence,
            last_offset,
            offset_delta,
            timestamp_ms,
            coordinator_epoch,
            transaction_first_offset,
        ) = _ENTRY.unpack_from(content, position)
        position += _ENTRY.size
        entry = ProducerEntry(epoch)
        entry.last_timestamp_ms = timestamp_ms
        entry.last_seen_ms = now_ms
        entry.coordinator_epoch = coordinator_epoch
        entry.transaction_first_offset = transaction_first_offset
        if last_offset >= 0:
            entry.batches.append(
                SequencedBatch(last_sequence, last_offset, offset_delta, timestamp_ms)
            )
        state.restore(producer_id, entry)
    if content[position : position + len(_WINDOWS_MAGIC)] != _WINDOWS_MAGIC:
        return state
    position += len(_WINDOWS_MAGIC)
    (count,) = _COUNT.unpack_from(content, position)
    position += _COUNT.size
    for _ in range(count):
        producer_id, batches_count = _WINDOW.unpack_from(content, position)
        position += _WINDOW.size
        if not 0 < batches_count < BATCHES_KEPT:
            raise SnapshotCorruptError(f"a window of {batches_count} batches")
        known = state.get(producer_id)
        for index in range(batches_count):
            batch = SequencedBatch._make(_BATCH.unpack_from(content, position))
            position += _BATCH.size
            if known is not None:
                known.batches.insert(index, batch)
    return state
