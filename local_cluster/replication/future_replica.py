"""The next step of a future replica: a copy in another log directory of the broker (KIP-113). Pure.

The copy follows the replica as a follower follows its leader, through everything that happens to
the replica: appends, truncation by epochs under another leader, a full truncation, a higher log
start.

    the copy                              next step
    ends before the replica's start, or   TruncateFully to the replica's start
    starts after it
    diverges from the replica             TruncateTo the divergence; TruncateFully if nothing is
                                          common
    ends before the replica's end         CopyFrom its own end
    ends with the replica                 CaughtUp
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from local_cluster.log.state.epochs import UNDEFINED_EPOCH, EpochEnd, LeaderEpochs
from local_cluster.replication.truncation import decide_truncation, find_divergence


class LogBounds(Protocol):
    """The start, the end and the epochs of a log."""

    @property
    def log_start_offset(self) -> int: ...
    @property
    def log_end_offset(self) -> int: ...
    @property
    def leader_epochs(self) -> LeaderEpochs: ...


@dataclass(frozen=True, slots=True)
class TruncateFully:
    """Delete all of the copy and start over at an offset."""

    offset: int


@dataclass(frozen=True, slots=True)
class TruncateTo:
    """Truncate the copy to an offset."""

    offset: int


@dataclass(frozen=True, slots=True)
class CopyFrom:
    """Append the replica's records from an offset on."""

    offset: int


@dataclass(frozen=True, slots=True)
class CaughtUp:
    """Both end at the same offset, after the same records."""


Step = TruncateFully | TruncateTo | CopyFrom | CaughtUp


def decide_step(replica: LogBounds, copy: LogBounds) -> Step:
    """Return the next step of the copy."""
    start, end = replica.log_start_offset, copy.log_end_offset
    if end < start or copy.log_start_offset > start:
        return TruncateFully(start)
    latest = copy.leader_epochs.latest
    diverging = find_divergence(end, latest, _end_of(replica, latest))
    if diverging is None and end > replica.log_end_offset:
        # Neither has a record of any epoch, and the replica started over at a lower offset.
        diverging = EpochEnd(UNDEFINED_EPOCH, -1)
    if diverging is not None:
        if diverging.end_offset < 0:
            return TruncateFully(start)
        offset = decide_truncation(diverging, copy.leader_epochs, end, copy.log_start_offset)
        return TruncateTo(offset) if start <= offset < end else TruncateFully(start)
    if end < replica.log_end_offset:
        return CopyFrom(end)
    return CaughtUp()


def _end_of(replica: LogBounds, epoch: int) -> EpochEnd:
    """Return the end of an epoch in the replica, or of what a truncation left of it."""
    latest = replica.leader_epochs.latest
    if UNDEFINED_EPOCH < latest < epoch:
        return EpochEnd(latest, replica.log_end_offset)
    return replica.leader_epochs.end_of(epoch, replica.log_end_offset)
