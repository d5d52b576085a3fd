"""The group coordinator of one broker: routes groups to the partitions it leads.

Guarantees: a group is served only by the leader of its partition of `__consumer_offsets`,
elsewhere NOT_COORDINATOR; before the partition is loaded COORDINATOR_LOAD_IN_PROGRESS. The topic
is created by the first FindCoordinator, which is told COORDINATOR_NOT_AVAILABLE until its leader
is known.

Not here: the protocol of groups (shard.py and what it uses), the wire (handlers/).
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final

from local_cluster.controller.model.cluster_image import OFFSETS_TOPIC
from local_cluster.coordinator_runtime.coordinated_topic import CoordinatedTopic
from local_cluster.coordinator_runtime.partition_runtime import Ask
from local_cluster.groups.cluster_topics import ClusterTopics
from local_cluster.groups.consumer.assignors import ASSIGNORS
from local_cluster.groups.consumer.requests import (
    ConsumerGroupLimits,
    DescribedConsumerGroup,
    HeartbeatAnswer,
)
from local_cluster.groups.consumer.requests import HeartbeatRequest as ConsumerHeartbeatRequest
from local_cluster.groups.former_topics import FormerTopics
from local_cluster.groups.offsets import TopicPartition
from local_cluster.groups.requests import (
    CommitRequest,
    DescribedGroup,
    FetchedOffset,
    GroupLimits,
    HeartbeatRequest,
    JoinAnswer,
    JoinRequest,
    LeaveAnswer,
    LeaveRequest,
    ListedGroup,
    SyncAnswer,
    SyncRequest,
    TransactionalCommitRequest,
)
from local_cluster.groups.shard import GroupShard
from local_cluster.records.control import EndMarker
from local_cluster.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from local_cluster.controller.model.metadata_cache import Changes
    from local_cluster.coordinator_runtime.partition_runtime import PartitionRuntime
    from local_cluster.coordinator_runtime.services import CoordinatorServices
    from local_cluster.replication.partition import Partition
    from local_cluster.settings import BrokerSettings

RETENTION_MINUTES_DEFAULT: Final = 7 * 24 * 60
EXPIRY_INTERVAL_MS_DEFAULT: Final = 600_000


def read_limits(settings: BrokerSettings) -> GroupLimits:
    """The group settings of a broker, by Kafka's names."""
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
    """The settings of KIP-848 groups, by Kafka's names."""
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
        group_consumer_assignment_interval_ms=read("group.consumer.assignment.interval.ms"),
        group_consumer_regex_refresh_interval_ms=read("group.consumer.regex.refresh.interval.ms"),
    )


class GroupCoordinator:
    """All groups whose partition this broker leads."""

    def __init__(
        self, broker: CoordinatorServices, *, new_uuid: Callable[[], uuid.UUID] = uuid.uuid4
    ) -> None:
        limits = read_limits(broker.settings)
        self._broker = broker
        self._new_uuid = new_uuid
        self._former_topics = FormerTopics()
        topics = ClusterTopics(broker.metadata)
        self._topic = CoordinatedTopic(broker, OFFSETS_TOPIC, lambda: GroupShard(limits, topics))
        self.find_coordinator = self._topic.find_coordinator
        self.partition_of = self._topic.partition_of

    # -- life -------------------------------------------------------------------------------

    async def start(self) -> None:
        """Begin the periodic removal of old positions."""
        interval_ms = self._broker.settings.config_int(
            "offsets.retention.check.interval.ms", EXPIRY_INTERVAL_MS_DEFAULT
        )
        self._topic.repeat(interval_ms, GroupShard.expire_offsets, "offsets expiry")

    async def stop(self) -> None:
        """Fail whoever waits, stop every task."""
        await self._topic.stop()

    def heard(self, changes: Changes) -> None:
        """The metadata changed. To be told before `on_leadership` is, of what follows from it."""
        metadata = self._broker.metadata
        former = self._former_topics.hear(changes, metadata.topics, is_whole=metadata.is_whole)
        if former:
            for runtime in self._topic:
                _forget(runtime, former)

    def on_leadership(self, topic: str, partition: int, leads: bool) -> None:
        """This broker begins or ends to lead a partition of some topic."""
        self._topic.on_leadership(topic, partition, leads)
        if topic != OFFSETS_TOPIC or not leads or not self._broker.metadata.is_whole:
            return
        former = self._former_topics.deleted
        if former:
            _forget(self._topic.runtime(partition), former)

    def new_member_uuid(self) -> str:
        return str(self._new_uuid())

    def replica_of(self, group_id: str) -> Partition:
        """The leading replica of a group's partition, whose log knows the producers that wrote.

        Raises KafkaError as requests do: NOT_COORDINATOR also where its log directory failed.
        KAFKA_STORAGE_ERROR, a partition's error, would end a transactional producer for good.
        """
        partition = self.partition_of(group_id)
        try:
            return self._broker.replicas.get_leader(OFFSETS_TOPIC, partition)
        except KafkaError as error:
            raise KafkaError(ErrorCode.not_coordinator, error.message) from None

    # -- requests: each raises KafkaError where the group is not served here and now --------
    #
    # Joins, syncs and leaves count as writing although not all do: under min.insync.replicas a
    # rebalance cannot end, so none begins, and a stable group goes on as it is.

    def join(self, request: JoinRequest) -> Awaitable[JoinAnswer]:
        """JoinGroup."""
        return self._ask(request.group_id, lambda shard, t, now: shard.join(t, request, now))

    def sync(self, request: SyncRequest) -> Awaitable[SyncAnswer]:
        """SyncGroup."""
        return self._ask(request.group_id, lambda shard, t, now: shard.sync(t, request, now))

    def heartbeat(self, request: HeartbeatRequest) -> Awaitable[ErrorCode]:
        """Heartbeat. It tells of what is in memory, as Kafka's does, so it waits for nothing."""
        runtime = self._topic.runtime_of(request.group_id)
        return runtime.answer_now(lambda shard, t, now: shard.heartbeat(t, request, now))

    def leave(self, request: LeaveRequest) -> Awaitable[LeaveAnswer]:
        """LeaveGroup."""
        return self._ask(request.group_id, lambda shard, t, now: shard.leave(t, request, now))

    def commit_offsets(self, request: CommitRequest) -> asyncio.Future[tuple[ErrorCode, ...]]:
        """OffsetCommit: one error code per position, in order."""
        return self._ask(
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
        """OffsetFetch of one group, None: everything; or one error for the group."""
        return self._ask(
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
        """TxnOffsetCommit: one error code per position, in order.

        Raises KafkaError(invalid_producer_epoch) for a producer that was fenced.
        """
        known = self.replica_of(request.group_id).log.producers.get(request.producer_id)
        if known is not None and request.producer_epoch < known.epoch:
            raise KafkaError(ErrorCode.invalid_producer_epoch)
        return self._ask(
            request.group_id, lambda shard, t, now: shard.commit_transactional(t, request, now)
        )

    def end_transaction(
        self, partition: int, producer_id: int, producer_epoch: int, marker: EndMarker
    ) -> asyncio.Future[None]:
        """Write a marker to a partition of the offsets topic; done when it is committed."""
        return self._topic.runtime(partition).end_transaction(producer_id, producer_epoch, marker)

    def describe(self, group_id: str) -> Awaitable[DescribedGroup]:
        """DescribeGroups of one group."""
        return self._ask(group_id, lambda shard, t, _: shard.describe(t, group_id), may_write=False)

    def delete_group(self, group_id: str) -> Awaitable[ErrorCode]:
        """DeleteGroups of one group."""
        return self._ask(group_id, lambda shard, t, now: shard.delete_group(t, group_id, now))

    def delete_offsets(
        self, group_id: str, partitions: tuple[TopicPartition, ...]
    ) -> Awaitable[ErrorCode | tuple[ErrorCode, ...]]:
        """OffsetDelete of one group: one error code per position, in order, or one for all."""
        return self._ask(
            group_id, lambda shard, t, _: shard.delete_offsets(t, group_id, partitions)
        )

    def consumer_heartbeat(self, request: ConsumerHeartbeatRequest) -> Awaitable[HeartbeatAnswer]:
        """ConsumerGroupHeartbeat."""
        return self._ask(
            request.group_id, lambda shard, t, now: shard.consumer_heartbeat(t, request, now)
        )

    def describe_consumer_group(self, group_id: str) -> Awaitable[DescribedConsumerGroup]:
        """ConsumerGroupDescribe of one group."""
        return self._ask(
            group_id,
            lambda shard, t, _: shard.describe_consumer_group(t, group_id),
            may_write=False,
        )

    def list_groups(self) -> tuple[ErrorCode, list[ListedGroup]]:
        """Every group led here; COORDINATOR_LOAD_IN_PROGRESS where some are not known yet."""
        error, shards = self._topic.shards()
        return error, [group for shard in shards for group in shard.list_groups()]

    # -- inside -----------------------------------------------------------------------------

    def _ask(
        self, group_id: str, ask: Ask[GroupShard], *, may_write: bool = True
    ) -> asyncio.Future[Any]:
        return self._topic.runtime_of(group_id).ask(ask, may_write=may_write)


def _forget(runtime: PartitionRuntime[GroupShard], topics: frozenset[str]) -> None:
    runtime.insist(lambda shard, _: shard.delete_topics(topics))
