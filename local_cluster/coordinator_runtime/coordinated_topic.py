"""The partitions of one internal topic that this broker leads, and where everything else lives.

Guarantees: a key is served only by the leader of its partition, elsewhere NOT_COORDINATOR. The
topic is created by the first question where a key lives, which is told COORDINATOR_NOT_AVAILABLE
until the partition's leader is known.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Generic

from local_cluster.controller.model.cluster_image import NO_LEADER, PartitionState
from local_cluster.coordinator_runtime.loading import S
from local_cluster.coordinator_runtime.outcome import Now, Outcome
from local_cluster.coordinator_runtime.partition_runtime import (
    FollowUp,
    PartitionRuntime,
    RuntimeState,
)
from local_cluster.coordinator_runtime.partitioning import partition_of
from local_cluster.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from local_cluster.coordinator_runtime.services import CoordinatorServices

_log = logging.getLogger(__name__)


class CoordinatedTopic(Generic[S]):
    """One coordinator's topic on one broker: a runtime for each partition that it leads."""

    def __init__(
        self,
        broker: CoordinatorServices,
        topic: str,
        new_shard: Callable[[], S],
        follow_up: FollowUp[S] | None = None,
    ) -> None:
        self.topic = topic
        self._broker = broker
        self._new_shard = new_shard
        self._follow_up = follow_up
        self._runtimes: dict[int, PartitionRuntime[S]] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._repeated: list[asyncio.Task[None]] = []
        self._creation: asyncio.Task[None] | None = None

    # -- life -------------------------------------------------------------------------------

    def repeat(self, interval_ms: int, step: Callable[[S, Now], Outcome], name: str) -> None:
        """Run a step on every partition's shard again and again, until `stop`."""
        self._repeated.append(asyncio.create_task(self._repeat(interval_ms, step), name=name))

    async def stop(self) -> None:
        """Fail whoever waits, stop every task."""
        for partition in tuple(self._runtimes):
            self.on_leadership(self.topic, partition, False)
        tasks = [*self._repeated] + ([] if self._creation is None else [self._creation])
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, *self._closing, return_exceptions=True)

    def on_leadership(self, topic: str, partition: int, leads: bool) -> None:
        """This broker begins or ends to lead a partition of some topic.

        Each term of leadership has a runtime of its own, so nothing of an earlier one is trusted:
        another leader may have written meanwhile, and the log may have been cut.
        """
        if topic != self.topic:
            return
        ended = self._runtimes.pop(partition, None)
        if ended is not None:
            ended.close()
            closing = asyncio.create_task(ended.wait_closed(), name=f"close {ended.name}")
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)
        if leads:
            begun = self._runtimes[partition] = PartitionRuntime(
                f"{topic}-{partition}",
                self._broker.replicas.get_leader(topic, partition),
                self._new_shard,
                self._broker.clock,
                self._follow_up,
            )
            begun.start()

    # -- where a key lives ------------------------------------------------------------------

    def find_coordinator(self, key: str, listener: str) -> tuple[int, str, int]:
        """(broker id, host, port) of the coordinator, on the listener that asked.

        Raises KafkaError(coordinator_not_available) until the key's partition has a leader there.
        """
        state = self._state(self.partition_of(key))
        leader = NO_LEADER if state is None else state.leader
        endpoints = self._broker.metadata.brokers.get(leader)
        address = None if endpoints is None else endpoints.listeners.get(listener)
        if address is None:
            raise KafkaError(ErrorCode.coordinator_not_available, "the partition has no leader")
        return leader, address[0], address[1]

    def partition_of(self, key: str) -> int:
        """The partition where a key lives.

        Raises KafkaError(coordinator_not_available) while there is no such topic.
        """
        topic = self._broker.metadata.topics.get(self.topic)
        if topic is None:
            self._start_creation()
            raise KafkaError(ErrorCode.coordinator_not_available, f"{self.topic} is created")
        return partition_of(key, len(topic.partitions))

    def leader_of(self, key: str) -> int:
        """The broker id of the key's coordinator.

        Raises KafkaError(coordinator_not_available) where there is none.
        """
        state = self._state(self.partition_of(key))
        if state is None or state.leader == NO_LEADER:
            raise KafkaError(ErrorCode.coordinator_not_available)
        return state.leader

    def is_here(self, key: str) -> bool:
        """Whether this broker is the coordinator of a key."""
        topic = self._broker.metadata.topics.get(self.topic)
        return topic is not None and partition_of(key, len(topic.partitions)) in self._runtimes

    def runtime_of(self, key: str) -> PartitionRuntime[S]:
        """The runtime that serves a key. Raises KafkaError(not_coordinator)."""
        topic = self._broker.metadata.topics.get(self.topic)
        if topic is None:
            raise KafkaError(ErrorCode.not_coordinator, f"there is no {self.topic} yet")
        runtime = self._runtimes.get(partition_of(key, len(topic.partitions)))
        if runtime is None:
            raise KafkaError(ErrorCode.not_coordinator, f"{key} lives elsewhere")
        return runtime

    def runtime(self, partition: int) -> PartitionRuntime[S]:
        """The runtime of a partition. Raises KafkaError(not_leader_or_follower)."""
        runtime = self._runtimes.get(partition)
        if runtime is None:
            raise KafkaError(ErrorCode.not_leader_or_follower)
        return runtime

    def __iter__(self) -> Iterator[PartitionRuntime[S]]:
        yield from tuple(self._runtimes.values())

    def shards(self) -> tuple[ErrorCode, list[S]]:
        """Every shard led here; COORDINATOR_LOAD_IN_PROGRESS where some are not known yet."""
        states = {runtime.state for runtime in self}
        error = ErrorCode.none
        if RuntimeState.LOADING in states:
            error = ErrorCode.coordinator_load_in_progress
        return error, [runtime.shard for runtime in self if runtime.state is RuntimeState.ACTIVE]

    # -- inside -----------------------------------------------------------------------------

    def _state(self, partition: int) -> PartitionState | None:
        topic = self._broker.metadata.topics.get(self.topic)
        return None if topic is None else topic.partitions.get(partition)

    async def _repeat(self, interval_ms: int, step: Callable[[S, Now], Outcome]) -> None:
        while True:
            await asyncio.sleep(interval_ms / 1000)
            for runtime in self:
                try:
                    runtime.tell(step)
                except Exception:  # noqa: BLE001 - one bad state must not end the step for good
                    _log.exception("%s is not stepped this time", runtime.name)
                await asyncio.sleep(0)

    def _start_creation(self) -> None:
        """Start creating the topic unless that runs already; the next question tells the result."""
        if self._creation is None or self._creation.done():
            self._creation = asyncio.create_task(self._create_topic(), name=f"create {self.topic}")

    async def _create_topic(self) -> None:
        """Have the controller create the topic; what goes wrong the client's next try repeats."""
        error = await self._broker.control_plane.auto_create_topic(self.topic)
        if error is not None:
            _log.warning("%s was not created: %s", self.topic, error)
