"""What a follower does with its leader's answer. Pure: it looks at an answer and says what next.

    answer                             next
    records                            Append, raise high watermark and log start, fetch again
    a diverging epoch                  Truncate, fetch again
    OFFSET_OUT_OF_RANGE, and the       StartAnew where the leader's log begins: what lies between
      leader's log begins after ours     is deleted at the leader
    OFFSET_OUT_OF_RANGE, and ours      StartAnew there as well: the leader ends before ours begins,
      has nothing in it                  and there is nothing of which it could tell where they part
    FENCED_LEADER_EPOCH                Wait for the controller: we are behind
    any other error                    Retry later: the leader may be behind, or starting

A follower fetches at its log end, and only when everything it has appended is durable, so the
fetch offset tells the leader two things at once: where to read on, and how far this replica counts
(its fsynced end with `flush: fsync`). While a flush runs the next records gather at the leader, as
appends gather for a group commit.
"""

from __future__ import annotations

from dataclasses import dataclass

from local_cluster.log.state.epochs import UNDEFINED_EPOCH, EpochEnd, LeaderEpochs
from local_cluster.replication.truncation import decide_truncation
from local_cluster.wire.errors import ErrorCode
from local_cluster.wire.fetch import PartitionFetchResponse, records_size_bytes


@dataclass(frozen=True, slots=True)
class Append:
    """Append the answer's records, if any, and take over the leader's offsets."""


@dataclass(frozen=True, slots=True)
class Truncate:
    """Cut the log back to an offset."""

    offset: int


@dataclass(frozen=True, slots=True)
class StartAnew:
    """Throw the log away and begin at an offset."""

    offset: int


@dataclass(frozen=True, slots=True)
class Wait:
    """Fetch no more until the controller says something new."""


@dataclass(frozen=True, slots=True)
class Retry:
    """Fetch again after a while."""

    code: ErrorCode


Next = Append | Truncate | StartAnew | Wait | Retry


def decide_next(
    answer: PartitionFetchResponse,
    *,
    fetch_offset: int,
    log_end_offset: int,
    high_watermark: int,
    epochs: LeaderEpochs,
) -> Next:
    """What follows from the answer to a fetch at `fetch_offset`."""
    if answer.error_code == ErrorCode.none:
        if answer.diverging_epoch is not None:
            diverging = EpochEnd(*answer.diverging_epoch)
            return Truncate(decide_truncation(diverging, epochs, log_end_offset, high_watermark))
        if log_end_offset != fetch_offset and records_size_bytes(answer.records):
            return Retry(ErrorCode.offset_out_of_range)  # somebody cut the log meanwhile
        return Append()
    if answer.error_code == ErrorCode.offset_out_of_range:
        is_empty = epochs.latest == UNDEFINED_EPOCH
        if answer.log_start_offset > log_end_offset or (
            is_empty and 0 <= answer.log_start_offset < log_end_offset
        ):
            return StartAnew(answer.log_start_offset)
        return Retry(ErrorCode.offset_out_of_range)
    if answer.error_code == ErrorCode.fenced_leader_epoch:
        return Wait()
    return Retry(ErrorCode(answer.error_code))
