"""A source and a target for mirrors, the ways between them, and the proxies of the far ones."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from local_cluster.client.client import KafkaClient
from local_cluster.client.model import NewTopic, TopicPartition
from local_cluster.security.authentication.listener_security import TlsSettings
from local_cluster.wire.constants import LATEST_TIMESTAMP
from local_cluster.wire.errors import KafkaError
from tests.bench.mirror_load import PARTITIONS, FilledTopic, fill
from tests.bench.mirror_model import Batches, MirrorScale
from tests.bench.mirrors import Ends, Route
from tests.bench.starting import (
    ExtraListener,
    RunningZooKeeper,
    direct_listener,
    running_kafka,
    running_ours,
)
from tests.bench.systems import System
from tests.support.keystore import KeyStore, make_keystore
from tests.support.quiet_ports import quiet_ports

ROUND_TRIP_MS: Final = 50
_Running = AbstractAsyncContextManager[tuple[System, float]]
Way = Literal["near", "far", "tls-near", "tls-far"]
PLAIN_WAYS: Final[tuple[Way, ...]] = ("near", "far")
TLS_WAYS: Final[tuple[Way, ...]] = ("tls-near", "tls-far")
WAY_TITLES: Final[Mapping[Way, str]] = {
    "near": "near",
    "far": "far",
    "tls-near": "TLS, near",
    "tls-far": "TLS, far",
}
TOPICS_PER_CREATION: Final = 10


@dataclass
class Pair:
    """Two clusters of one broker each that run."""

    source: System
    target: System
    ways: Mapping[Way, Ends]
    """How a mirror may reach both; a far source is behind a proxy, and what it advertises there
    leads through the proxy too."""
    directory: Path
    filled: dict[Batches, FilledTopic] = field(default_factory=dict)
    _numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1))

    def route(self, topics: str, way: Way = "near") -> Route:
        """A route with an alias that was not used before."""
        return Route(f"s{next(self._numbers)}", topics, self.ways[way])

    def new_topic(self, name: str) -> str:
        return f"{name}-{next(self._numbers)}"

    async def filled_topic(self, kind: Batches, scale: MirrorScale) -> FilledTopic:
        """The topic to be caught up with; made when it is first asked for, and kept."""
        if kind not in self.filled:
            name = f"filled-{kind}"
            await self.source.create_topic(name, PARTITIONS)
            self.filled[kind] = await asyncio.to_thread(
                fill, self.source.port, name, kind, scale.megabytes[kind]
            )
        return self.filled[kind]

    async def delete_copies(self, prefix: str) -> None:
        """Delete what was mirrored; the disk is free again within seconds."""
        async with KafkaClient(self.target.bootstrap, client_id="bench") as client:
            names = [each for each in (await client.metadata()).topics if each.startswith(prefix)]
            for start in range(0, len(names), TOPICS_PER_CREATION):
                await client.delete_topics(
                    names[start : start + TOPICS_PER_CREATION], timeout_ms=120_000
                )


async def records_of(client: KafkaClient, topic: str, partitions: int = PARTITIONS) -> int:
    """Offsets at the end of a topic, in all; 0 while it is not there."""
    wanted = {TopicPartition(topic, index): LATEST_TIMESTAMP for index in range(partitions)}
    with contextlib.suppress(KafkaError):
        listed = await client.list_offsets(wanted)
        return sum(max(0, entry.offset) for entry in listed.values() if not entry.error)
    return 0


async def create_topics(bootstrap: str, names: list[str], partitions: int) -> None:
    """Many topics, some per request. Raises KafkaError."""
    async with KafkaClient(bootstrap, client_id="bench", request_timeout_ms=120_000) as client:
        for start in range(0, len(names), TOPICS_PER_CREATION):
            new = [
                NewTopic(name=name, partitions=partitions, replication_factor=1)
                for name in names[start : start + TOPICS_PER_CREATION]
            ]
            for error in (await client.create_topics(new, timeout_ms=120_000)).values():
                if error is not None:
                    raise error


@asynccontextmanager
async def kafka_pair(
    directory: Path, config: Mapping[str, str] | None = None
) -> AsyncIterator[Pair]:
    """Two Apache Kafka brokers, each a cluster, with every way between them."""
    keystore = await asyncio.to_thread(make_keystore, directory)
    given = {**(config or {}), **keystore.broker_config}

    def running(name: str, extra: Sequence[ExtraListener]) -> _Running:
        return running_kafka(directory / name, config=given, extra=extra)

    async with _running_pair(directory, keystore, running) as pair:
        yield pair


@asynccontextmanager
async def our_pair(directory: Path, zookeeper: RunningZooKeeper) -> AsyncIterator[Pair]:
    """Two of our brokers, each a cluster, with Kafka's own promise of durability."""
    keystore = await asyncio.to_thread(make_keystore, directory)

    def running(name: str, extra: Sequence[ExtraListener]) -> _Running:
        return running_ours(directory / name, zookeeper, flush="page_cache", extra=extra)

    async with _running_pair(directory, keystore, running) as pair:
        yield pair


@asynccontextmanager
async def _running_pair(
    directory: Path,
    keystore: KeyStore,
    running: Callable[[str, Sequence[ExtraListener]], _Running],
) -> AsyncIterator[Pair]:
    tls = keystore.listener_tls
    far, far_tls = _proxied("FAR"), _proxied("FARTLS", tls)
    source_tls, target_tls = direct_listener("TLS", tls), direct_listener("TLS", tls)
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        source, _ = await enter(running("source", (far, source_tls, far_tls)))
        target, _ = await enter(running("target", (target_tls,)))
        for listener in (far, far_tls):
            await enter(_running_proxy(listener))
        ways: dict[Way, Ends] = {
            "near": Ends(source.bootstrap, target.bootstrap),
            "far": Ends(far.bootstrap, target.bootstrap),
            "tls-near": Ends(source_tls.bootstrap, target_tls.bootstrap, keystore.ca_file),
            "tls-far": Ends(far_tls.bootstrap, target_tls.bootstrap, keystore.ca_file),
        }
        yield Pair(source, target, ways, directory / "mirrors")


def _proxied(name: str, tls: TlsSettings | None = None) -> ExtraListener:
    port, proxy_port = quiet_ports(2)
    return ExtraListener(name=name, port=port, advertised_port=proxy_port, tls=tls)


@asynccontextmanager
async def _running_proxy(before: ExtraListener) -> AsyncIterator[None]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "tests.bench.delaying_proxy"),
        *(str(before.advertised_port), str(before.port), str(ROUND_TRIP_MS / 2)),
        stdout=asyncio.subprocess.PIPE,
        cwd=Path(__file__).parent.parent.parent,
    )
    try:
        assert process.stdout is not None
        if not await process.stdout.readline():
            raise RuntimeError("the delaying proxy did not start")
        yield
    finally:
        process.kill()
        await process.wait()
