"""Simulated brokers under load and faults, checked after every step.

A *step* is what happens at one moment of virtual time; `ClusterChecks.look` runs between steps.
checks.py has what must hold, nemesis.py and operators.py what goes wrong and what is asked,
scenarios.py what a seed chooses of both. Everything is a function of the seed.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from typing import Any

from local_cluster.controller.model.topic_requests import TopicCreation, TopicSpec
from local_cluster.wire.errors import ErrorCode, KafkaError
from tests.sim.broker.sim_process import ProcessLoop
from tests.sim.cluster.checks import ClusterChecks
from tests.sim.cluster.group import SimGroup
from tests.sim.cluster.names import Anomaly, At, Log
from tests.sim.cluster.nemesis import Nemesis
from tests.sim.cluster.operators import Operators
from tests.sim.cluster.producer import SimProducer
from tests.sim.cluster.scenarios import Scenario
from tests.sim.cluster.sim_cluster import TOPIC, SimCluster
from tests.sim.cluster.transaction_readers import SimReader, judge_transactions
from tests.sim.cluster.transactions import SimTransactions
from tests.sim.members.member import PARTITIONS as SHARED_PARTITIONS
from tests.sim.members.member import TOPIC as SHARED_TOPIC
from tests.sim.members.slots import SimMembers

REPLICAS = 3
HEAL_SECONDS_MAX = 90.0
GROW_SECONDS = 0.2
"""How often added partitions are noticed, and deleted topics re-created."""
RECREATED_PARTITIONS_MAX = 2


class SimWorld:
    """A cluster, its clients, its faults and its judges."""

    def __init__(self, seed: int, scenario: Scenario) -> None:
        self.cluster = SimCluster(seed, scenario)
        self.checks = ClusterChecks(self.cluster)
        self.producers: list[SimProducer] = []
        self.operators = Operators(self.cluster, self.checks, self.producers, self._operate)
        self.nemesis = Nemesis(self.cluster, self.operators)
        self.groups = [SimGroup(self.cluster, At(TOPIC, 0))] if scenario.has_group else []
        self.members: list[SimMembers] = []
        if scenario.has_members:
            self.members.append(SimMembers(self.cluster, "eager-group", "eager"))
            self.members.append(SimMembers(self.cluster, "cooperative-group", "cooperative"))
        self.transactions: SimTransactions | None = None
        if scenario.has_transactions:
            self.transactions = SimTransactions(self.cluster, self.checks.open_transaction)
        self.readers: list[SimReader] = []
        self._reading: list[asyncio.Task[None]] = []
        self._working: list[asyncio.Task[None]] = []
        """The tasks of the clients and operators."""
        self._growing: asyncio.Task[None] | None = None
        self._is_stopping = False

    async def run(self, seconds: float) -> None:
        """Run the whole simulation. Raises Anomaly."""
        loop = asyncio.get_running_loop()
        assert isinstance(loop, ProcessLoop)
        try:
            await self._play(loop, seconds)
        finally:
            loop.before_jump = lambda: None
            if self._growing is not None:
                self._growing.cancel()
            for broker in self.cluster.brokers.values():
                broker.end_tasks()

    async def _play(self, loop: ProcessLoop, seconds: float) -> None:
        cluster = self.cluster
        for broker in cluster.brokers.values():
            broker.start()
        await self._until_none(
            lambda: None if cluster.controller() is not None else "there is no controller"
        )
        await self._create_topics()
        loop.before_jump = self.checks.look
        self._working += [asyncio.ensure_future(group.run()) for group in self.groups]
        self._working += [asyncio.ensure_future(members.run()) for members in self.members]
        if self.transactions is not None:
            self._transact(self.transactions)
        self._growing = asyncio.ensure_future(self._grow())
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.nemesis.trouble()
        cluster.is_healed = True
        self.nemesis.heal()
        # The topic that was deleted last is re-created and written.
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
        if cluster.scenario.ends_a_session_when_idle:
            cluster.random.choice(list(cluster.brokers.values())).coordination.end_session()
            await asyncio.sleep(1.0)
            await self._until_none(self.checks.what_is_missing)
        if self._growing.done():
            self._growing.result()
        await self._read_to_the_end()
        self.checks.look()
        self.checks.judge(self.producers)
        if self.transactions is not None:
            judge_transactions(cluster, self.checks, self.readers, self.transactions)

    def _transact(self, transactions: SimTransactions) -> None:
        """Start the transactions, and a reader of each partition."""
        cluster = self.cluster
        cluster.partitions = cluster.partitions_in_zookeeper()
        self.readers = [SimReader(cluster, at) for at in cluster.partitions if at.topic == TOPIC]
        self._working.append(asyncio.ensure_future(transactions.run()))
        self._reading = [asyncio.ensure_future(reader.run()) for reader in self.readers]

    async def _read_to_the_end(self) -> None:
        """Wait until the readers have read everything that is committed, then stop them."""
        await self._until_none(self._unread)
        for reader in self.readers:
            reader.stopping = True
        await asyncio.gather(*self._reading)

    def _unread(self) -> str | None:
        """Return which reader is behind the end of the committed records, None if none is."""
        for reading in self._reading:
            if reading.done():
                reading.result()
        for reader in self.readers:
            topic_id = self.cluster.topic_id(reader.at.topic)
            assert topic_id is not None, "topics with readers are not deleted"
            end_offset = self.checks.committed_of(Log(reader.at, topic_id)).end_offset
            if reader.offset < end_offset:
                return f"{reader.at}: a reader is at {reader.offset} of {end_offset}"
        return None

    def _stop_clients(self) -> None:
        """Let each client do its work once more; later clients too."""
        self._is_stopping = True
        for producer in self.producers:
            producer.stopping = True
        for group in self.groups:
            group.stopping = True
        for members in self.members:
            members.stopping = True
        if self.transactions is not None:
            self.transactions.stopping = True

    def _operate(self, work: Coroutine[Any, Any, None]) -> None:
        """Run an operator's work outside the brokers; the simulation waits for its end."""
        self._working.append(asyncio.ensure_future(work))

    @property
    def records_acknowledged(self) -> int:
        """Records acknowledged to producers, or by answered commits."""
        count = sum(len(producer.acknowledged) for producer in self.producers)
        attempted = [] if self.transactions is None else self.transactions.attempted
        return count + sum(each.records_count for each in attempted if each.is_committed)

    # -- topics ---------------------------------------------------------------------------------

    @property
    def _topic_configs(self) -> dict[str, str]:
        return {"min.insync.replicas": str(self.cluster.scenario.min_insync_replicas)}

    async def _create_topics(self) -> None:
        await asyncio.sleep(0.5)
        configs = self._topic_configs
        await self._create_topic(TOPIC, self.cluster.scenario.partitions, configs)
        for name in self.cluster.unclean_topics:
            await self._create_topic(name, 1, {"unclean.leader.election.enable": "true"})
        for name in self.cluster.internal_topics:
            await self._create_topic(name, 1, configs | {"cleanup.policy": "compact"})

        if self.members:
            # Nobody writes it: its replicas are of no interest.
            brokers = list(self.cluster.brokers)
            assignments = {index: (brokers[index % len(brokers)],) for index in SHARED_PARTITIONS}
            await self._create(TopicSpec(name=SHARED_TOPIC, assignments=assignments, configs={}))

    async def _grow(self) -> None:
        """Re-create deleted topics, and start to write new partitions."""
        while True:
            if self.cluster.topic_id(TOPIC) is None:
                await self._recreate()
            self._produce()
            await asyncio.sleep(GROW_SECONDS)

    async def _recreate(self) -> None:
        """Re-create the topic under its name, with any partitions on any brokers."""
        random = self.cluster.random
        replicas = random.randint(1, REPLICAS)
        assignments = {
            index: tuple(random.sample(list(self.cluster.brokers), replicas))
            for index in range(random.randint(1, RECREATED_PARTITIONS_MAX))
        }
        spec = TopicSpec(name=TOPIC, assignments=assignments, configs=self._topic_configs)
        await self._create(spec)

    async def _create_topic(self, name: str, partitions: int, configs: dict[str, str]) -> None:
        await self._create(
            TopicSpec(
                name=name, partitions=partitions, replication_factor=REPLICAS, configs=dict(configs)
            )
        )

    async def _create(self, spec: TopicSpec) -> None:
        while True:
            controller = self.cluster.controller()
            if controller is not None:
                creating = controller.as_its_own(controller.control_plane.create_topics([spec]))
                # The controller may die meanwhile.
                await asyncio.wait((creating,))
                if _is_created(creating):
                    return
            await asyncio.sleep(0.1)

    def _produce(self) -> None:
        """Start a producer for every log that has none yet."""
        cluster = self.cluster
        known = {producer.log for producer in self.producers}
        cluster.partitions = cluster.partitions_in_zookeeper()
        for at in cluster.partitions:
            topic_id = cluster.living_topic_id(at.topic)
            if topic_id is None or at.topic in cluster.internal_topics:
                continue
            if self.transactions is not None:
                continue  # the transactional producers write it
            if Log(at, topic_id) not in known:
                producer = SimProducer(
                    cluster,
                    at,
                    topic_id,
                    1000 * (len(self.producers) + 1),
                    acknowledged=self.checks.acknowledged,
                )
                producer.stopping = self._is_stopping
                self.producers.append(producer)
                self._working.append(asyncio.ensure_future(producer.run()))

    def _absent(self) -> str | None:
        for name in self.cluster.topic_names:
            if self.cluster.living_topic_id(name) is None:
                return f"topic {name} does not exist"
        return None

    async def _until_none(self, missing: Callable[[], str | None]) -> None:
        waited = 0.0
        while (what := missing()) is not None:
            await asyncio.sleep(0.1)
            waited += 0.1
            if waited > HEAL_SECONDS_MAX:
                raise Anomaly(f"after {HEAL_SECONDS_MAX} s without faults: {what}")


def _is_created(creating: asyncio.Task[list[TopicCreation]]) -> bool:
    if creating.cancelled() or isinstance(creating.exception(), KafkaError):
        return False
    (created,) = creating.result()
    return created.error is None or created.error.code == ErrorCode.topic_already_exists
