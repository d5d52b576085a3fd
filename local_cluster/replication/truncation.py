"""Where a follower cuts its log back to agree with its leader (KIP-101, KIP-279, KIP-595). Pure.

A follower names with every fetch the epoch of its last record. Where the leader's log has that
epoch ending earlier, or not at all, it answers with the largest epoch it has up to there and where
that one ended, and the follower cuts and fetches again. Several rounds may be needed where both
have epochs that the other has not. The high watermark plays no part in it.
"""

from __future__ import annotations

from local_cluster.log.state.epochs import UNDEFINED_EPOCH, EpochEnd, LeaderEpochs


def find_divergence(
    fetch_offset: int, last_fetched_epoch: int, leaders_end: EpochEnd
) -> EpochEnd | None:
    """What the leader answers to a follower whose log is not a prefix of its own, else None.

    `leaders_end` is where the largest epoch <= `last_fetched_epoch` ended at the leader.
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
    """The offset to cut back to, as AbstractFetcherThread.getOffsetTruncationState.

    `diverging` is the leader's answer; epochs and offsets are the follower's own.
    """
    if diverging.end_offset < 0:
        # The leader knows nothing of our epochs: what is committed is all that is sure.
        return min(high_watermark, log_end_offset)
    if diverging.epoch == UNDEFINED_EPOCH:
        return min(diverging.end_offset, log_end_offset)
    own = epochs.end_of(diverging.epoch, log_end_offset)
    if own.epoch == UNDEFINED_EPOCH and own.end_offset < 0:
        # Either no epochs at all, or the leader's is newer than all of ours.
        return min(diverging.end_offset, log_end_offset)
    if own.epoch != diverging.epoch:
        return min(own.end_offset, log_end_offset)
    return min(own.end_offset, diverging.end_offset, log_end_offset)
