"""Our mirror from the cluster under faults to a quiet one: each committed record once, in order."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, Final

from local_cluster.client.client import LATEST_TIMESTAMP, KafkaClient
from local_cluster.client.model import NewTopic, TopicPartition
from local_cluster.wire.errors import KafkaError
from tests.cluster import BrokerProcess, running_broker
from tests.mirror_process import check_map, mirror, read_map, read_records
from tests.nemesis.checkers.copies import check_copy
from tests.nemesis.checkers.findings import Findings
from tests.nemesis.checkers.set_full import check_set
from tests.nemesis.cluster import Cluster, until
from tests.nemesis.workloads.numbered import NumberedProducer
from tests.nemesis.workloads.set_full import PARTITIONS, read_numbers
from tests.nemesis.workloads.workload import Workload, spread_topic
from tests.zookeeper_process import ZooKeeperProcess

TOPIC: Final = "mirrored"
COPY: Final = "a.mirrored"
RECORDS_PER_SECOND: Final = 60
SETTLE_SECONDS_MAX: Final = 180.0


class Mirror(Workload):
    """The target is one broker of ours that nothing happens to."""

    name: ClassVar = "mirror"
    title: ClassVar = "a link from the cluster under faults"

    @property
    def topics(self) -> Sequence[NewTopic]:
        return [spread_topic(TOPIC, PARTITIONS)]

    def __init__(self, cluster: Cluster, directory: Path, seed: int) -> None:
        super().__init__(cluster, directory, seed)
        self._stack = contextlib.AsyncExitStack()

    async def prepare(self) -> None:
        await super().prepare()
        zookeeper = ZooKeeperProcess(self.directory / "zookeeper")
        self._stack.callback(zookeeper.kill)
        self._target: BrokerProcess = await self._stack.enter_async_context(
            running_broker(zookeeper.server.connect, self.directory / "target", cluster="b")
        )
        self._worker = await self._stack.enter_async_context(
            mirror(
                self.directory / "mirror",
                self.cluster.bootstrap,
                self._target.bootstrap,
                topics=(TOPIC,),
            )
        )

    async def start(self) -> None:
        self._producer = NumberedProducer(
            self.cluster.bootstrap, "m", TOPIC, PARTITIONS, per_second=RECORDS_PER_SECOND
        )
        self._producer.start()
        self._following = asyncio.create_task(self._follow())

    async def stop(self) -> None:
        self._following.cancel()
        await self._producer.end()

    async def close(self) -> None:
        await self._stack.aclose()

    async def check(self) -> Findings:
        findings = Findings()
        source = await read_numbers(self.cluster.bootstrap, TOPIC)
        findings.merge(check_set(self._producer.writes, source))
        wanted = sum(map(len, source.values()))

        async def copied() -> bool:
            return await self._copied() >= wanted

        with contextlib.suppress(TimeoutError):
            await until(copied, "everything is mirrored", SETTLE_SECONDS_MAX)
        async with (
            KafkaClient(self._target.bootstrap) as target,
            KafkaClient(self.cluster.bootstrap) as origin,
        ):
            for partition in range(PARTITIONS):
                original = await read_records(origin, TopicPartition(TOPIC, partition))
                copy = await read_records(target, TopicPartition(COPY, partition))
                values = {partition: [(r.value or b"").decode() for r in original]}
                copies = {partition: [(r.value or b"").decode() for r in copy]}
                findings.merge(check_copy(COPY, values, copies))
                if values == copies:
                    try:
                        check_map(
                            await read_map(target, TopicPartition(TOPIC, partition)), original, copy
                        )
                    except AssertionError as error:
                        findings.add("wrong-map", f"{COPY}-{partition}: {error}")
        assert self._worker.process is not None
        if self._worker.process.poll() is not None:
            findings.add("mirror-ended", self._worker.log_text()[-1000:])
        return findings

    async def _copied(self) -> int:
        """How many records are on the target."""
        async with KafkaClient(self._target.bootstrap) as client:
            places = {TopicPartition(COPY, p): LATEST_TIMESTAMP for p in range(PARTITIONS)}
            return sum(max(e.offset, 0) for e in (await client.list_offsets(places)).values())

    async def _follow(self) -> None:
        while True:
            with contextlib.suppress(KafkaError):
                self.progress = await self._copied()
            await asyncio.sleep(0.25)
