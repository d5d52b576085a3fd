"""The requests and responses of a group shard, and its settings; frozen data."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple

from local_cluster.groups.consumer.requests import ConsumerGroupLimits
from local_cluster.groups.records import CommittedOffset
from local_cluster.wire.constants import NO_GENERATION
from local_cluster.wire.errors import ErrorCode

UNKNOWN_MEMBER: Final = ""
"""The member id of a client that has no member id yet."""

Protocols = tuple[tuple[str, bytes], ...]
"""(protocol name, opaque metadata) in the client's order of preference."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupLimits:
    """Kafka's broker settings for groups, with Kafka's names and defaults."""

    group_initial_rebalance_delay_ms: int = 3_000
    group_min_session_timeout_ms: int = 6_000
    group_max_session_timeout_ms: int = 1_800_000
    group_max_size: int = 10_000
    """Members and reserved member ids per group. Kafka's default has no limit."""
    offset_metadata_max_bytes: int = 4_096
    offsets_retention_ms: int = 7 * 24 * 3_600_000
    consumer: ConsumerGroupLimits = field(default_factory=ConsumerGroupLimits)
    group_record_bytes_max: int = 1_000_000
    """A group with a larger record does not fit into one batch and is refused."""
    member_metadata_bytes_max: int = 1_000_000
    """Metadata of one member for all its protocols: more could not be stored either. Kafka keeps it
    until the rebalance ends."""
    groups_max: int = 100_000
    """Groups of one partition of __consumer_offsets. Kafka has no limit."""


class JoinRequest(NamedTuple):
    """One JoinGroup, with a new uuid and what its version supports."""

    group_id: str
    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: Protocols
    member_uuid: str
    requires_known_member_id: bool = True
    """v4+: a dynamic member must send JoinGroup again with the member id that it gets."""
    supports_skipping_assignment: bool = True
    """v9+: a returning static leader may be asked to keep the assignment."""


class JoinedMember(NamedTuple):
    """One member as the leader gets it."""

    member_id: str
    group_instance_id: str | None
    metadata: bytes


class JoinResponse(NamedTuple):
    """The response to one JoinGroup."""

    error: ErrorCode
    member_id: str
    generation_id: int = NO_GENERATION
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str = ""
    skip_assignment: bool = False
    members: tuple[JoinedMember, ...] = ()


class SyncRequest(NamedTuple):
    """One SyncGroup; protocol type and name are None before v5."""

    group_id: str
    member_id: str
    group_instance_id: str | None
    generation_id: int
    protocol_type: str | None
    protocol_name: str | None
    assignments: tuple[tuple[str, bytes], ...]


class SyncResponse(NamedTuple):
    """The response to one SyncGroup."""

    error: ErrorCode
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


class HeartbeatRequest(NamedTuple):
    """One Heartbeat; the response is an error code."""

    group_id: str
    member_id: str
    group_instance_id: str | None
    generation_id: int


class LeavingMember(NamedTuple):
    """A member that leaves, by member id; by instance id alone if an administrator removes it."""

    member_id: str
    group_instance_id: str | None


class LeaveRequest(NamedTuple):
    """One LeaveGroup; before v3 it has one member."""

    group_id: str
    members: tuple[LeavingMember, ...]


class LeaveResponse(NamedTuple):
    """One error for the request and one per member, in the order of the request."""

    error: ErrorCode
    members: tuple[tuple[LeavingMember, ErrorCode], ...] = ()


class OffsetToCommit(NamedTuple):
    """One offset as the client sends it."""

    topic: str
    partition: int
    offset: int
    leader_epoch: int
    metadata: str | None


class CommitRequest(NamedTuple):
    """One OffsetCommit; retention -1 means the broker's setting."""

    group_id: str
    member_id: str
    group_instance_id: str | None
    generation_id: int
    offsets: tuple[OffsetToCommit, ...]
    retention_ms: int = -1
    knows_group_not_found: bool = False
    """v9+: the client knows GROUP_ID_NOT_FOUND."""


class TransactionalCommitRequest(NamedTuple):
    """One TxnOffsetCommit; clients before KIP-447 send generation -1 and no member."""

    group_id: str
    member_id: str
    group_instance_id: str | None
    generation_id: int
    producer_id: int
    producer_epoch: int
    offsets: tuple[OffsetToCommit, ...]
    knows_new_errors: bool = False
    """v6+: the client knows GROUP_ID_NOT_FOUND and STALE_MEMBER_EPOCH."""


class FetchedOffset(NamedTuple):
    """One offset as OffsetFetch returns it; -1 if nothing was committed."""

    topic: str
    partition: int
    committed: CommittedOffset
    is_unstable: bool = False
    """Whether an open transaction may change it; only with require_stable."""


class DescribedMember(NamedTuple):
    """One member for DescribeGroups; metadata and assignment are empty unless Stable."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


class DescribedGroup(NamedTuple):
    """One group for DescribeGroups; an unknown group is Dead."""

    group_id: str
    state: str
    protocol_type: str
    protocol_name: str
    members: tuple[DescribedMember, ...] = ()
    message: str | None = None
    """Why the group is Dead."""


class ListedGroup(NamedTuple):
    """One group for ListGroups."""

    group_id: str
    protocol_type: str
    state: str
    type: str = "classic"
