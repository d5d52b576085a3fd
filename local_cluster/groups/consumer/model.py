"""The nouns of a KIP-848 group: member, assignment, epochs. Immutable values.

A member's *current* assignment is what it may hold, its *target* what it shall hold; the two
converge by `reconcile.py`. Of every partition that a member holds the epoch is kept in which it
was assigned (KIP-1251), so that a commit under an older member epoch can be judged.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import Final, NamedTuple

Assignment = Mapping[uuid.UUID, frozenset[int]]
"""Partitions by topic id."""
EpochedAssignment = Mapping[uuid.UUID, Mapping[int, int]]
"""The epoch in which it was assigned, by topic id and partition."""

NOTHING: Final[Assignment] = MappingProxyType({})
NOTHING_EPOCHED: Final[EpochedAssignment] = MappingProxyType({})

JOIN_EPOCH: Final = 0
"""The member epoch of a request to join, and of a member that has no assignment yet."""
LEAVE_EPOCH: Final = -1
LEAVE_STATIC_EPOCH: Final = -2
"""A static member goes and will come back; it keeps its partitions for a session."""
UNKNOWN_EPOCH: Final = -1


class MemberState(Enum):
    """Where a member is on its way to the target; the numbers are those of the records."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    """It has to give up partitions, and has not confirmed it."""
    UNRELEASED_PARTITIONS = 2
    """It gets partitions that another member has not given up yet."""
    UNKNOWN = 127


class ConsumerGroupState(Enum):
    """The states with the names that clients see."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


class ConsumerMember(NamedTuple):
    """One member; what it says of itself, and how far its assignment is."""

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topic_names: tuple[str, ...] = ()
    """Sorted."""
    topic_regex: str = ""
    rebalance_timeout_ms: int = -1
    server_assignor: str | None = None
    member_epoch: int = JOIN_EPOCH
    previous_member_epoch: int = UNKNOWN_EPOCH
    state: MemberState = MemberState.STABLE
    assigned: EpochedAssignment = NOTHING_EPOCHED
    pending_revocation: EpochedAssignment = NOTHING_EPOCHED

    def is_reconciled_to(self, epoch: int) -> bool:
        """Whether it holds just the target of that epoch."""
        return self.state is MemberState.STABLE and self.member_epoch == epoch

    def at_epoch(self, epoch: int) -> ConsumerMember:
        """The member under another epoch; the one it had is remembered for lost answers."""
        return self._replace(member_epoch=epoch, previous_member_epoch=self.member_epoch)


class ResolvedRegex(NamedTuple):
    """The topics that a regular expression matched."""

    topics: tuple[str, ...]
    """Sorted."""
    version: int
    """Of the metadata in which they were looked for."""
    timestamp_ms: int


def plain(assignment: EpochedAssignment) -> Assignment:
    """The same partitions without their epochs."""
    return {topic_id: frozenset(partitions) for topic_id, partitions in assignment.items()}


def contains(assignment: EpochedAssignment, owned: Assignment) -> bool:
    """Whether all of the owned partitions are in the assignment."""
    return all(
        assignment.get(topic_id, {}).keys() >= partitions for topic_id, partitions in owned.items()
    )
