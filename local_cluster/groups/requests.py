"""What a shard is asked and what it answers, and the limits that it keeps; frozen data."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple

from local_cluster.groups.consumer.requests import ConsumerGroupLimits
from local_cluster.groups.records import CommittedOffset
from local_cluster.wire.constants import NO_GENERATION
from local_cluster.wire.errors import ErrorCode

UNKNOWN_MEMBER: Final = ""
"""The member id of a client that has none yet."""

Protocols = tuple[tuple[str, bytes], ...]
"""(protocol name, opaque metadata) in the client's order of preference."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupLimits:
    """Kafka's broker settings that a shard needs, under their own names, with Kafka's defaults."""

    group_initial_rebalance_delay_ms: int = 3_000
    group_min_session_timeout_ms: int = 6_000
    group_max_session_timeout_ms: int = 1_800_000
    group_max_size: int = 10_000
    """Members and reserved member ids per group. Kafka has no bound unless configured."""
    offset_metadata_max_bytes: int = 4_096
    offsets_retention_ms: int = 7 * 24 * 3_600_000
    consumer: ConsumerGroupLimits = field(default_factory=ConsumerGroupLimits)
    group_record_bytes_max: int = 1_000_000
    """A group whose record is larger does not fit one batch of the log and is refused."""


class JoinRequest(NamedTuple):
    """One JoinGroup, plus what the handler knows: a fresh uuid and what the version can do."""

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
    """v4+: a dynamic member must come back with the id it is given."""
    supports_skipping_assignment: bool = True
    """v9+: a returning static leader may be told to keep the assignment."""


class JoinedMember(NamedTuple):
    """One member as the leader sees it."""

    member_id: str
    group_instance_id: str | None
    metadata: bytes


class JoinAnswer(NamedTuple):
    """The answer to one JoinGroup."""

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


class SyncAnswer(NamedTuple):
    """The answer to one SyncGroup."""

    error: ErrorCode
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


class HeartbeatRequest(NamedTuple):
    """One Heartbeat; the answer is an error code."""

    group_id: str
    member_id: str
    group_instance_id: str | None
    generation_id: int


class LeavingMember(NamedTuple):
    """Who leaves: by member id, or by instance id alone (an administrator removes it)."""

    member_id: str
    group_instance_id: str | None


class LeaveRequest(NamedTuple):
    """One LeaveGroup; one member before v3."""

    group_id: str
    members: tuple[LeavingMember, ...]


class LeaveAnswer(NamedTuple):
    """One error for the request and one per member, in the order of the request."""

    error: ErrorCode
    members: tuple[tuple[LeavingMember, ErrorCode], ...] = ()


class OffsetToCommit(NamedTuple):
    """One position as the client sends it."""

    topic: str
    partition: int
    offset: int
    leader_epoch: int
    metadata: str | None


class CommitRequest(NamedTuple):
    """One OffsetCommit; retention -1 means the broker's."""

    group_id: str
    member_id: str
    group_instance_id: str | None
    generation_id: int
    offsets: tuple[OffsetToCommit, ...]
    retention_ms: int = -1
    knows_group_not_found: bool = False
    """The client can tell GROUP_ID_NOT_FOUND from ILLEGAL_GENERATION."""


class TransactionalCommitRequest(NamedTuple):
    """One TxnOffsetCommit; generation -1 and no member where the client is older than KIP-447."""

    group_id: str
    member_id: str
    group_instance_id: str | None
    generation_id: int
    producer_id: int
    producer_epoch: int
    offsets: tuple[OffsetToCommit, ...]


class FetchedOffset(NamedTuple):
    """One position as OffsetFetch tells it; offset -1 where nothing was committed."""

    topic: str
    partition: int
    committed: CommittedOffset
    is_unstable: bool = False
    """Whether an open transaction may change it; told only if that was asked for."""


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


class ListedGroup(NamedTuple):
    """One group for ListGroups."""

    group_id: str
    protocol_type: str
    state: str
    type: str = "classic"
