"""What a copy of a replica does next, in another log directory of the same broker (KIP-113). Pure.

The copy follows the replica as a follower follows its leader, whatever becomes of that one: it is
appended to, cut back by epochs (the broker follows another leader), begun anew, shortened at its
start.

    the copy                          next
    ends before the replica begins,   BeginAt where the replica begins
    or begins after it
    left the replica's history        CutTo where they part, BeginAt where nothing is common
    ends before the replica           CopyFrom its end
    ends with it                      Level
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from local_cluster.log.state.epochs import UNDEFINED_EPOCH, EpochEnd, LeaderEpochs
from local_cluster.replication.truncation import decide_truncation, find_divergence


class Ends(Protocol):
    """Where a log begins and ends."""

    @property
    def log_start_offset(self) -> int: ...
    @property
    def log_end_offset(self) -> int: ...
    @property
    def leader_epochs(self) -> LeaderEpochs: ...


@dataclass(frozen=True, slots=True)
class BeginAt:
    """Throw the copy away and begin at an offset."""

    offset: int


@dataclass(frozen=True, slots=True)
class CutTo:
    """Cut the copy back to an offset."""

    offset: int


@dataclass(frozen=True, slots=True)
class CopyFrom:
    """Append what the replica has from an offset on."""

    offset: int


@dataclass(frozen=True, slots=True)
class Level:
    """Both end at the same offset, after the same records."""


Step = BeginAt | CutTo | CopyFrom | Level


def decide_step(replica: Ends, copy: Ends) -> Step:
    """What the copy does next."""
    start, end = replica.log_start_offset, copy.log_end_offset
    if end < start or copy.log_start_offset > start:
        return BeginAt(start)
    latest = copy.leader_epochs.latest
    diverging = find_divergence(end, latest, _end_of(replica, latest))
    if diverging is None and end > replica.log_end_offset:
        # Neither has a record of any epoch, and the replica was begun anew further down.
        diverging = EpochEnd(UNDEFINED_EPOCH, -1)
    if diverging is not None:
        if diverging.end_offset < 0:
            return BeginAt(start)
        offset = decide_truncation(diverging, copy.leader_epochs, end, copy.log_start_offset)
        return CutTo(offset) if start <= offset < end else BeginAt(start)
    if end < replica.log_end_offset:
        return CopyFrom(end)
    return Level()


def _end_of(replica: Ends, epoch: int) -> EpochEnd:
    """Where an epoch ended in the replica, or, where that was cut off, what is left of it."""
    latest = replica.leader_epochs.latest
    if UNDEFINED_EPOCH < latest < epoch:
        return EpochEnd(latest, replica.log_end_offset)
    return replica.leader_epochs.end_of(epoch, replica.log_end_offset)
