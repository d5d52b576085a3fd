"""Simulated brokers under load and faults, watched after every step.

A *step* is what happens at one moment of virtual time; `ClusterChecks.look` runs between steps.
What must hold stands in cluster_checks.py, what goes wrong in cluster_nemesis.py, what a seed
chooses of both in cluster_scenarios.py. Everything is a function of the seed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random

from local_cluster.controller import znodes
from local_cluster.controller.model import OFFSETS_TOPIC, PartitionState
from local_cluster.controller.topic_requests import TopicSpec
from local_cluster.wire.errors import ErrorCode, KafkaError

from .cluster_checks import Anomaly, At, ClusterChecks, state_of
from .cluster_group import SimGroup
from .cluster_nemesis import Nemesis
from .cluster_producer import SimProducer
from .cluster_scenarios import Scenario
from .sim_broker import SimBroker, SimFlusher
from .sim_network import SimNetwork
from .sim_process import ProcessLoop
from .sim_zookeeper import SimZooKeeper

TOPIC = "t"
UNCLEAN_TOPIC = "u"
REPLICAS = 3
HEAL_SECONDS_MAX = 90.0
GROW_SECONDS = 0.2
"""How often somebody looks whether partitions were added."""
CONFIG = {
    "replica.lag.time.max.ms": "2000",
    "replica.fetch.wait.max.ms": "300",
    "replica.fetch.backoff.ms": "100",
    "offsets.topic.num.partitions": "1",
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
        self._working: list[asyncio.Task[None]] = []
        """Of the clients."""
        self.is_healed = False

    async def run(self, seconds: float) -> None:
        """The whole play. Raises Anomaly."""
        loop = asyncio.get_running_loop()
        assert isinstance(loop, ProcessLoop)
        try:
            await self._play(loop, seconds)
        finally:
            loop.before_jump = lambda: None
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
        self._produce()
        nemesis = asyncio.ensure_future(self.nemesis.trouble(seconds))
        end = loop.time() + seconds
        while loop.time() < end:
            await asyncio.sleep(GROW_SECONDS)
            self._produce()
        nemesis.cancel()
        await asyncio.wait((nemesis,))
        if not nemesis.cancelled():
            nemesis.result()
        self.is_healed = True
        self.nemesis.heal()
        for producer in self.producers:
            producer.stopping = True
        for group in self.groups:
            group.stopping = True
        try:
            await asyncio.wait_for(asyncio.gather(*self._working), HEAL_SECONDS_MAX)
        except TimeoutError:
            raise Anomaly(f"no progress: {self.checks.what_is_missing()}") from None
        await self._until_none(self.checks.what_is_missing)
        if self.scenario.ends_a_session_at_rest:
            self.random.choice(list(self.brokers.values())).coordination.end_session()
            await asyncio.sleep(1.0)
            await self._until_none(self.checks.what_is_missing)
        self.checks.look()
        self.checks.judge()

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
        if self.groups:
            await self._create_topic(OFFSETS_TOPIC, 1, least | {"cleanup.policy": "compact"})

    async def _create_topic(self, name: str, partitions: int, configs: dict[str, str]) -> None:
        spec = TopicSpec(
            name=name, partitions=partitions, replication_factor=REPLICAS, configs=dict(configs)
        )
        while True:
            controller = self.controller()
            if controller is not None:
                try:
                    (created,) = await controller.as_its_own(
                        controller.control_plane.create_topics([spec])
                    )
                except KafkaError:
                    created = None
                if created is not None and (
                    created.error is None or created.error.code == ErrorCode.topic_already_exists
                ):
                    return
            await asyncio.sleep(0.1)

    def _produce(self) -> None:
        """A producer for every partition that has none yet."""
        known = {producer.at for producer in self.producers}
        self.partitions = self.partitions_in_zookeeper()
        for at in self.partitions:
            if at not in known and at.topic != OFFSETS_TOPIC:
                producer = SimProducer(self, at, 1000 * (len(self.producers) + 1))
                self.producers.append(producer)
                self._working.append(asyncio.ensure_future(producer.run()))

    def partitions_in_zookeeper(self) -> list[At]:
        """By the znodes of the topics."""
        found = []
        for name in (TOPIC, *self.unclean_topics, *([OFFSETS_TOPIC] if self.groups else [])):
            znode = self.zookeeper.tree.get(znodes.topic_path(name))
            if znode is not None:
                found += [At(name, each) for each in znodes.decode_topic(znode.payload).replicas]
        return found

    def state_in_zookeeper(self, at: At) -> PartitionState | None:
        """What ZooKeeper has; None where there is nothing yet."""
        return state_of(self, at)

    def is_moving(self, at: At) -> bool:
        """Whether ZooKeeper says that replicas of a partition come or go."""
        topic = znodes.decode_topic(self.zookeeper.tree[znodes.topic_path(at.topic)].payload)
        return at.partition in topic.adding or at.partition in topic.removing

    async def _until_none(self, missing: Callable[[], str | None]) -> None:
        waited = 0.0
        while (what := missing()) is not None:
            await asyncio.sleep(0.1)
            waited += 0.1
            if waited > HEAL_SECONDS_MAX:
                raise Anomaly(f"after {HEAL_SECONDS_MAX} s without faults: {what}")
