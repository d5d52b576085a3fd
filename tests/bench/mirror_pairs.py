"""A source and a target for mirrors, and the proxy that makes the source far."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from local_cluster.client.client import KafkaClient
from local_cluster.client.model import NewTopic, TopicPartition
from local_cluster.wire.errors import KafkaError
from tests.bench.mirror_load import PARTITIONS, FilledTopic, fill
from tests.bench.mirror_model import Batches, MirrorScale
from tests.bench.mirrors import Route
from tests.bench.starting import (
    FarListener,
    RunningZooKeeper,
    running_kafka,
    running_ours,
)
from tests.bench.systems import System
from tests.quiet_ports import quiet_ports

ROUND_TRIP_MS: Final = 50
Distance = Literal["near", "far"]
TOPICS_PER_CREATION: Final = 10
_LATEST: Final = -1


@dataclass
class Pair:
    """Two clusters of one broker each that run."""

    source: System
    target: System
    far_bootstrap: str
    """The source behind the proxy; what it advertises there leads through the proxy too."""
    directory: Path
    filled: dict[Batches, FilledTopic] = field(default_factory=dict)
    _numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1))

    def route(self, topics: str, distance: Distance = "near") -> Route:
        """A route with an alias that was not used before."""
        source = self.source.bootstrap if distance == "near" else self.far_bootstrap
        return Route(f"s{next(self._numbers)}", topics, source, self.target.bootstrap)

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
    wanted = {TopicPartition(topic, index): _LATEST for index in range(partitions)}
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
    """Two Apache Kafka brokers, each a cluster."""
    async with AsyncExitStack() as stack:
        far = _far()
        source, _ = await stack.enter_async_context(
            running_kafka(directory / "source", config=config, far=far)
        )
        target, _ = await stack.enter_async_context(
            running_kafka(directory / "target", config=config)
        )
        await stack.enter_async_context(_running_proxy(far))
        yield Pair(source, target, f"127.0.0.1:{far.advertised_port}", directory / "mirrors")


@asynccontextmanager
async def our_pair(directory: Path, zookeeper: RunningZooKeeper) -> AsyncIterator[Pair]:
    """Two of our brokers, each a cluster, with Kafka's own promise of durability."""
    async with AsyncExitStack() as stack:
        far = _far()
        source, _ = await stack.enter_async_context(
            running_ours(directory / "source", zookeeper, flush="page_cache", far=far)
        )
        target, _ = await stack.enter_async_context(
            running_ours(directory / "target", zookeeper, flush="page_cache")
        )
        await stack.enter_async_context(_running_proxy(far))
        yield Pair(source, target, f"127.0.0.1:{far.advertised_port}", directory / "mirrors")


def _far() -> FarListener:
    port, proxy_port = quiet_ports(2)
    return FarListener(port, proxy_port)


@asynccontextmanager
async def _running_proxy(far: FarListener) -> AsyncIterator[None]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "tests.bench.delaying_proxy"),
        *(str(far.advertised_port), str(far.port), str(ROUND_TRIP_MS / 2)),
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
