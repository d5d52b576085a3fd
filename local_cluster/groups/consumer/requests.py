"""The requests and responses of KIP-848 groups, and their settings; frozen data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from local_cluster.groups.consumer.model import Assignment, ConsumerMember
from local_cluster.wire.errors import ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupLimits:
    """Kafka's broker settings for KIP-848 groups, with Kafka's names and defaults."""

    group_consumer_session_timeout_ms: int = 45_000
    group_consumer_heartbeat_interval_ms: int = 5_000
    group_consumer_max_size: int = 10_000
    """Kafka's default has no limit."""
    group_consumer_assignors: tuple[str, ...] = ("uniform", "range")
    """The first one is the default."""
    group_consumer_assignment_interval_ms: int = 1_000
    """Between two target assignments of a group, so that members that join together cause one."""
    group_consumer_regex_refresh_interval_ms: int = 600_000
    group_consumer_migration_policy: str = "bidirectional"
    """How groups with members may change protocol: disabled, upgrade, downgrade, bidirectional."""

    @property
    def is_migration_disabled(self) -> bool:
        """Whether members of the classic protocol may not join groups of the consumer protocol."""
        return self.group_consumer_migration_policy.lower() == "disabled"

    @property
    def may_upgrade(self) -> bool:
        """Whether a consumer member may turn a classic group into a consumer group."""
        return self.group_consumer_migration_policy.lower() in ("upgrade", "bidirectional")

    @property
    def may_downgrade(self) -> bool:
        """Whether a group whose last consumer member is gone becomes a classic group."""
        return self.group_consumer_migration_policy.lower() in ("downgrade", "bidirectional")


LimitsOf = Callable[[str], ConsumerGroupLimits]
"""The settings of one group: those of the broker, with the group's own configs."""


class HeartbeatRequest(NamedTuple):
    """One ConsumerGroupHeartbeat; None means unchanged (-1 for the timeout)."""

    group_id: str
    member_id: str
    member_epoch: int
    instance_id: str | None
    rack_id: str | None
    rebalance_timeout_ms: int
    topic_names: tuple[str, ...] | None
    topic_regex: str | None
    server_assignor: str | None
    owned: Assignment | None
    client_id: str
    client_host: str
    may_describe: Callable[[str], bool]
    """Whether the client is authorized to describe a topic that its pattern matches."""

    @property
    def is_full(self) -> bool:
        """Whether it is a full request, as after an error."""
        has_subscription = self.topic_names is not None or self.topic_regex is not None
        return self.rebalance_timeout_ms != -1 and has_subscription and self.owned is not None


class HeartbeatResponse(NamedTuple):
    """The response; the assignment is None if the member has it already."""

    error: ErrorCode
    message: str | None = None
    member_id: str | None = None
    member_epoch: int = 0
    heartbeat_interval_ms: int = 0
    assignment: Assignment | None = None


class DescribedConsumerGroup(NamedTuple):
    """One group for ConsumerGroupDescribe."""

    error: ErrorCode
    group_id: str
    message: str | None = None
    state: str = ""
    epoch: int = 0
    target_epoch: int = 0
    assignor: str = ""
    members: tuple[ConsumerMember, ...] = ()
    targets: Mapping[str, Assignment] = {}
