"""Where a follower truncates its log to agree with its leader's. Pure.

With every fetch a follower names the leader epoch of its last record (KIP-101, KIP-279, KIP-595).
That epoch may end earlier in the leader's log, or not be there. The leader then returns the largest
epoch up to it and that epoch's end. The follower truncates and fetches again. This takes several
rounds if both logs have epochs that the other one lacks. The high watermark plays no part in it.
"""

from __future__ import annotations

from local_cluster.log.state.epochs import (
    UNDEFINED_EPOCH,
    UNDEFINED_OFFSET,
    EpochEnd,
    LeaderEpochs,
)


def leader_epoch_end(
    epoch: int, leader_epoch: int, epochs: LeaderEpochs, log_end_offset: int
) -> EpochEnd:
    """Return the end of the largest epoch <= `epoch` at a leader, (-1, -1) if that is unknown.

    The log learns an epoch with its first batch, but the leader's own epoch starts before that.
    So an epoch after the newest one of the log ends at the log end.
    """
    latest = epochs.latest
    if epoch == UNDEFINED_EPOCH or epoch > leader_epoch:
        return EpochEnd(UNDEFINED_EPOCH, UNDEFINED_OFFSET)
    if latest == UNDEFINED_EPOCH or latest < epoch:
        known = epoch if latest == UNDEFINED_EPOCH or epoch == leader_epoch else latest
        return EpochEnd(known, log_end_offset)
    return epochs.end_of(epoch, log_end_offset)


def find_divergence(
    fetch_offset: int, last_fetched_epoch: int, leaders_end: EpochEnd
) -> EpochEnd | None:
    """Return the leader's diverging epoch for a follower, None if its log is a prefix.

    `leaders_end` is the end of the largest epoch <= `last_fetched_epoch` at the leader.
    """
    if last_fetched_epoch == UNDEFINED_EPOCH:
        return None  # the follower's log is empty
    if leaders_end.epoch == UNDEFINED_EPOCH:
        return EpochEnd(UNDEFINED_EPOCH, leaders_end.end_offset)
    if leaders_end.epoch < last_fetched_epoch or leaders_end.end_offset < fetch_offset:
        return leaders_end
    return None


def decide_truncation(
    diverging: EpochEnd, epochs: LeaderEpochs, log_end_offset: int, high_watermark: int
) -> int:
    """Return the offset to truncate to, as AbstractFetcherThread.getOffsetTruncationState.

    `diverging` comes from the leader. Epochs and offsets are the follower's own.
    """
    if diverging.end_offset < 0:
        # The leader knows none of these epochs: only what is committed is certain.
        return min(high_watermark, log_end_offset)
    if diverging.epoch == UNDEFINED_EPOCH:
        return min(diverging.end_offset, log_end_offset)
    own = epochs.end_of(diverging.epoch, log_end_offset)
    if own.epoch == UNDEFINED_EPOCH and own.end_offset < 0:
        # The follower has no epochs, or the leader's epoch is newer than all of them.
        return min(diverging.end_offset, log_end_offset)
    if own.epoch != diverging.epoch:
        return min(own.end_offset, log_end_offset)
    return min(own.end_offset, diverging.end_offset, log_end_offset)
