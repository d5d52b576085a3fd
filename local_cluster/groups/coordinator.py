"""The group coordinator of one broker: routes groups to the partitions it leads.

Guarantees: a group is served only by the leader of its partition of `__consumer_offsets`,
elsewhere NOT_COORDINATOR; before the partition is loaded COORDINATOR_LOAD_IN_PROGRESS. The topic
is created by the first FindCoordinator, which is told COORDINATOR_NOT_AVAILABLE until its leader
is known.

Not here: the protocol of groups (shard.py and what it uses), the wire (handlers/).
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any, Final

from local_cluster.controller.model import NO_LEADER, OFFSETS_TOPIC
from local_cluster.records.control import EndMarker
from local_cluster.wire.errors import ErrorCode, KafkaError

from .offsets import TopicPartition
from .partition_shell import Ask, PartitionShell, ShellState
from .partitioning import partition_of
from .requests import (
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

if TYPE_CHECKING:
    from local_cluster.handlers.services import BrokerServices
    from local_cluster.settings import BrokerSettings

RETENTION_MINUTES_DEFAULT: Final = 7 * 24 * 60
EXPIRY_INTERVAL_MS_DEFAULT: Final = 600_000

_log = logging.getLogger(__name__)


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
    )


class GroupCoordinator:
    """All groups whose partition this broker leads."""

    def __init__(
        self, broker: BrokerServices, *, new_uuid: Callable[[], uuid.UUID] = uuid.uuid4
    ) -> None:
        self._broker = broker
        self._new_uuid = new_uuid
        self._limits = read_limits(broker.settings)
        self._shells: dict[int, PartitionShell] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._creation: asyncio.Task[None] | None = None
        self._expiry: asyncio.Task[None] | None = None

    # -- life -------------------------------------------------------------------------------

    async def start(self) -> None:
        """Begin the periodic removal of old positions."""
        self._expiry = asyncio.create_task(self._expire_periodically(), name="offsets expiry")

    async def stop(self) -> None:
        """Fail whoever waits, stop every task."""
        for partition in tuple(self._shells):
            self.on_leadership(OFFSETS_TOPIC, partition, False)
        tasks = [task for task in (self._expiry, self._creation) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, *self._closing, return_exceptions=True)

    def on_leadership(self, topic: str, partition: int, leads: bool) -> None:
        """This broker begins or ends to lead a partition of some topic."""
        if topic != OFFSETS_TOPIC:
            return
        shell = self._shells.pop(partition, None)
        if shell is not None:
            shell.close()
            closing = asyncio.ensure_future(shell.wait_closed())
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)
        if leads:
            replica = self._broker.replicas.get_leader(topic, partition)
            shell = PartitionShell(partition, replica, self._limits, self._broker.clock)
            self._shells[partition] = shell
            shell.start()

    def on_topics_deleted(self, topics: Iterable[str]) -> None:
        """Topics were deleted: positions in them mean nothing any more."""
        deleted = frozenset(topics)
        for shell in self._shells.values():
            shell.delete_topics(deleted)

    # -- where a group lives ----------------------------------------------------------------

    def find_coordinator(self, group_id: str, listener: str) -> tuple[int, str, int]:
        """(broker id, host, port) of the group's coordinator, on the listener that asked.

        Raises KafkaError(coordinator_not_available) until the offsets topic has a leader there.
        """
        topic = self._broker.metadata.topics.get(OFFSETS_TOPIC)
        if topic is None:
            self._start_creation()
            raise KafkaError(ErrorCode.coordinator_not_available, "the offsets topic is created")
        state = topic.partitions.get(partition_of(group_id, len(topic.partitions)))
        leader = NO_LEADER if state is None else state.leader
        endpoints = self._broker.metadata.brokers.get(leader)
        address = None if endpoints is None else endpoints.listeners.get(listener)
        if address is None:
            raise KafkaError(ErrorCode.coordinator_not_available, "the partition has no leader")
        return leader, address[0], address[1]

    def new_member_uuid(self) -> str:
        return str(self._new_uuid())

    # -- requests: each raises KafkaError where the group is not served here and now --------

    def join(self, request: JoinRequest) -> Awaitable[JoinAnswer]:
        """JoinGroup."""
        return self._ask(request.group_id, lambda shard, t, now: shard.join(t, request, now))

    def sync(self, request: SyncRequest) -> Awaitable[SyncAnswer]:
        """SyncGroup."""
        return self._ask(request.group_id, lambda shard, t, now: shard.sync(t, request, now))

    def heartbeat(self, request: HeartbeatRequest) -> Awaitable[ErrorCode]:
        """Heartbeat."""
        return self._ask(request.group_id, lambda shard, t, now: shard.heartbeat(t, request, now))

    def leave(self, request: LeaveRequest) -> Awaitable[LeaveAnswer]:
        """LeaveGroup."""
        return self._ask(request.group_id, lambda shard, t, now: shard.leave(t, request, now))

    def commit_offsets(self, request: CommitRequest) -> Awaitable[tuple[ErrorCode, ...]]:
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
    ) -> Awaitable[tuple[FetchedOffset, ...]]:
        """OffsetFetch of one group, None: everything."""
        return self._ask(
            group_id,
            lambda shard, t, _: shard.fetch_offsets(
                t, group_id, partitions, require_stable=require_stable
            ),
        )

    def commit_transactional(
        self, request: TransactionalCommitRequest
    ) -> Awaitable[tuple[ErrorCode, ...]]:
        """TxnOffsetCommit: one error code per position, in order.

        Raises KafkaError(invalid_producer_epoch) for a producer that was fenced.
        """
        partition = self.partition_of(request.group_id)
        replica = self._broker.replicas.get_leader(OFFSETS_TOPIC, partition)
        known = replica.log.producers.get(request.producer_id)
        if known is not None and request.producer_epoch < known.epoch:
            raise KafkaError(ErrorCode.invalid_producer_epoch)
        return self._ask(
            request.group_id, lambda shard, t, now: shard.commit_transactional(t, request, now)
        )

    def end_transaction(
        self, partition: int, producer_id: int, producer_epoch: int, marker: EndMarker
    ) -> asyncio.Future[None]:
        """Write a marker to a partition of the offsets topic; done when it is committed."""
        shell = self._shells.get(partition)
        if shell is None:
            raise KafkaError(ErrorCode.not_leader_or_follower)
        return shell.end_transaction(producer_id, producer_epoch, marker)

    def partition_of(self, group_id: str) -> int:
        """The partition of the offsets topic where a group lives.

        Raises KafkaError(coordinator_not_available) while there is no such topic.
        """
        topic = self._broker.metadata.topics.get(OFFSETS_TOPIC)
        if topic is None:
            self._start_creation()
            raise KafkaError(ErrorCode.coordinator_not_available, "the offsets topic is created")
        return partition_of(group_id, len(topic.partitions))

    def describe(self, group_id: str) -> Awaitable[DescribedGroup]:
        """DescribeGroups of one group."""
        return self._ask(group_id, lambda shard, t, _: shard.describe(t, group_id))

    def delete_group(self, group_id: str) -> Awaitable[ErrorCode]:
        """DeleteGroups of one group."""
        return self._ask(group_id, lambda shard, t, _: shard.delete_group(t, group_id))

    def delete_offsets(
        self, group_id: str, partitions: tuple[TopicPartition, ...]
    ) -> Awaitable[ErrorCode | tuple[ErrorCode, ...]]:
        """OffsetDelete of one group: one error code per position, in order, or one for all."""
        return self._ask(
            group_id, lambda shard, t, _: shard.delete_offsets(t, group_id, partitions)
        )

    def list_groups(self) -> tuple[ErrorCode, list[ListedGroup]]:
        """Every group led here; COORDINATOR_LOAD_IN_PROGRESS where some are not known yet."""
        error = ErrorCode.none
        found: list[ListedGroup] = []
        for shell in self._shells.values():
            if shell.state is ShellState.ACTIVE:
                found.extend(shell.shard.list_groups())
            elif shell.state is ShellState.LOADING:
                error = ErrorCode.coordinator_load_in_progress
        return error, found

    # -- inside -----------------------------------------------------------------------------

    def _ask(self, group_id: str, ask: Ask) -> asyncio.Future[Any]:
        topic = self._broker.metadata.topics.get(OFFSETS_TOPIC)
        if topic is None:
            raise KafkaError(ErrorCode.not_coordinator, "there is no offsets topic yet")
        shell = self._shells.get(partition_of(group_id, len(topic.partitions)))
        if shell is None:
            raise KafkaError(ErrorCode.not_coordinator, f"group {group_id} lives elsewhere")
        return shell.ask(ask)

    async def _expire_periodically(self) -> None:
        interval_ms = self._broker.settings.config_int(
            "offsets.retention.check.interval.ms", EXPIRY_INTERVAL_MS_DEFAULT
        )
        while True:
            await asyncio.sleep(interval_ms / 1000)
            for shell in tuple(self._shells.values()):
                shell.expire_offsets()
                await asyncio.sleep(0)

    def _start_creation(self) -> None:
        """Start creating the topic unless that runs already; the next question tells the result."""
        if self._creation is None or self._creation.done():
            self._creation = asyncio.create_task(
                self._create_offsets_topic(), name="create offsets topic"
            )

    async def _create_offsets_topic(self) -> None:
        """Have the controller create the topic; what goes wrong the client's next try repeats."""
        error = await self._broker.control_plane.auto_create_topic(OFFSETS_TOPIC)
        if error is not None:
            _log.warning("%s was not created: %s", OFFSETS_TOPIC, error)
