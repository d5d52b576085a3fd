"""What follows from a leader's response for one partition. Pure.

    response                                  action
    records                                   Append, take over high watermark and log start
    a diverging epoch                         Truncate, fetch again
    OFFSET_OUT_OF_RANGE, and the leader's     TruncateFully to the leader's log start: the leader
      log starts after the follower's end       has deleted the records in between
    OFFSET_OUT_OF_RANGE, and the follower     TruncateFully too: the leader ends before the
      has no records                            follower, and without epochs none diverges
    FENCED_LEADER_EPOCH                       Stop until the controller sends another epoch
    any other error                           Retry later: the leader may be behind, or starting

A follower fetches at its log end, and only when everything it has appended is durable. So the
fetch offset tells the leader where to read, and how far this replica counts: with `flush: fsync`
up to its fsynced end. While a flush runs, the next records gather at the leader, as appends gather
for a group commit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from local_cluster.log.state.epochs import UNDEFINED_EPOCH, EpochEnd, LeaderEpochs
from local_cluster.replication.truncation import decide_truncation
from local_cluster.wire.errors import ErrorCode
from local_cluster.wire.fetch import PartitionFetchResponse, records_size_bytes

UNKNOWN_LEADER: Final = frozenset(
    {
        ErrorCode.not_leader_or_follower,
        ErrorCode.unknown_leader_epoch,
        ErrorCode.unknown_topic_id,
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.inconsistent_topic_id,
    }
)
"""One of the two brokers does not know the new leader yet. Logged at INFO."""


@dataclass(frozen=True, slots=True)
class Append:
    """Append the records, if any, and take over the leader's offsets."""


@dataclass(frozen=True, slots=True)
class Truncate:
    """Truncate the log to an offset."""

    offset: int


@dataclass(frozen=True, slots=True)
class TruncateFully:
    """Delete all of the log, and start over at an offset."""

    offset: int


@dataclass(frozen=True, slots=True)
class Stop:
    """Do not fetch again until the controller sends another epoch."""


@dataclass(frozen=True, slots=True)
class Retry:
    """Fetch again after a delay."""

    code: ErrorCode


Action = Append | Truncate | TruncateFully | Stop | Retry


def decide_action(
    response: PartitionFetchResponse,
    *,
    fetch_offset: int,
    log_end_offset: int,
    high_watermark: int,
    epochs: LeaderEpochs,
) -> Action:
    """Return what follows from the response to a fetch at `fetch_offset`."""
    if response.error_code == ErrorCode.none:
        if response.diverging_epoch is not None:
            diverging = EpochEnd(*response.diverging_epoch)
            return Truncate(decide_truncation(diverging, epochs, log_end_offset, high_watermark))
        if log_end_offset != fetch_offset and records_size_bytes(response.records):
            return Retry(ErrorCode.offset_out_of_range)  # the log was truncated meanwhile
        return Append()
    if response.error_code == ErrorCode.offset_out_of_range:
        is_empty = epochs.latest == UNDEFINED_EPOCH
        if response.log_start_offset > log_end_offset or (
            is_empty and 0 <= response.log_start_offset < log_end_offset
        ):
            return TruncateFully(response.log_start_offset)
        return Retry(ErrorCode.offset_out_of_range)
    if response.error_code == ErrorCode.fenced_leader_epoch:
        return Stop()
    return Retry(ErrorCode(response.error_code))
