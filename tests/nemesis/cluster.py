"""A cluster that faults happen to: three brokers, what they keep, and the network between all.

`ours.py` and `kafka.py` make one. Clients use `bootstrap`, which leads through the proxy; what
brokers say among themselves and to ZooKeeper goes through it as well.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

from local_cluster.client.client import KafkaClient
from local_cluster.client.model import NewTopic, PartitionMetadata
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, KafkaError
from tests.nemesis import small_disk
from tests.nemesis.absences import Absences
from tests.nemesis.links import ZOOKEEPER
from tests.nemesis.network import Network
from tests.support.cluster import BrokerProcess
from tests.support.kafka_from_maven import KafkaProcess
from tests.support.zookeeper_process import ZooKeeperProcess

NODES: Final = (1, 2, 3)
SESSION_TIMEOUT_MS: Final = 6_000
REPLICA_LAG_MS_MAX: Final = 4_000
AUTHORIZER: Final[Mapping[str, str]] = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
"""Configs of brokers with users. Brokers, and clients of other workloads, have no user."""
WAIT_SECONDS_MAX: Final = 120.0
REQUEST_MS_MAX: Final = 5_000
PROBE_GROUP: Final = "nemesis"
"""Any group: its coordinator is "the coordinator" of the faults."""


@dataclass(frozen=True, kw_only=True)
class ClusterOptions:
    """What some faults need from the start of a cluster."""

    small_disk_node: int | None = None
    """Its log directory is a tmpfs of `SMALL_DISK_BYTES`."""
    clock_node: int | None = None
    """Its wall clock can be set."""
    older_version: bool = False
    """Brokers begin with the code of `older.REVISION`."""
    users: bool = False
    """There is a listener for users with passwords, and an authorizer. Whoever uses another
    listener is a super user."""


class Cluster(ABC):
    """Brokers 1 to 3. Whatever was done to them is undone by `heal`."""

    def __init__(
        self,
        system: str,
        directory: Path,
        nodes: Mapping[int, BrokerProcess | KafkaProcess],
        network: Network,
        client_ports: Sequence[int],
        zookeeper: ZooKeeperProcess | None,
        options: ClusterOptions,
        users_ports: Sequence[int] = (),
    ) -> None:
        self.system = system
        self.directory = directory
        self.nodes = nodes
        self.network = network
        self.zookeeper = zookeeper
        self.options = options
        self.bootstrap = ",".join(f"127.0.0.1:{port}" for port in client_ports)
        self.users_ports = dict(zip(nodes, users_ports, strict=False))
        """Of each broker, where users with passwords connect; only with `options.users`."""
        self.absences = Absences(nodes, has_zookeeper=zookeeper is not None)
        network.on_cut = self.absences.cut_links
        self.watched_topic = ""
        """A workload's topic: its first leader is "the leader" of the faults."""
        self._paused: set[int] = set()

    async def sleep(self, seconds: float) -> None:
        """Let a fault last."""
        await asyncio.sleep(seconds)

    # -- processes --------------------------------------------------------------------------

    @property
    def endpoints(self) -> list[str]:
        return [str(node) for node in self.nodes]

    async def start(self, *nodes: int) -> None:
        """Start brokers side by side and wait until they answer; running ones are left alone."""

        async def start(node: int) -> None:
            broker = self.nodes[node]
            if isinstance(broker, KafkaProcess):
                await broker.format()
            starting = asyncio.create_task(broker.start())
            await asyncio.sleep(0)
            # It is known before it has connected anywhere: an interpreter takes longer to load.
            while broker.process is None or broker.process.poll() is not None:
                if starting.done():
                    break
                await asyncio.sleep(0.01)
            if broker.process is not None:
                await self.network.know({str(node): broker.process.pid})
            await starting

        await asyncio.gather(*(start(node) for node in nodes if not self.is_running(node)))

    def is_running(self, node: int) -> bool:
        process = self.nodes[node].process
        return process is not None and process.poll() is None

    async def kill(self, *nodes: int) -> None:
        """kill -9, all at once."""
        await asyncio.gather(*(self.nodes[node].kill() for node in nodes))

    async def stop(self, node: int) -> None:
        """SIGTERM: a clean shutdown."""
        process = self.nodes[node].process
        assert process is not None
        process.terminate()
        await asyncio.wait_for(asyncio.to_thread(process.wait), WAIT_SECONDS_MAX)

    def pause(self, *nodes: int) -> None:
        """SIGSTOP."""
        for node in nodes:
            self.absences.paused(node, is_away=True)
            self._signal(node, signal.SIGSTOP)
            self._paused.add(node)

    def resume(self) -> None:
        """SIGCONT for all that are paused."""
        for node in tuple(self._paused):
            self._signal(node, signal.SIGCONT)
            self._paused.discard(node)
            self.absences.paused(node, is_away=False)

    def _signal(self, node: int, number: signal.Signals) -> None:
        process = self.nodes[node].process
        assert process is not None
        process.send_signal(number)

    def kill_zookeeper(self) -> None:
        """kill -9."""
        assert self.zookeeper is not None
        self.absences.zookeeper_lost(is_away=True)
        self.zookeeper.kill()

    def pause_zookeeper(self) -> None:
        """SIGSTOP."""
        assert self.zookeeper is not None
        self.absences.zookeeper_lost(is_away=True)
        self.zookeeper.pause()

    async def heal(self) -> None:
        """Everything runs, and every link passes."""
        if self.zookeeper is not None:
            self.zookeeper.resume()
            if self.zookeeper.process.poll() is not None:
                self.zookeeper.start()
            self.absences.zookeeper_lost(is_away=False)
        self.resume()
        await self.network.heal()
        await self.start(*self.nodes)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Self]:
        """It answers meanwhile; killed at the end."""
        with small_disk.mounted(self.log_directory, self.options.small_disk_node):
            try:
                await self.network.start()
                await self.start(*self.nodes)
                yield self
            finally:
                await self._close()

    async def _close(self) -> None:
        """kill -9 for all there is."""
        self.resume()
        for broker in self.nodes.values():
            if broker.process is not None:
                await broker.kill()
        await self.network.stop()
        if self.zookeeper is not None:
            self.zookeeper.kill()

    def log_directory(self, node: int) -> Path:
        """Where a broker keeps its partitions."""
        return self.nodes[node].log_dir

    # -- what the cluster says ----------------------------------------------------------------

    @asynccontextmanager
    async def client(self) -> AsyncIterator[KafkaClient]:
        async with KafkaClient(self.bootstrap, request_timeout_ms=REQUEST_MS_MAX) as client:
            yield client

    async def create_topics(self, *topics: NewTopic) -> None:
        """Create and wait until every partition has all its replicas in sync."""

        async def created() -> bool:
            async with self.client() as client:
                errors = [each for each in (await client.create_topics(topics)).values() if each]
            # An attempt that was not answered in time may have made some of them.
            errors = [each for each in errors if each.code is not ErrorCode.topic_already_exists]
            for error in errors:
                if not error.code.retriable:
                    raise RuntimeError(f"not created: {error}")
            return not errors

        await until(created, f"{[topic.name for topic in topics]} created")
        await self.until_in_sync([topic.name for topic in topics])

    async def partitions(self, topics: Sequence[str]) -> dict[tuple[str, int], PartitionMetadata]:
        """Every partition as one broker knows it."""
        async with self.client() as client:
            known = (await client.metadata(topics)).topics
            return {
                (name, index): partition
                for name in topics
                for index, partition in known[name].partitions.items()
            }

    async def until_in_sync(self, topics: Sequence[str]) -> None:
        """Wait until every replica is in sync. Raises TimeoutError."""

        out_of_sync: dict[str, tuple[int, ...]] = {}

        async def in_sync() -> bool:
            found = await self.partitions(topics)
            out_of_sync.clear()
            for (topic, index), each in found.items():
                if each.leader < 0 or len(each.isr) != len(self.nodes):
                    out_of_sync[f"{topic}-{index} led by {each.leader}"] = tuple(each.isr)
            return len({topic for topic, _ in found}) == len(topics) and not out_of_sync

        try:
            await until(in_sync, "all replicas in sync")
        except TimeoutError as error:
            raise TimeoutError(f"{error}; in sync are {out_of_sync}") from error

    async def leader(self, topic: str, partition: int = 0) -> int:
        """The node that leads a partition, waiting for there to be one."""
        found: list[int] = []

        async def known() -> bool:
            found[:] = [(await self.partitions([topic]))[topic, partition].leader]
            return found[0] >= 0

        await until(known, f"a leader of {topic}-{partition}")
        return found[0]

    async def coordinator(self) -> int:
        """The node that coordinates the group `PROBE_GROUP`."""
        found: list[int] = []

        async def known() -> bool:
            async with self.client() as client:
                answer = await client.call(
                    ApiKey.FIND_COORDINATOR, {"key": PROBE_GROUP, "key_type": 0}, version_max=3
                )
            found[:] = [int(answer.node_id)]
            return answer.error_code is ErrorCode.none and found[0] >= 0

        await until(known, "a coordinator")
        return found[0]

    @abstractmethod
    async def controller(self) -> int:
        """The node that is the active controller."""

    def peers_of(self, node: int) -> list[str]:
        """What a broker talks to, clients left out."""
        others = [str(each) for each in self.nodes if each != node]
        return [*others, ZOOKEEPER] if self.zookeeper is not None else others


async def until(
    condition: Callable[[], Any], what: str, seconds_max: float = WAIT_SECONDS_MAX
) -> None:
    """Wait until a (perhaps asynchronous) condition holds; a KafkaError means not yet.

    Raises TimeoutError that says what was waited for.
    """
    try:
        async with asyncio.timeout(seconds_max):
            while True:
                with contextlib.suppress(KafkaError, KeyError):
                    found = condition()
                    if asyncio.iscoroutine(found):
                        found = await found
                    if found:
                        return
                await asyncio.sleep(0.05)
    except TimeoutError:
        raise TimeoutError(f"{what}: not within {seconds_max:.0f} s") from None
