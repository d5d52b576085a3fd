"""Loads a shard from its log: checks and replays every record up to the log end offset."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeVar

from local_cluster.coordinator_runtime.ports import LeadingReplica, ReplayedShard
from local_cluster.records.batch import decode_batch
from local_cluster.records.control import read_marker
from local_cluster.records.header import BatchHeader, crc_is_valid, iter_headers
from local_cluster.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from local_cluster.log.segment.segment import LogSlice

LOAD_BYTES_MAX: Final = 1024 * 1024
"""Read and replayed at a time."""

S = TypeVar("S", bound=ReplayedShard)


async def load_shard(replica: LeadingReplica, new_shard: Callable[[], S]) -> tuple[S, int]:
    """Return a new shard with everything in the log, and the log end offset.

    Uncommitted records are loaded too: this broker leads, so either they will be committed, or it
    loses leadership and drops the state.

    Raises KafkaError(corrupt_message, kafka_storage_error), UnreadableRecordError or OSError.
    """
    shard = new_shard()
    log = replica.log
    offset = log.log_start_offset
    end_offset = log.log_end_offset
    while offset < end_offset:
        log_slice = replica.read(
            offset, bytes_max=LOAD_BYTES_MAX, offset_limit=end_offset, at_least_one_batch=True
        )
        if log_slice is None:
            raise KafkaError(ErrorCode.kafka_storage_error, f"no batch to read at offset {offset}")
        # No other code has the shard yet, so a worker thread may fill it.
        offset = await asyncio.to_thread(replay_batches, shard, log_slice)
    return shard, end_offset


def replay_batches(shard: ReplayedShard, log_slice: LogSlice) -> int:
    """Replay the records of some batches and return the offset after them.

    Outside transactions, only the last record of each key is replayed, as if the slice had been
    compacted.

    Raises KafkaError(corrupt_message), UnreadableRecordError or OSError.
    """
    data = log_slice.read()
    next_offset = -1
    last_values: dict[bytes, bytes | None] = {}
    for position, header in iter_headers(data):
        if not crc_is_valid(data, position, header):
            raise KafkaError(ErrorCode.corrupt_message, f"bad CRC: batch {header.base_offset}")
        next_offset = header.next_offset
        if header.is_transactional:
            # Transactional records must stay in order with the records around them.
            _replay_last(shard, last_values)
            _replay_transactional(shard, data, position, header)
        elif not header.is_control:
            for _, _, key, value, _ in decode_batch(data, position, header):
                if key is not None:
                    # A key takes the place of its last record in the order.
                    last_values.pop(key, None)
                    last_values[key] = value
    if next_offset < 0:
        raise KafkaError(ErrorCode.corrupt_message, f"no complete batch in {len(data)} bytes")
    _replay_last(shard, last_values)
    return next_offset


def _replay_last(shard: ReplayedShard, last_values: dict[bytes, bytes | None]) -> None:
    for key, value in last_values.items():
        shard.replay(key, value)
    last_values.clear()


def _replay_transactional(
    shard: ReplayedShard, data: bytes, position: int, header: BatchHeader
) -> None:
    if header.is_control:
        marker = read_marker(data, position, header)
        if marker is not None:
            shard.end_transaction(header.producer_id, is_commit=marker.is_commit)
        return
    for _, _, key, value, _ in decode_batch(data, position, header):
        if key is not None:
            shard.replay_transactional(header.producer_id, key, value)
