"""Clusters of real brokers whose topics have several replicas, and what their disks hold."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from local_cluster.client.client import KafkaClient
from local_cluster.client.model import NewTopic, TopicPartition
from local_cluster.records.batch import NewRecord, encode_batch
from local_cluster.records.header import iter_headers
from local_cluster.settings import FlushMode
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, KafkaError
from tests.support.cluster import SESSION_TIMEOUT_MS, BrokerProcess, running_broker
from tests.support.producing import produce_once
from topology.file.load import load_topology
from topology.rules.kafka_configs import broker_config

EVENTUALLY_SECONDS = 60.0

CONFIGURATION = Path(__file__).parents[2] / "configs" / "three-brokers.yaml"

THREE_BROKERS: Mapping[str, str] = {
    # What configs/three-brokers.yaml says, so that it is what the tests hold.
    **broker_config(load_topology(CONFIGURATION).clusters[0]),
    # Times of tests: a replica that hangs is out of sync in seconds.
    "replica.lag.time.max.ms": "4000",
}


@contextlib.asynccontextmanager
async def running_cluster(
    zookeeper: str,
    directory: Path,
    *,
    brokers: int = 3,
    config: Mapping[str, str] | None = None,
    flush: FlushMode = "fsync",
    has_racks: bool = False,
    log_dirs: Sequence[str] = ("log",),
    session_timeout_ms: int = SESSION_TIMEOUT_MS,
    http_port: int | None = None,
) -> AsyncIterator[list[BrokerProcess]]:
    """Brokers 1 to `brokers`, started side by side under a chroot of their own.

    Each has the log directories `log_dirs`. With `has_racks` each has a rack of its own: rack-1,
    rack-2 and so on.
    """
    chroot = f"{zookeeper}/t{uuid.uuid4().hex[:8]}"
    async with contextlib.AsyncExitStack() as stack:
        opened = [
            running_broker(
                chroot,
                directory,
                broker_id=index,
                config={**THREE_BROKERS, **(config or {})},
                flush=flush,
                rack=f"rack-{index}" if has_racks else None,
                log_dirs=log_dirs,
                session_timeout_ms=session_timeout_ms,
                http_port=http_port,
            )
            for index in range(1, brokers + 1)
        ]
        yield list(await asyncio.gather(*(stack.enter_async_context(each) for each in opened)))


def bootstrap(brokers: Sequence[BrokerProcess]) -> str:
    return ",".join(broker.bootstrap for broker in brokers)


async def eventually(condition: Callable[[], Any]) -> None:
    """Wait until a (perhaps asynchronous) condition holds."""
    async with asyncio.timeout(EVENTUALLY_SECONDS):
        while True:
            found = condition()
            if asyncio.iscoroutine(found):
                found = await found
            if found:
                return
            await asyncio.sleep(0.05)


async def create_topic_eventually(client: KafkaClient, name: str) -> None:
    """Create a topic as soon as the cluster can: sessions with ZooKeeper may be moving."""

    async def is_created() -> bool:
        with contextlib.suppress(KafkaError):
            await client.create_topics([NewTopic(name=name)])
            return name in (await client.metadata()).topics
        return False

    await eventually(is_created)


async def until_known(brokers: Sequence[BrokerProcess], client: KafkaClient, topic: str) -> None:
    """Wait until every broker knows a new topic: its creation is answered after a moment anyway."""

    async def is_known() -> bool:
        for broker in brokers:
            node_id = broker.settings.broker_id
            found = (await client.metadata([topic], node_id=node_id)).topics[topic]
            if found.error or not found.partitions:
                return False
        return True

    await eventually(is_known)


async def partition_of(client: KafkaClient, topic: str, partition: int = 0) -> Any:
    """The partition as the broker that was asked knows it."""
    return (await client.metadata([topic])).topics[topic].partitions[partition]


async def all_in_sync(client: KafkaClient, topic: str) -> bool:
    """Whether every replica of every partition is in sync, and there is a leader."""
    partitions = (await client.metadata([topic])).topics[topic].partitions.values()
    return all(p.leader >= 0 and len(p.isr) == len(p.replicas) for p in partitions)


async def leader_of(
    brokers: Sequence[BrokerProcess], client: KafkaClient, topic: str, partition: int = 0
) -> BrokerProcess:
    state = await partition_of(client, topic, partition)
    return next(b for b in brokers if b.settings.broker_id == state.leader)


def log_bytes(broker: BrokerProcess, topic: str, partition: int = 0) -> bytes:
    """All segments of a replica, one after another."""
    directory = replica_directory(broker, topic, partition)
    if directory is None:
        return b""
    return b"".join(path.read_bytes() for path in sorted(directory.glob("*.log")))


def replica_directory(broker: BrokerProcess, topic: str, partition: int = 0) -> Path | None:
    """Where a replica lies, in whichever log directory."""
    places = [Path(each) / f"{topic}-{partition}" for each in broker.settings.log_dirs]
    return next((place for place in places if place.is_dir()), None)


def end_offset(broker: BrokerProcess, topic: str, partition: int = 0) -> int:
    content = log_bytes(broker, topic, partition)
    return max((header.next_offset for _, header in iter_headers(content)), default=0)


async def replicas_are_equal(
    brokers: Sequence[BrokerProcess], topic: str, partition: int = 0
) -> None:
    """Wait until all replicas of a partition are the same bytes."""

    def equal() -> bool:
        first, *others = (log_bytes(broker, topic, partition) for broker in brokers)
        return all(other == first for other in others)

    await eventually(equal)


async def ask_controller(client: KafkaClient, api: ApiKey, fields: Mapping[str, Any]) -> Any:
    """The controller's answer, whoever that is by now."""
    async with asyncio.timeout(EVENTUALLY_SECONDS):
        while True:
            try:
                controller_id = (await client.metadata()).controller_id
                answer = await client.call(api, fields, node_id=controller_id)
            except KafkaError:
                await asyncio.sleep(0.1)
                continue
            if answer.error_code == ErrorCode.none:
                return answer
            assert answer.error_code == ErrorCode.not_controller, answer
            await asyncio.sleep(0.1)


class IdempotentProducer:
    """Writes numbered records to one partition, one at a time, until each is acknowledged."""

    def __init__(
        self, bootstrap_servers: str, topic: str, partition: int = 0, *, key: bytes = b"k"
    ) -> None:
        self._key = key
        self.acknowledged: list[bytes] = []
        self.errors: list[ErrorCode] = []
        self._at = TopicPartition(topic, partition)
        self._client = KafkaClient(bootstrap_servers, request_timeout_ms=5_000)
        self._stop = asyncio.Event()
        self._task = asyncio.create_task(self._run())

    async def advance(self, count: int) -> None:
        """Wait until `count` more records are acknowledged."""
        wanted = len(self.acknowledged) + count
        async with asyncio.timeout(EVENTUALLY_SECONDS):
            while len(self.acknowledged) < wanted:
                if self._task.done():
                    self._task.result()
                await asyncio.sleep(0.01)

    async def stop(self) -> None:
        self._stop.set()
        await self._task
        await self._client.close()

    async def _run(self) -> None:
        producer: tuple[int, int] | None = None
        leader = -1
        while not self._stop.is_set():
            sequence = len(self.acknowledged)
            value = b"%d:%d" % (self._at.partition, sequence)
            try:
                producer = producer or await self._client.init_producer_id()
                records = encode_batch(
                    [NewRecord(sequence, self._key, value)],
                    producer_id=producer[0],
                    producer_epoch=producer[1],
                    base_sequence=sequence,
                )
                node_id = leader if leader >= 0 else await self._find_leader()
                leader = node_id
                answer = await produce_once(
                    self._client, node_id, self._at, records, timeout_ms=5_000
                )
            except KafkaError as error:
                leader = -1
                self.errors.append(error.code)
                await asyncio.sleep(0.02)
                continue
            if answer.error == ErrorCode.none:
                self.acknowledged.append(value)
            else:
                leader = -1
                self.errors.append(answer.error)
                assert answer.error.retriable, answer
                await asyncio.sleep(0.02)

    async def _find_leader(self) -> int:
        state = await partition_of(self._client, self._at.topic, self._at.partition)
        if state.leader < 0:
            raise KafkaError(ErrorCode.leader_not_available)
        return int(state.leader)
