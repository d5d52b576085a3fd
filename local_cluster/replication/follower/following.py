"""Does what follower_decisions.py decides to a replica's log: append, cut back, begin anew.

Guarantees: no batch is appended whose CRC-32C does not match, so that damage on the way or at the
leader does not spread; none of a later epoch than the fetch, as the leader's file may have become
another's by the time it was sent (KAFKA-18723); a log is never cut below the high watermark without
it being said.
"""

from __future__ import annotations

import logging
from typing import Final, NamedTuple

from crc32c import crc32c

from local_cluster.log.disk.disk_work import Deletion
from local_cluster.records.header import CRC_START, LOG_OVERHEAD_BYTES, BatchHeader, complete_header
from local_cluster.replication.follower.follower_decisions import (
    Append,
    Next,
    Retry,
    StartAnew,
    Truncate,
    Wait,
    decide_next,
)
from local_cluster.replication.partition import Partition
from local_cluster.wire.errors import ErrorCode, KafkaError
from local_cluster.wire.fetch import PartitionFetched

EPOCH_MAX: Final = 0x7FFFFFFF
"""Of a leader epoch: an int32."""

_log = logging.getLogger(__name__)


class Position(NamedTuple):
    """Where a follower fetches next."""

    fetch_offset: int
    last_fetched_epoch: int
    log_start_offset: int
    leader_epoch: int


class Followed(NamedTuple):
    """What an answer led to."""

    next: Next
    deletion: Deletion | None = None
    """Files that were cut off: to be removed by a worker, and the directory to be checkpointed
    before the next append."""


def position_of(partition: Partition) -> Position:
    """Where the replica fetches next: at its log end."""
    log = partition.log
    return Position(
        log.log_end_offset, log.leader_epochs.latest, log.log_start_offset, partition.leader_epoch
    )


def take_answer(
    partition: Partition, asked: Position, answer: PartitionFetched, *, now_ms: int
) -> Followed:
    """Act on the answer to a fetch at `asked`.

    Raises KafkaError: corrupt_message where the leader's bytes are damaged, kafka_storage_error.
    """
    log = partition.log
    deletion: Deletion | None = None
    decided = decide_next(
        answer,
        fetch_offset=asked.fetch_offset,
        log_end_offset=log.log_end_offset,
        high_watermark=partition.high_watermark,
        epochs=log.leader_epochs,
    )
    match decided:
        case Append():
            if isinstance(answer.records, memoryview) and len(answer.records):
                headers, size_bytes = read_whole_batches(
                    answer.records, epoch_max=asked.leader_epoch
                )
                if headers:
                    deletion = log.truncation.start_over_with(headers[0], now_ms)
                    if deletion is not None:
                        partition.cut_high_watermark()
                    partition.append_fetched(answer.records[:size_bytes], headers)
            partition.follow_offsets(answer.high_watermark, answer.log_start_offset)
            return Followed(decided, deletion)
        case Truncate(offset):
            if offset < partition.high_watermark:
                _log.error(
                    "%s is cut back to %d, below its high watermark %d",
                    log,
                    offset,
                    partition.high_watermark,
                )
            elif offset < log.log_end_offset:
                _log.info("%s is cut back from %d to %d", log, log.log_end_offset, offset)
            deletion = log.truncation.truncate_to(offset, now_ms)
            partition.cut_high_watermark()
            return Followed(decided, deletion)
        case StartAnew(offset):
            _log.warning("%s begins anew at %d, the leader's log start", log, offset)
            deletion = log.truncation.truncate_fully(offset, now_ms)
            partition.cut_high_watermark()
            return Followed(decided, deletion)
        case Wait() | Retry():
            pass
    return Followed(decided)


def read_whole_batches(
    records: memoryview, *, epoch_max: int = EPOCH_MAX
) -> tuple[list[BatchHeader], int]:
    """Headers of the whole batches up to a leader epoch, and how many bytes these are.

    A leader sends a range of its file, maybe long after it read there. If it was deposed meanwhile
    and cut its log back, the range has what its new leader wrote: whole batches that continue the
    offsets, of a later epoch than the fetch. Behind what was cut off they are another log's.
    Raises KafkaError(corrupt_message) for a batch that is damaged.
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
                f"the batch at offset {header.base_offset} came with another CRC-32C",
            )
        headers.append(header)
        position = end
    return headers, position
