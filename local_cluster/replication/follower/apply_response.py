"""Applies a leader's response to the log of a replica, as response_rules.py decides.

Guarantees:
- No batch is appended whose CRC-32C does not match, so damage on the way or at the leader does
  not spread.
- No batch of a later epoch than the fetch is appended: the leader's file may hold other batches by
  the time it is sent (KAFKA-18723).
- A truncation below the high watermark is logged as an error.
"""

from __future__ import annotations

import logging
from typing import Final, NamedTuple

from crc32c import crc32c

from local_cluster.log.disk.tickets import Deletion
from local_cluster.records.header import CRC_START, LOG_OVERHEAD_BYTES, BatchHeader, complete_header
from local_cluster.replication.follower.response_rules import (
    Action,
    Append,
    Retry,
    Stop,
    Truncate,
    TruncateFully,
    decide_action,
)
from local_cluster.replication.partition import Partition
from local_cluster.wire.errors import ErrorCode, KafkaError
from local_cluster.wire.fetch import PartitionFetchResponse

EPOCH_MAX: Final = 0x7FFFFFFF
"""The largest leader epoch, an int32."""

log = logging.getLogger(__name__)


class Position(NamedTuple):
    """Where a replica fetches next."""

    fetch_offset: int
    last_fetched_epoch: int
    log_start_offset: int
    leader_epoch: int


class Applied(NamedTuple):
    """The action that followed from a response."""

    action: Action
    deletion: Deletion | None = None
    """Truncated files. A worker deletes them, and the directory is checkpointed, before the next
    append."""


def position_of(partition: Partition) -> Position:
    """Return where the replica fetches next: at its log end."""
    replica_log = partition.log
    return Position(
        replica_log.log_end_offset,
        replica_log.leader_epochs.latest,
        replica_log.log_start_offset,
        partition.leader_epoch,
    )


def apply_response(
    partition: Partition, position: Position, response: PartitionFetchResponse, *, now_ms: int
) -> Applied:
    """Act on the response to a fetch at `position`.

    Raises KafkaError: corrupt_message if the leader's bytes are damaged, kafka_storage_error.
    """
    replica_log = partition.log
    action = decide_action(
        response,
        fetch_offset=position.fetch_offset,
        log_end_offset=replica_log.log_end_offset,
        high_watermark=partition.high_watermark,
        epochs=replica_log.leader_epochs,
    )
    deletion: Deletion | None = None
    match action:
        case Append():
            deletion = _append(partition, position, response, now_ms)
        case Truncate(offset):
            _log_truncation(partition, offset)
            deletion = replica_log.truncate_to(offset, now_ms)
            partition.truncate_high_watermark()
        case TruncateFully(offset):
            log.warning("%s starts over at %d, the leader's log start", replica_log, offset)
            deletion = replica_log.truncate_fully(offset, now_ms)
            partition.truncate_high_watermark()
        case Stop() | Retry():
            pass
    return Applied(action, deletion)


def _append(
    partition: Partition, position: Position, response: PartitionFetchResponse, now_ms: int
) -> Deletion | None:
    deletion: Deletion | None = None
    if isinstance(response.records, memoryview) and len(response.records):
        headers, size_bytes = read_whole_batches(response.records, epoch_max=position.leader_epoch)
        if headers:
            deletion = partition.log.begin_with(headers[0], now_ms)
            if deletion is not None:
                partition.truncate_high_watermark()
            partition.append_as_follower(response.records[:size_bytes], headers)
    partition.follow_offsets(response.high_watermark, response.log_start_offset)
    return deletion


def _log_truncation(partition: Partition, offset: int) -> None:
    replica_log, high_watermark = partition.log, partition.high_watermark
    if offset < high_watermark:
        log.error(
            "%s is truncated to %d, below its high watermark %d",
            replica_log,
            offset,
            high_watermark,
        )
    elif offset < replica_log.log_end_offset:
        log.info("%s is truncated from %d to %d", replica_log, replica_log.log_end_offset, offset)


def read_whole_batches(
    records: memoryview, *, epoch_max: int = EPOCH_MAX
) -> tuple[list[BatchHeader], int]:
    """Return the headers of the whole batches up to a leader epoch, and their size in bytes.

    A leader sends a range of its file, maybe long after it looked the range up. If it was deposed
    and truncated its log meanwhile, the range holds batches of its new leader: whole ones that
    continue the offsets, of a later epoch than the fetch. They belong to another log.
    Raises KafkaError(corrupt_message) for a damaged batch.
    """
    headers = []
    position = 0
    while (header := complete_header(records, position)) is not None:
        if header.partition_leader_epoch > epoch_max:
            break
        end = position + header.batch_length + LOG_OVERHEAD_BYTES
        if crc32c(records[position + CRC_START : end]) != header.crc:
            raise KafkaError(
                ErrorCode.corrupt_message,
                f"the batch at offset {header.base_offset} arrived with another CRC-32C",
            )
        headers.append(header)
        position = end
    return headers, position
