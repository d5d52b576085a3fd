"""Simulated brokers under load and faults, watched after every step.

A *step* is what happens at one moment of virtual time; `ClusterChecks.look` runs between steps.
What must hold stands in checks.py, what goes wrong in nemesis.py, what a seed
chooses of both in scenarios.py. Everything is a function of the seed.
"""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

from local_cluster.controller.model import znode_paths
from local_cluster.controller.model.cluster_image import (
    OFFSETS_TOPIC,
    TRANSACTIONS_TOPIC,
    PartitionState,
)
from local_cluster.controller.model.topic_requests import TopicCreation, TopicSpec
from local_cluster.wire.errors import ErrorCode, KafkaError
from tests.sim.broker.sim_broker import SimBroker
from tests.sim.broker.sim_flusher import SimFlusher
from tests.sim.broker.sim_network import SimNetwork
from tests.sim.broker.sim_process import ProcessLoop
from tests.sim.broker.sim_zookeeper import SimZooKeeper
from tests.sim.cluster.checks import ClusterChecks, decode_topic, state_of
from tests.sim.cluster.group import SimGroup
from tests.sim.cluster.names import Anomaly, At, Log
from tests.sim.cluster.nemesis import Nemesis
from tests.sim.cluster.producer import SimProducer
from tests.sim.cluster.scenarios import Scenario
from tests.sim.cluster.transaction_readers import SimReader, judge_transactions
from tests.sim.cluster.transactions import SimTransactions

TOPIC = "t"
UNCLEAN_TOPIC = "u"
REPLICAS = 3
HEAL_SECONDS_MAX = 90.0
GROW_SECONDS = 0.2
"""How often somebody looks whether partitions were added, and makes anew what was deleted."""
PARTITIONS_ANEW_MAX = 2
CONFIG = {
    "replica.lag.time.max.ms": "2000",
    "replica.fetch.wait.max.ms": "300",
    "replica.fetch.backoff.ms": "100",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    "segment.bytes": "100000000",
    "log.segment.bytes": "100000000",
}


class SimWorld:
    """A cluster, its clients, its faults and its judges."""

    topic = TOPIC
    unclean_partition = At(UNCLEAN_TOPIC, 0)

    def __init__(
        self,
        seed: int,
        scenario: Scenario,
        *,
        flusher_of: Callable[[SimBroker, Random], SimFlusher] = SimFlusher,
    ) -> None:
        self.random = Random(seed)
        self.scenario = scenario
        self.unclean_topics = frozenset([UNCLEAN_TOPIC] if scenario.has_unclean_topic else [])
        self.network = SimNetwork(self.random)
        self.zookeeper = SimZooKeeper()
        self.zookeeper.random = self.random
        self.brokers = {
            broker_id: SimBroker(
                broker_id,
                network=self.network,
                zookeeper=self.zookeeper,
                random=self.random,
                flush=scenario.flush,
                config=CONFIG,
                log_dirs=scenario.log_dirs,
                flusher_of=flusher_of,
            )
            for broker_id in range(1, scenario.brokers + 1)
        }
        self.checks = ClusterChecks(self)
        self.nemesis = Nemesis(self)
        self.partitions: list[At] = []
        """Those that are known to the clients."""
        self.producers: list[SimProducer] = []
        self.groups = [SimGroup(self, At(TOPIC, 0))] if scenario.has_group else []
        self.transactions = SimTransactions(self) if scenario.has_transactions else None
        self.readers: list[SimReader] = []
        self._reading: list[asyncio.Task[None]] = []
        self._working: list[asyncio.Task[None]] = []
        """Of the clients."""
        self._growing: asyncio.Task[None] | None = None
        self.is_healed = False
        self.is_stopping = False

    async def run(self, seconds: float) -> None:
        """The whole play. Raises Anomaly."""
        loop = asyncio.get_running_loop()
        assert isinstance(loop, ProcessLoop)
        try:
            await self._play(loop, seconds)
        finally:
            loop.before_jump = lambda: None
            if self._growing is not None:
                self._growing.cancel()
            for broker in self.brokers.values():
                broker.end_tasks()

    async def _play(self, loop: ProcessLoop, seconds: float) -> None:
        for broker in self.brokers.values():
            broker.start()
        await self._until_none(
            lambda: None if self.controller() is not None else "there is no controller"
        )
        await self._create_topics()
        loop.before_jump = self.checks.look
        self._working += [asyncio.ensure_future(group.run()) for group in self.groups]
        if self.transactions is not None:
            self._transact(self.transactions)
        self._growing = asyncio.ensure_future(self._grow())
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.nemesis.trouble()
        self.is_healed = True
        self.nemesis.heal()
        # What was deleted last is made anew, and written.
        await self._until_none(self._absent)
        await asyncio.sleep(2 * GROW_SECONDS)
        self._stop_clients()
        try:
            async with asyncio.timeout(HEAL_SECONDS_MAX):
                while self._working:
                    working, self._working = self._working, []
                    await asyncio.gather(*working)
        except TimeoutError:
            raise Anomaly(f"no progress: {self.checks.what_is_missing()}") from None
        await self._until_none(self.checks.what_is_missing)
        if self.scenario.ends_a_session_at_rest:
            self.random.choice(list(self.brokers.values())).coordination.end_session()
            await asyncio.sleep(1.0)
            await self._until_none(self.checks.what_is_missing)
        if self._growing.done():
            self._growing.result()
        await self._read_to_the_end()
        self.checks.look()
        self.checks.judge()
        if self.transactions is not None:
            judge_transactions(self, self.transactions)

    def _transact(self, transactions: SimTransactions) -> None:
        """Have the topic written in transactions, and each of its partitions read."""
        self.partitions = self.partitions_in_zookeeper()
        self.readers = [SimReader(self, at) for at in self.partitions if at.topic == TOPIC]
        self._working.append(asyncio.ensure_future(transactions.run()))
        self._reading = [asyncio.ensure_future(reader.run()) for reader in self.readers]

    async def _read_to_the_end(self) -> None:
        """Have the readers see all that is committed, and no more of it asked for."""
        await self._until_none(self._unread)
        for reader in self.readers:
            reader.stopping = True
        await asyncio.gather(*self._reading)

    def _unread(self) -> str | None:
        """Which reader has not come to the end of what is committed, None where all have."""
        for reading in self._reading:
            if reading.done():
                reading.result()
        for reader in self.readers:
            topic_id = self.topic_id(reader.at.topic)
            assert topic_id is not None, "readers' topics stay"
            end_offset = self.checks.committed_of(Log(reader.at, topic_id)).end_offset
            if reader.offset < end_offset:
                return f"{reader.at}: a reader is at {reader.offset} of {end_offset}"
        return None

    def _stop_clients(self) -> None:
        """Each does its work once more, those that come later too."""
        self.is_stopping = True
        for producer in self.producers:
            producer.stopping = True
        for group in self.groups:
            group.stopping = True
        if self.transactions is not None:
            self.transactions.stopping = True

    def operate(self, work: Coroutine[Any, Any, None]) -> None:
        """Have an operator do something from outside the brokers; the play waits for its end."""
        self._working.append(asyncio.ensure_future(work))

    @property
    def records_acknowledged(self) -> int:
        """By producers, and by commits that were answered."""
        count = sum(len(producer.acknowledged) for producer in self.producers)
        attempted = [] if self.transactions is None else self.transactions.attempted
        return count + sum(each.records_count for each in attempted if each.is_committed)

    # -- the cluster ----------------------------------------------------------------------------

    def controller(self) -> SimBroker | None:
        """Some broker that takes itself for the controller."""
        for broker in self.brokers.values():
            if broker.is_alive and broker.control_plane.is_controller:
                return broker
        return None

    async def _create_topics(self) -> None:
        await asyncio.sleep(0.5)
        least = {"min.insync.replicas": str(self.scenario.min_insync_replicas)}
        await self._create_topic(TOPIC, self.scenario.partitions, least)
        for name in self.unclean_topics:
            await self._create_topic(name, 1, {"unclean.leader.election.enable": "true"})
        for name in self._internal_topics:
            await self._create_topic(name, 1, least | {"cleanup.policy": "compact"})

    async def _grow(self) -> None:
        """Make topics anew that were deleted, and begin to write what is new."""
        while True:
            if self.topic_id(TOPIC) is None:
                await self._create_anew()
            self._produce()
            await asyncio.sleep(GROW_SECONDS)

    async def _create_anew(self) -> None:
        """The topic under its old name, with any partitions on any brokers."""
        least = {"min.insync.replicas": str(self.scenario.min_insync_replicas)}
        replicas = self.random.randint(1, REPLICAS)
        assignments = {
            index: tuple(self.random.sample(list(self.brokers), replicas))
            for index in range(self.random.randint(1, PARTITIONS_ANEW_MAX))
        }
        await self._create(TopicSpec(name=TOPIC, assignments=assignments, configs=least))

    async def _create_topic(self, name: str, partitions: int, configs: dict[str, str]) -> None:
        await self._create(
            TopicSpec(
                name=name, partitions=partitions, replication_factor=REPLICAS, configs=dict(configs)
            )
        )

    async def _create(self, spec: TopicSpec) -> None:
        while True:
            controller = self.controller()
            if controller is not None:
                asked = controller.as_its_own(controller.control_plane.create_topics([spec]))
                # The controller may die over it.
                await asyncio.wait((asked,))
                if _is_created(asked):
                    return
            await asyncio.sleep(0.1)

    def _produce(self) -> None:
        """A producer for every partition that has none yet."""
        known = {producer.log for producer in self.producers}
        self.partitions = self.partitions_in_zookeeper()
        for at in self.partitions:
            topic_id = self.living_topic_id(at.topic)
            if topic_id is None or at.topic in self._internal_topics:
                continue
            if self.transactions is not None:
                continue  # written by others
            if Log(at, topic_id) not in known:
                producer = SimProducer(self, at, topic_id, 1000 * (len(self.producers) + 1))
                producer.stopping = self.is_stopping
                self.producers.append(producer)
                self._working.append(asyncio.ensure_future(producer.run()))

    def partitions_in_zookeeper(self) -> list[At]:
        """By the znodes of the topics."""
        found = []
        for name in self.topic_names:
            znode = self.zookeeper.tree.get(znode_paths.topic_path(name))
            if znode is not None:
                found += [At(name, each) for each in decode_topic(znode.payload).replicas]
        return found

    @property
    def topic_names(self) -> tuple[str, ...]:
        """Those that there are, or soon will be."""
        return (TOPIC, *self.unclean_topics, *self._internal_topics)

    @property
    def _internal_topics(self) -> tuple[str, ...]:
        groups = (OFFSETS_TOPIC,) if self.groups else ()
        return groups if self.transactions is None else (*groups, TRANSACTIONS_TOPIC)

    def topic_id(self, name: str) -> uuid.UUID | None:
        """By the topic's znode; None where there is none."""
        znode = self.zookeeper.tree.get(znode_paths.topic_path(name))
        return None if znode is None else decode_topic(znode.payload).topic_id

    def living_topic_id(self, name: str) -> uuid.UUID | None:
        """None as well where the topic is marked for deletion."""
        is_marked = znode_paths.delete_topic_path(name) in self.zookeeper.tree
        return None if is_marked else self.topic_id(name)

    def _absent(self) -> str | None:
        for name in self.topic_names:
            if self.living_topic_id(name) is None:
                return f"topic {name} is not there"
        return None

    def state_in_zookeeper(self, at: At) -> PartitionState | None:
        """What ZooKeeper has; None where there is nothing yet."""
        return state_of(self, at)

    def is_moving(self, at: At) -> bool:
        """Whether ZooKeeper says that replicas of a partition come or go."""
        znode = self.zookeeper.tree.get(znode_paths.topic_path(at.topic))
        if znode is None:
            return False
        topic = decode_topic(znode.payload)
        return at.partition in topic.adding or at.partition in topic.removing

    async def _until_none(self, missing: Callable[[], str | None]) -> None:
        waited = 0.0
        while (what := missing()) is not None:
            await asyncio.sleep(0.1)
            waited += 0.1
            if waited > HEAL_SECONDS_MAX:
                raise Anomaly(f"after {HEAL_SECONDS_MAX} s without faults: {what}")


def _is_created(asked: asyncio.Task[list[TopicCreation]]) -> bool:
    if asked.cancelled() or isinstance(asked.exception(), KafkaError):
        return False
    (created,) = asked.result()
    return created.error is None or created.error.code == ErrorCode.topic_already_exists
