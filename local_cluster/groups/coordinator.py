"""The group coordinator of one broker: routes groups to the partitions it leads.

Guarantees: only the leader of its partition of `__consumer_offsets` serves a group; other brokers
answer NOT_COORDINATOR, and the leader COORDINATOR_LOAD_IN_PROGRESS while it loads. The first
FindCoordinator creates the topic; it answers COORDINATOR_NOT_AVAILABLE until the partition's
leader is known.

Not here: the protocol of groups (shard.py and its modules), the wire (handlers/).
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final

from local_cluster.controller.model.cluster_image import OFFSETS_TOPIC
from local_cluster.coordinator_runtime.coordinated_topic import CoordinatedTopic
from local_cluster.coordinator_runtime.partition_runtime import RequestStep
from local_cluster.coordinator_runtime.ports import CoordinatorBroker
from local_cluster.groups.consumer.assignors import ASSIGNORS
from local_cluster.groups.consumer.group_configs import GroupConfigs
from local_cluster.groups.consumer.heartbeat import validate
from local_cluster.groups.consumer.requests import (
    ConsumerGroupLimits,
    DescribedConsumerGroup,
    HeartbeatResponse,
)
from local_cluster.groups.consumer.requests import HeartbeatRequest as ConsumerHeartbeatRequest
from local_cluster.groups.consumer.topics import ClusterTopics
from local_cluster.groups.offsets import TopicPartition
from local_cluster.groups.requests import (
    CommitRequest,
    DescribedGroup,
    FetchedOffset,
    GroupLimits,
    HeartbeatRequest,
    JoinRequest,
    JoinResponse,
    LeaveRequest,
    LeaveResponse,
    ListedGroup,
    SyncRequest,
    SyncResponse,
    TransactionalCommitRequest,
)
from local_cluster.groups.shard import GroupShard
from local_cluster.groups.topic_deletions import TopicDeletions
from local_cluster.records.control import EndMarker
from local_cluster.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from local_cluster.controller.model.metadata_cache import Changes
    from local_cluster.coordinator_runtime.partition_runtime import PartitionRuntime
    from local_cluster.replication.partition import Partition
    from local_cluster.settings import BrokerSettings

RETENTION_MINUTES_DEFAULT: Final = 7 * 24 * 60
EXPIRY_INTERVAL_MS_DEFAULT: Final = 600_000


def read_limits(settings: BrokerSettings) -> GroupLimits:
    """Read the group settings of a broker, by Kafka's names."""
    defaults = GroupLimits()
    read = settings.config_int
    return GroupLimits(
        group_initial_rebalance_delay_ms=read(
            "group.initial.rebalance.delay.ms", defaults.group_initial_rebalance_delay_ms
        ),
        group_min_session_timeout_ms=read(
            "group.min.session.timeout.ms", defaults.group_min_session_timeout_ms
        ),
        group_max_session_timeout_ms=read(
            "group.max.session.timeout.ms", defaults.group_max_session_timeout_ms
        ),
        group_max_size=read("group.max.size", defaults.group_max_size),
        offset_metadata_max_bytes=read(
            "offset.metadata.max.bytes", defaults.offset_metadata_max_bytes
        ),
        offsets_retention_ms=60_000 * read("offsets.retention.minutes", RETENTION_MINUTES_DEFAULT),
        consumer=read_consumer_limits(settings),
    )


def read_consumer_limits(settings: BrokerSettings) -> ConsumerGroupLimits:
    """Read the settings of KIP-848 groups, by Kafka's names."""
    defaults = ConsumerGroupLimits()

    def read(name: str) -> int:
        default: int = getattr(defaults, name.replace(".", "_"))
        return settings.config_int(name, default)

    named = settings.config.get("group.consumer.assignors")
    assignors = defaults.group_consumer_assignors
    if named is not None:
        assignors = tuple(item for item in named.replace(" ", "").split(",") if item in ASSIGNORS)
    return ConsumerGroupLimits(
        group_consumer_session_timeout_ms=read("group.consumer.session.timeout.ms"),
        group_consumer_heartbeat_interval_ms=read("group.consumer.heartbeat.interval.ms"),
        group_consumer_max_size=read("group.consumer.max.size"),
        group_consumer_assignors=assignors or defaults.group_consumer_assignors,
        group_consumer_migration_policy=settings.config.get(
            "group.consumer.migration.policy", defaults.group_consumer_migration_policy
        ),
        group_consumer_assignment_interval_ms=read("group.consumer.assignment.interval.ms"),
        group_consumer_regex_refresh_interval_ms=read("group.consumer.regex.refresh.interval.ms"),
    )


class GroupCoordinator:
    """All groups whose partition this broker leads."""

    def __init__(
        self, broker: CoordinatorBroker, *, new_uuid: Callable[[], uuid.UUID] = uuid.uuid4
    ) -> None:
        limits = read_limits(broker.settings)
        self._consumer_limits = limits.consumer
        self._broker = broker
        self._new_uuid = new_uuid
        self._topic_deletions = TopicDeletions()
        topics = ClusterTopics(broker.metadata)
        configs = GroupConfigs(limits.consumer, broker.configs, broker.metadata)
        self._topic = CoordinatedTopic(
            broker, OFFSETS_TOPIC, lambda: GroupShard(limits, topics, configs.limits_of)
        )
        self.find_coordinator = self._topic.find_coordinator
        self.partition_of = self._topic.partition_of

    # -- lifecycle --------------------------------------------------------------------------

    async def start(self) -> None:
        """Start the periodic expiry of committed offsets."""
        interval_ms = self._broker.settings.config_int(
            "offsets.retention.check.interval.ms", EXPIRY_INTERVAL_MS_DEFAULT
        )
        self._topic.run_periodically(interval_ms, GroupShard.expire_offsets, "offsets expiry")

    async def stop(self) -> None:
        """Fail the waiting requests and stop every task."""
        await self._topic.stop()

    def on_metadata_changes(self, changes: Changes) -> None:
        """Delete the committed offsets of deleted topics. Call it before `on_leadership`."""
        metadata = self._broker.metadata
        deleted = self._topic_deletions.apply(changes, metadata.topics, is_whole=metadata.is_whole)
        if deleted:
            for runtime in self._topic:
                _delete_topics(runtime, deleted)

    def on_leadership(self, topic: str, partition: int, leads: bool) -> None:
        """Start or end a term when this broker starts or stops leading a partition."""
        self._topic.on_leadership(topic, partition, leads)
        if topic != OFFSETS_TOPIC or not leads or not self._broker.metadata.is_whole:
            return
        absent = self._topic_deletions.absent
        if absent:
            _delete_topics(self._topic.runtime(partition), absent)

    def new_member_uuid(self) -> str:
        return str(self._new_uuid())

    def replica_of(self, group_id: str) -> Partition:
        """Return the leading replica of a group's partition, whose log has the producers' states.

        Raises KafkaError as requests do, and NOT_COORDINATOR if the log directory failed. A
        transactional producer fails for good after KAFKA_STORAGE_ERROR, the partition's error.
        """
        partition = self.partition_of(group_id)
        try:
            return self._broker.replicas.get_leader(OFFSETS_TOPIC, partition)
        except KafkaError as error:
            raise KafkaError(ErrorCode.not_coordinator, error.message) from None

    # -- requests: each raises KafkaError unless this broker serves the group ---------------
    #
    # Joins, syncs and leaves count as writing although not all do: under min.insync.replicas a
    # rebalance cannot complete, so none starts, and a stable group stays as it is.

    def join(self, request: JoinRequest) -> Awaitable[JoinResponse]:
        """Handle JoinGroup."""
        return self._submit(request.group_id, lambda shard, t, now: shard.join(t, request, now))

    def sync(self, request: SyncRequest) -> Awaitable[SyncResponse]:
        """Handle SyncGroup."""
        return self._submit(request.group_id, lambda shard, t, now: shard.sync(t, request, now))

    def heartbeat(self, request: HeartbeatRequest) -> Awaitable[ErrorCode]:
        """Handle Heartbeat from memory, as Kafka does; the response waits for no commit."""
        runtime = self._topic.runtime_of(request.group_id)
        return runtime.respond_now(lambda shard, t, now: shard.heartbeat(t, request, now))

    def leave(self, request: LeaveRequest) -> Awaitable[LeaveResponse]:
        """Handle LeaveGroup."""
        return self._submit(request.group_id, lambda shard, t, now: shard.leave(t, request, now))

    def commit_offsets(self, request: CommitRequest) -> asyncio.Future[tuple[ErrorCode, ...]]:
        """Handle OffsetCommit: one error code per offset, in order."""
        return self._submit(
            request.group_id, lambda shard, t, now: shard.commit_offsets(t, request, now)
        )

    def fetch_offsets(
        self,
        group_id: str,
        partitions: tuple[TopicPartition, ...] | None,
        *,
        require_stable: bool = False,
        member_id: str | None = None,
        member_epoch: int = -1,
    ) -> Awaitable[ErrorCode | tuple[FetchedOffset, ...]]:
        """Handle OffsetFetch of one group (None: all offsets); or one error for the group."""
        return self._submit(
            group_id,
            lambda shard, t, _: shard.fetch_offsets(
                t,
                group_id,
                partitions,
                require_stable=require_stable,
                member_id=member_id,
                member_epoch=member_epoch,
            ),
            may_write=False,
        )

    def commit_transactional(
        self, request: TransactionalCommitRequest
    ) -> Awaitable[tuple[ErrorCode, ...]]:
        """Handle TxnOffsetCommit: one error code per offset, in order.

        Raises KafkaError(invalid_producer_epoch) for a fenced producer.
        """
        known = self.replica_of(request.group_id).log.producers.get(request.producer_id)
        if known is not None and request.producer_epoch < known.epoch:
            raise KafkaError(ErrorCode.invalid_producer_epoch)
        return self._submit(
            request.group_id, lambda shard, t, now: shard.commit_transactional(t, request, now)
        )

    def end_transaction(
        self, partition: int, producer_id: int, producer_epoch: int, marker: EndMarker
    ) -> asyncio.Future[None]:
        """Append a marker to a partition of the offsets topic; done when it is committed."""
        return self._topic.runtime(partition).end_transaction(producer_id, producer_epoch, marker)

    def describe(self, group_id: str) -> Awaitable[DescribedGroup]:
        """Handle DescribeGroups of one group."""
        return self._submit(
            group_id, lambda shard, t, _: shard.describe(t, group_id), may_write=False
        )

    def delete_group(self, group_id: str) -> Awaitable[ErrorCode]:
        """Handle DeleteGroups of one group."""
        return self._submit(group_id, lambda shard, t, now: shard.delete_group(t, group_id, now))

    def delete_offsets(
        self, group_id: str, partitions: tuple[TopicPartition, ...]
    ) -> Awaitable[ErrorCode | tuple[ErrorCode, ...]]:
        """Handle OffsetDelete of one group: one error code per offset, in order, or one for all."""
        return self._submit(
            group_id, lambda shard, t, _: shard.delete_offsets(t, group_id, partitions)
        )

    def consumer_heartbeat(self, request: ConsumerHeartbeatRequest) -> Awaitable[HeartbeatResponse]:
        """Handle ConsumerGroupHeartbeat. An invalid one is refused by any broker."""
        try:
            validate(request, self._consumer_limits)
        except KafkaError as error:
            refused: asyncio.Future[HeartbeatResponse] = asyncio.get_running_loop().create_future()
            refused.set_result(HeartbeatResponse(error.code, error.message))
            return refused
        return self._submit(
            request.group_id, lambda shard, t, now: shard.consumer_heartbeat(t, request, now)
        )

    def describe_consumer_group(self, group_id: str) -> Awaitable[DescribedConsumerGroup]:
        """Handle ConsumerGroupDescribe of one group."""
        return self._submit(
            group_id,
            lambda shard, t, _: shard.describe_consumer_group(t, group_id),
            may_write=False,
        )

    def list_groups(self) -> tuple[ErrorCode, list[ListedGroup]]:
        """Return every group led here, with COORDINATOR_LOAD_IN_PROGRESS if some still load."""
        error, shards = self._topic.shards()
        return error, [group for shard in shards for group in shard.list_groups()]

    def shards(self) -> list[GroupShard]:
        """Return the loaded shards of the groups led here, for metrics. Do not change them."""
        return self._topic.shards()[1]

    # -- inside -----------------------------------------------------------------------------

    def _submit(
        self, group_id: str, step: RequestStep[GroupShard], *, may_write: bool = True
    ) -> asyncio.Future[Any]:
        return self._topic.runtime_of(group_id).submit(step, may_write=may_write)


def _delete_topics(runtime: PartitionRuntime[GroupShard], topics: frozenset[str]) -> None:
    runtime.run_mandatory_step(lambda shard, _: shard.delete_topics(topics))
