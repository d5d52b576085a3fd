"""The partitions of one internal topic: those that this broker leads, and the leaders of others.

Guarantees: only the leader of a key's partition serves the key; other brokers answer
NOT_COORDINATOR. The first lookup of a coordinator creates the topic; lookups answer
COORDINATOR_NOT_AVAILABLE until the partition's leader is known.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from typing import Generic

from local_cluster.controller.model.cluster_image import NO_LEADER, PartitionState
from local_cluster.coordinator_runtime.loading import S
from local_cluster.coordinator_runtime.partition_runtime import (
    FollowUp,
    PartitionRuntime,
    RuntimeState,
)
from local_cluster.coordinator_runtime.partitioning import partition_of
from local_cluster.coordinator_runtime.pending_work import Step
from local_cluster.coordinator_runtime.ports import CoordinatorBroker
from local_cluster.wire.errors import ErrorCode, KafkaError

log = logging.getLogger(__name__)


class CoordinatedTopic(Generic[S]):
    """One coordinator's topic on one broker, with a runtime for each partition that it leads."""

    def __init__(
        self,
        broker: CoordinatorBroker,
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
        self._periodic: list[asyncio.Task[None]] = []
        self._creation: asyncio.Task[None] | None = None

    # -- lifecycle --------------------------------------------------------------------------

    def run_periodically(self, interval_ms: int, step: Step[S], name: str) -> None:
        """Run a step on every partition's shard at an interval, until `stop`."""
        task = asyncio.create_task(self._run_periodically(interval_ms, step), name=name)
        self._periodic.append(task)

    async def stop(self) -> None:
        """Fail the waiting requests and stop every task."""
        for partition in tuple(self._runtimes):
            self.on_leadership(self.topic, partition, False)
        tasks = [*self._periodic] + ([] if self._creation is None else [self._creation])
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, *self._closing, return_exceptions=True)

    def on_leadership(self, topic: str, partition: int, leads: bool) -> None:
        """Start or end a term when this broker starts or stops leading a partition of some topic.

        Each term has a new runtime and loads the log again: another leader may have written in
        between, and the log may have been truncated.
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

    # -- lookup -----------------------------------------------------------------------------

    def find_coordinator(self, key: str, listener: str) -> tuple[int, str, int]:
        """Return (broker id, host, port) of a key's coordinator on a listener.

        Raises KafkaError(coordinator_not_available) until the partition has a leader with that
        listener.
        """
        state = self._state(self.partition_of(key))
        leader = NO_LEADER if state is None else state.leader
        endpoints = self._broker.metadata.brokers.get(leader)
        address = None if endpoints is None else endpoints.listeners.get(listener)
        if address is None:
            raise KafkaError(ErrorCode.coordinator_not_available, "the partition has no leader")
        return leader, address[0], address[1]

    def partition_of(self, key: str) -> int:
        """Return a key's partition.

        Raises KafkaError(coordinator_not_available) while the topic does not exist.
        """
        topic = self._broker.metadata.topics.get(self.topic)
        if topic is None:
            self._start_creation()
            raise KafkaError(ErrorCode.coordinator_not_available, f"{self.topic} is being created")
        return partition_of(key, len(topic.partitions))

    def leader_of(self, key: str) -> int:
        """Return the broker id of a key's coordinator.

        Raises KafkaError(coordinator_not_available) if the partition has no leader.
        """
        state = self._state(self.partition_of(key))
        if state is None or state.leader == NO_LEADER:
            raise KafkaError(ErrorCode.coordinator_not_available)
        return state.leader

    def is_here(self, key: str) -> bool:
        """Return whether this broker is the coordinator of a key."""
        topic = self._broker.metadata.topics.get(self.topic)
        return topic is not None and partition_of(key, len(topic.partitions)) in self._runtimes

    def runtime_of(self, key: str) -> PartitionRuntime[S]:
        """Return the runtime that serves a key. Raises KafkaError(not_coordinator)."""
        topic = self._broker.metadata.topics.get(self.topic)
        if topic is None:
            raise KafkaError(ErrorCode.not_coordinator, f"{self.topic} does not exist")
        runtime = self._runtimes.get(partition_of(key, len(topic.partitions)))
        if runtime is None:
            raise KafkaError(ErrorCode.not_coordinator, f"this broker does not coordinate {key}")
        return runtime

    def runtime(self, partition: int) -> PartitionRuntime[S]:
        """Return the runtime of a partition. Raises KafkaError(not_leader_or_follower)."""
        runtime = self._runtimes.get(partition)
        if runtime is None:
            raise KafkaError(ErrorCode.not_leader_or_follower)
        return runtime

    def __iter__(self) -> Iterator[PartitionRuntime[S]]:
        yield from tuple(self._runtimes.values())

    def shards(self) -> tuple[ErrorCode, list[S]]:
        """Return every loaded shard, with COORDINATOR_LOAD_IN_PROGRESS if some still load."""
        states = {runtime.state for runtime in self}
        error = ErrorCode.none
        if RuntimeState.LOADING in states:
            error = ErrorCode.coordinator_load_in_progress
        return error, [runtime.shard for runtime in self if runtime.state is RuntimeState.ACTIVE]

    # -- inside -----------------------------------------------------------------------------

    def _state(self, partition: int) -> PartitionState | None:
        topic = self._broker.metadata.topics.get(self.topic)
        return None if topic is None else topic.partitions.get(partition)

    async def _run_periodically(self, interval_ms: int, step: Step[S]) -> None:
        while True:
            await asyncio.sleep(interval_ms / 1000)
            for runtime in self:
                try:
                    runtime.run_step(step)
                except Exception:
                    log.exception("the periodic step of %s failed", runtime.name)
                await asyncio.sleep(0)

    def _start_creation(self) -> None:
        """Start creating the topic unless a creation runs; the next lookup reports the result."""
        if self._creation is None or self._creation.done():
            self._creation = asyncio.create_task(self._create_topic(), name=f"create {self.topic}")

    async def _create_topic(self) -> None:
        """Ask the controller to create the topic; the next lookup retries after an error."""
        error = await self._broker.control_plane.auto_create_topic(self.topic)
        if error is not None:
            log.warning("%s was not created: %s", self.topic, error)
