"""Three simulated brokers under load and faults, watched after every step.

A *step* is what happens at one moment of virtual time; `ClusterChecks.look` runs between steps.

    invariant                                                                checked
    one leader per partition and epoch                                       after every step
    what was committed once never changes, wherever it is seen               after every step
    every in-sync replica (by ZooKeeper) has what is committed on its disk   whenever more is
    a leader of the newest epoch has all that is committed                   when it begins
    acknowledged records are there once, in order                            at the end
    replicas are byte-identical, and all are in sync again                   at the end

Everything is a function of the seed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random
from typing import Any, Literal, NamedTuple

from local_cluster.controller import znodes
from local_cluster.controller.topic_requests import TopicSpec
from local_cluster.records.batch import NewRecord, decode_batch, encode_batch
from local_cluster.records.header import iter_headers
from local_cluster.replication.partition import Partition
from local_cluster.wire import produce as produce_codec
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, KafkaError

from .sim_broker import HOME, SimBroker, SimFlusher, host_of
from .sim_network import SimLine, SimNetwork
from .sim_zookeeper import SimZooKeeper
from .virtual_time import VirtualTimeLoop

BROKERS = (1, 2, 3)
TOPIC = "t"
PRODUCE_VERSION = 9
READ_BYTES = 1 << 20
HEAL_SECONDS_MAX = 90.0
CONFIG = {
    "replica.lag.time.max.ms": "2000",
    "replica.fetch.wait.max.ms": "300",
    "replica.fetch.backoff.ms": "100",
    "offsets.topic.num.partitions": "1",
    "segment.bytes": "100000000",
    "log.segment.bytes": "100000000",
}


class Anomaly(AssertionError):
    """The cluster broke a promise."""


class At(NamedTuple):
    """One partition."""

    topic: str
    partition: int


class SimWorld:
    """A cluster of three, its clients, its faults and its judges."""

    def __init__(
        self,
        seed: int,
        *,
        flush: Literal["fsync", "page_cache"] = "fsync",
        partitions: int = 1,
        min_insync_replicas: int = 2,
        flusher_of: Callable[[SimBroker, Random], SimFlusher] = SimFlusher,
    ) -> None:
        self.random = Random(seed)
        self.flush = flush
        self.partitions = partitions
        self.min_insync_replicas = min_insync_replicas
        self.network = SimNetwork(self.random)
        self.zookeeper = SimZooKeeper()
        self.zookeeper.random = self.random
        self.brokers = {
            broker_id: SimBroker(
                broker_id,
                network=self.network,
                zookeeper=self.zookeeper,
                random=self.random,
                flush=flush,
                config=CONFIG,
                flusher_of=flusher_of,
            )
            for broker_id in BROKERS
        }
        self.checks = ClusterChecks(self)
        self.producers: list[SimProducer] = []
        self.faults: list[str] = []
        self.is_healed = False

    async def run(self, seconds: float) -> None:
        """The whole play. Raises Anomaly."""
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualTimeLoop)
        loop.set_task_factory(_task_of_home)
        for broker in self.brokers.values():
            broker.start()
        await self._until(lambda: self._controller() is not None, "a controller")
        await self._create_topic()
        loop.before_jump = self.checks.look
        self.producers = [
            SimProducer(self, At(TOPIC, index), 1000 + index) for index in range(self.partitions)
        ]
        tasks = [asyncio.ensure_future(producer.run()) for producer in self.producers]
        nemesis = asyncio.ensure_future(self._trouble(seconds))
        await asyncio.sleep(seconds)
        nemesis.cancel()
        await asyncio.wait((nemesis,))
        if not nemesis.cancelled():
            nemesis.result()
        self.heal()
        for producer in self.producers:
            producer.stopping = True
        await asyncio.wait_for(asyncio.gather(*tasks), HEAL_SECONDS_MAX)
        await self._until(self._is_whole, "all replicas in sync and equal")
        loop.before_jump = lambda: None
        self.checks.look()
        self.checks.judge()

    # -- the cluster ----------------------------------------------------------------------------

    def _controller(self) -> SimBroker | None:
        for broker in self.brokers.values():
            if broker.is_alive and broker.control_plane.is_controller:
                return broker
        return None

    async def _create_topic(self) -> None:
        await asyncio.sleep(0.5)
        spec = TopicSpec(
            name=TOPIC,
            partitions=self.partitions,
            replication_factor=len(BROKERS),
            configs={"min.insync.replicas": str(self.min_insync_replicas)},
        )
        while True:
            controller = self._controller()
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

    def state_in_zookeeper(self, at: At) -> tuple[int, int, list[int]] | None:
        """(leader, leader epoch, isr) as ZooKeeper has it."""
        znode = self.zookeeper.tree.get(znodes.state_path(at.topic, at.partition))
        if znode is None:
            return None
        state = znodes.decode_state(znode.payload)
        return state.leader, state.leader_epoch, list(state.isr)

    def _is_whole(self) -> bool:
        for producer in self.producers:
            state = self.state_in_zookeeper(producer.at)
            if state is None or sorted(state[2]) != list(BROKERS):
                return False
            held = [broker.replicas.get(*producer.at) for broker in self.brokers.values()]
            if any(p is None or p.high_watermark != p.log.log_end_offset for p in held):
                return False
            if len({p.log.log_end_offset for p in held if p is not None}) != 1:
                return False
        return True

    async def _until(self, condition: Callable[[], bool], what: str) -> None:
        waited = 0.0
        while not condition():
            await asyncio.sleep(0.1)
            waited += 0.1
            if waited > HEAL_SECONDS_MAX:
                raise Anomaly(f"after {HEAL_SECONDS_MAX} s without faults there is not: {what}")

    # -- the nemesis ----------------------------------------------------------------------------

    async def _trouble(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        while loop.time() < end:
            await asyncio.sleep(self.random.expovariate(1 / 1.2))
            broker = self.brokers[self.random.choice(BROKERS)]
            fault = self.random.choice(
                ("kill", "kill", "crash", "crash_all", "cut", "one_way", "zookeeper", "zk_outage",
                 "slow", "slow_disk", "depose", "heal", "heal")
            )  # fmt: skip
            self.faults.append(f"{loop.time():.3f} {fault} {broker.id}")
            self._do(fault, broker)

    def _do(self, fault: str, broker: SimBroker) -> None:
        others = [host_of(b) for b in BROKERS if b != broker.id]
        match fault:
            case "kill" if broker.is_alive:
                broker.kill()
                self._restart_later(broker)
            case "crash" if broker.is_alive and self.flush == "fsync":
                broker.crash()
                self._restart_later(broker)
            case "crash_all" if self.flush == "fsync":
                for each in self.brokers.values():
                    if each.is_alive:
                        each.crash()
                        self._restart_later(each)
            case "cut":
                for other in others:
                    self.network.cut(broker.host, other)
                    self.network.cut(other, broker.host)
            case "one_way":
                self.network.cut(broker.host, self.random.choice(others))
            case "zookeeper" if broker.is_alive:
                broker.coordination.cut_off = True
            case "zk_outage":
                for each in self.brokers.values():
                    if each.is_alive:
                        each.coordination.cut_off = True
                asyncio.get_running_loop().call_later(
                    self.random.uniform(0.5, 5.0), self._reach_zookeeper
                )
            case "depose" if znodes.CONTROLLER in self.zookeeper.tree:
                # What operators do to have another controller elected.
                self.zookeeper.remove(znodes.CONTROLLER)
            case "slow":
                self.network.slow_hosts.add(broker.host)
            case "slow_disk" if broker.is_alive and broker.flusher is not None:
                broker.flusher.is_slow = True
            case "heal":
                self.network.heal()
                self._reach_zookeeper()

    def _reach_zookeeper(self) -> None:
        for broker in self.brokers.values():
            if broker.is_alive:
                broker.coordination.cut_off = False

    def _restart_later(self, broker: SimBroker) -> None:
        life = broker.life

        def start() -> None:
            if not broker.is_alive and broker.life == life:
                broker.start()

        asyncio.get_running_loop().call_later(self.random.uniform(0.05, 4.0), start)

    def heal(self) -> None:
        """No faults any more; whoever is down starts."""
        self.is_healed = True
        self.network.heal()
        self._reach_zookeeper()
        for broker in self.brokers.values():
            if not broker.is_alive:
                broker.start()


class SimProducer:
    """An idempotent producer, one batch in flight, that repeats until it has an answer."""

    def __init__(self, world: SimWorld, at: At, producer_id: int) -> None:
        self.at = at
        self.stopping = False
        self.acknowledged: dict[bytes, int] = {}
        """Value to offset."""
        self.sent: list[bytes] = []
        self._world = world
        self._producer_id = producer_id
        self._sequence = 0
        self._asked = -1
        self._lines: dict[str, SimLine] = {}

    async def run(self) -> None:
        random = self._world.random
        while not self.stopping:
            values = [
                b"%d:%d" % (self._producer_id, self._sequence + n)
                for n in range(random.randint(1, 3))
            ]
            self.sent += values
            await self._write(values)
            self._sequence += len(values)
            await asyncio.sleep(random.expovariate(1 / 0.12))

    async def _write(self, values: list[bytes]) -> None:
        records = [NewRecord(0, None, value) for value in values]
        batch = encode_batch(
            records,
            producer_id=self._producer_id,
            producer_epoch=0,
            base_sequence=self._sequence,
        )
        while True:
            try:
                error, base_offset = await self._attempt(bytes(batch))
            except (KafkaError, TimeoutError):
                error, base_offset = ErrorCode.network_exception, -1
            if error == ErrorCode.none:
                for index, value in enumerate(values):
                    self.acknowledged[value] = base_offset + index
                return
            if error in (
                ErrorCode.out_of_order_sequence_number,
                ErrorCode.unknown_producer_id,
                ErrorCode.invalid_producer_epoch,
            ):
                self._suspect(error)
            await asyncio.sleep(0.1)

    def _suspect(self, error: ErrorCode) -> None:
        """A leader misses what came before. One that was deposed, and does not know, may."""
        state = self._world.state_in_zookeeper(self.at)
        if state is not None and state[0] == self._asked:
            raise Anomaly(f"{self.at}: {error.name}: what was acknowledged before is lost")

    async def _attempt(self, batch: bytes) -> tuple[ErrorCode, int]:
        world = self._world
        alive = [broker for broker in world.brokers.values() if broker.is_alive]
        if not alive:
            raise KafkaError(ErrorCode.network_exception, "nobody is there")
        state = world.random.choice(alive).metadata.partition(*self.at)
        if state is None or state.leader < 0:
            raise KafkaError(ErrorCode.leader_not_available, str(self.at))
        self._asked = state.leader
        line = self._lines.get(host_of(state.leader))
        if line is None or line.is_closed:
            line = await world.network.open_line("client", host_of(state.leader))
            self._lines[host_of(state.leader)] = line
        body = produce_codec.encode_request(
            PRODUCE_VERSION,
            produce_codec.ProduceRequest(
                None, -1, 3_000, [produce_codec.PartitionRecords(*self.at, memoryview(batch))]
            ),
        )
        try:
            async with asyncio.timeout(4.0):
                frame, position = await line.send(
                    ApiKey.PRODUCE, PRODUCE_VERSION, tuple(map(bytes, body))
                )
        except TimeoutError:
            line.abort("no answer")
            raise
        (answer,) = produce_codec.decode_response(PRODUCE_VERSION, frame, position)
        return ErrorCode(answer.error_code), answer.base_offset


class ClusterChecks:
    """What must hold, looked at from outside."""

    def __init__(self, world: SimWorld) -> None:
        self._world = world
        self._leaders: dict[tuple[At, int], int] = {}
        self.committed: dict[At, bytearray] = {}
        """The bytes of the log below the highest high watermark seen."""
        self._committed_end: dict[At, int] = {}
        self._seen: dict[tuple[int, int, At], tuple[int, int]] = {}
        """(broker, life, partition): (offset, bytes) up to which it was compared."""
        self._led: set[tuple[int, int, At, int]] = set()
        self._written: dict[At, znodes.StoredState] = {}
        """The state that ZooKeeper was seen to have last."""
        self.looks = 0

    def look(self) -> None:
        """Between two steps."""
        self.looks += 1
        for producer in self._world.producers:
            self._look_at_zookeeper(producer.at)
        for broker in self._world.brokers.values():
            if broker.failure is not None:
                raise broker.failure
            if not broker.is_alive:
                continue
            for partition in broker.replicas:
                at = At(partition.topic, partition.partition)
                if partition.is_leader:
                    self._look_at_leader(broker, partition, at)
                seen, _ = self._seen.get((broker.id, broker.life, at), (0, 0))
                if partition.high_watermark > seen:
                    self._compare(broker, partition, at)

    def _look_at_zookeeper(self, at: At) -> None:
        """Each leader has an epoch of its own, and the elected controller alone writes."""
        if self._world.zookeeper.unfenced:
            raise Anomaly(f"{at}: deposed controllers wrote {self._world.zookeeper.unfenced}")
        znode = self._world.zookeeper.tree.get(znodes.state_path(at.topic, at.partition))
        if znode is None:
            return
        state = znodes.decode_state(znode.payload)
        before = self._written.get(at, state)
        if state.leader_epoch < before.leader_epoch or (
            state.leader_epoch == before.leader_epoch and state.leader != before.leader
        ):
            raise Anomaly(f"{at}: the leader epoch of {state} does not come after that of {before}")
        self._written[at] = state

    def _look_at_leader(self, broker: SimBroker, partition: Partition, at: At) -> None:
        epoch = partition.leader_epoch
        leader = self._leaders.setdefault((at, epoch), broker.id)
        if leader != broker.id:
            raise Anomaly(f"{at}: brokers {leader} and {broker.id} lead in epoch {epoch}")
        term = (broker.id, broker.life, at, epoch)
        state = self._world.state_in_zookeeper(at)
        if term in self._led or state is None or state[:2] != (broker.id, epoch):
            return
        self._led.add(term)
        committed = self.committed.get(at, bytearray())
        if _read(partition, 0, partition.log.log_end_offset)[: len(committed)] != committed:
            raise Anomaly(f"{at}: broker {broker.id} leads in epoch {epoch} without all committed")

    def _compare(self, broker: SimBroker, partition: Partition, at: At) -> None:
        key = (broker.id, broker.life, at)
        offset, position = self._seen.get(key, (0, 0))
        fresh = _read(partition, offset, partition.high_watermark)
        committed = self.committed.setdefault(at, bytearray())
        known = committed[position : position + len(fresh)]
        if known != fresh[: len(known)]:
            raise Anomaly(f"{at}: broker {broker.id} shows other records than were committed")
        self._seen[key] = (partition.high_watermark, position + len(fresh))
        if len(known) < len(fresh):
            committed += fresh[len(known) :]
            self._check_disks(at, committed)

    def _check_disks(self, at: At, committed: bytearray) -> None:
        """More is committed: is it on enough disks, and on every in-sync replica's?"""
        state = self._world.state_in_zookeeper(at)
        assert state is not None
        path = f"/data/{at.topic}-{at.partition}/{0:020d}.log"
        holders = [
            broker.id
            for broker in self._world.brokers.values()
            if self._on_disk(broker, path).startswith(committed)
        ]
        if len(holders) < self._world.min_insync_replicas:
            raise Anomaly(f"{at}: committed with brokers {holders} alone")
        if not set(state[2]) <= set(holders):
            raise Anomaly(f"{at}: in sync are {state[2]}, but only {holders} have all committed")

    def _on_disk(self, broker: SimBroker, path: str) -> bytes | bytearray:
        inode = broker.disk.files.get(path)
        if inode is None:
            return b""
        if self._world.flush == "page_cache":
            return inode.content
        return inode.synced or b""

    def judge(self) -> None:
        """After healing: every acknowledged record once, in order, at its offset; logs equal."""
        for producer in self._world.producers:
            at = producer.at
            logs = {}
            for broker in self._world.brokers.values():
                partition = broker.replicas.get(*at)
                assert partition is not None
                logs[broker.id] = _read(partition, 0, partition.log.log_end_offset)
            if len(set(logs.values())) != 1:
                raise Anomaly(f"{at}: the replicas differ at the end")
            (log,) = set(logs.values())
            view = memoryview(log)
            found = [
                (record.value, record.offset)
                for start, header in iter_headers(view)
                for record in decode_batch(view, start, header)
            ]
            values = [value for value, _ in found]
            if len(set(values)) != len(values):
                raise Anomaly(f"{at}: records are there twice")
            offsets = {value: offset for value, offset in found if value is not None}
            for value, offset in producer.acknowledged.items():
                if offsets.get(value) != offset:
                    raise Anomaly(
                        f"{at}: {value!r} was acknowledged at {offset}, is at {offsets.get(value)}"
                    )
            if values != [value for value in producer.sent if value in offsets]:
                raise Anomaly(f"{at}: the order is not the producer's")


def _read(partition: Partition, offset: int, end: int) -> bytes:
    """Whole batches of the log from an offset up to another."""
    parts = []
    while offset < end:
        piece = partition.log.read(
            offset, bytes_max=READ_BYTES, offset_limit=end, at_least_one_batch=True
        )
        if piece is None or not piece.size_bytes:
            break
        parts.append(piece.read())
        offset = piece.next_offset
    return b"".join(parts)


def _task_of_home(loop: Any, coro: Any, **options: Any) -> asyncio.Task[Any]:
    """Make a task, and note it with the broker that it belongs to, so that it can die with it."""
    task: asyncio.Task[Any] = asyncio.Task(coro, loop=loop, **options)
    context = options.get("context")
    home = context.get(HOME) if context is not None else HOME.get()
    if home is not None:
        home.tasks[task] = None
        task.add_done_callback(lambda done: home.tasks.pop(done, None))
        if not home.is_alive:
            task.cancel()
    return task
