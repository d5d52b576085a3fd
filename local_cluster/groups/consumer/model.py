"""The members, assignments and epochs of a KIP-848 group. Immutable values.

A member's *current* assignment is what it may hold, its *target* is what it is to hold;
`reconcile.py` brings the current one to the target. Each held partition has the epoch in which it
was assigned (KIP-1251). A commit with an older member epoch is checked against that epoch.
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
"""The epoch of the assignment, by topic id and partition."""

NOTHING: Final[Assignment] = MappingProxyType({})
NOTHING_EPOCHED: Final[EpochedAssignment] = MappingProxyType({})

JOIN_EPOCH: Final = 0
"""The member epoch of a request to join, and of a member that has no assignment yet."""
LEAVE_EPOCH: Final = -1
LEAVE_STATIC_EPOCH: Final = -2
"""A static member leaves and will return; it keeps its partitions for a session timeout."""
UNKNOWN_EPOCH: Final = -1


class MemberState(Enum):
    """The progress of a member to its target; the numbers are those of the records."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    """The member has to revoke partitions and has not confirmed it."""
    UNRELEASED_PARTITIONS = 2
    """The member waits for partitions that other members have not revoked yet."""
    UNKNOWN = 127


class ConsumerGroupState(Enum):
    """The states, with the names that clients see."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


class ClassicMetadata(NamedTuple):
    """What a member that uses the classic protocol said in its JoinGroup."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]
    """(assignor, subscription) in the member's order of preference; at least one."""


class ConsumerMember(NamedTuple):
    """One member: its metadata and its current assignment."""

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
    classic: ClassicMetadata | None = None
    """None for a member that uses the consumer protocol."""
    member_epoch: int = JOIN_EPOCH
    previous_member_epoch: int = UNKNOWN_EPOCH
    state: MemberState = MemberState.STABLE
    assigned: EpochedAssignment = NOTHING_EPOCHED
    pending_revocation: EpochedAssignment = NOTHING_EPOCHED

    def is_reconciled_to(self, epoch: int) -> bool:
        """Return whether the member holds exactly the target of that epoch."""
        return self.state is MemberState.STABLE and self.member_epoch == epoch

    def held(self, topic_id: uuid.UUID) -> Mapping[int, int]:
        """Return the epochs of a topic's partitions that it may hold or has not revoked yet."""
        return {**self.pending_revocation.get(topic_id, {}), **self.assigned.get(topic_id, {})}

    def at_epoch(self, epoch: int) -> ConsumerMember:
        """Return the member at another epoch. The previous epoch is kept for lost responses."""
        return self._replace(member_epoch=epoch, previous_member_epoch=self.member_epoch)


class ResolvedRegex(NamedTuple):
    """The topics that a regular expression matches."""

    topics: tuple[str, ...]
    """Sorted."""
    version: int
    """The version of the metadata that was searched."""
    timestamp_ms: int


def plain(assignment: EpochedAssignment) -> Assignment:
    """Return the partitions without their epochs."""
    return {topic_id: frozenset(partitions) for topic_id, partitions in assignment.items()}


def contains(assignment: EpochedAssignment, owned: Assignment) -> bool:
    """Return whether the assignment contains all owned partitions."""
    return all(
        assignment.get(topic_id, {}).keys() >= partitions for topic_id, partitions in owned.items()
    )
