"""Our mirror from the cluster under faults to a quiet one: each committed record once, in order,
and where a group stands."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, Final

from local_cluster.client.admin.group_offsets import committed_offsets
from local_cluster.client.client import KafkaClient
from local_cluster.client.model import NewTopic, TopicPartition
from local_cluster.wire.constants import LATEST_TIMESTAMP, READ_COMMITTED
from local_cluster.wire.errors import KafkaError
from tests.nemesis.checkers.copies import check_copy
from tests.nemesis.checkers.findings import Findings
from tests.nemesis.checkers.group_sync import Copied, Seen, check_synced, translated
from tests.nemesis.checkers.set_full import check_set
from tests.nemesis.cluster import Cluster, until
from tests.nemesis.workloads.committing_reader import CommittingReader
from tests.nemesis.workloads.numbered import NumberedProducer
from tests.nemesis.workloads.numbered_transactions import NumberedTransactions
from tests.nemesis.workloads.reading import read_all
from tests.nemesis.workloads.set_full import PARTITIONS, found_numbers
from tests.nemesis.workloads.workload import Workload, end_all, end_watcher, spread_topic
from tests.support.cluster import BrokerProcess, running_broker
from tests.support.mirror_process import check_map, mirror, read_map, read_records
from tests.support.zookeeper_process import ZooKeeperProcess

TOPIC: Final = "mirrored"
COPY: Final = "a.mirrored"
GROUP: Final = "mirrored-readers"
RECORDS_PER_SECOND: Final = 60
TRANSACTIONS_PER_SECOND: Final = 5
SETTLE_SECONDS_MAX: Final = 180.0
"""Kafka's isolation level."""


class Mirror(Workload):
    """The target is one broker of ours that nothing happens to."""

    name: ClassVar = "mirror"
    title: ClassVar = "a link from the cluster under faults"
    must_check: ClassVar = ("acknowledged", "read", "copied", "positions", "commits", "replicas")

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
                groups=(GROUP,),
                sync_group_offsets=True,
            )
        )

    async def start(self) -> None:
        servers = self.cluster.bootstrap
        self._producer = NumberedProducer(
            servers, "m", TOPIC, PARTITIONS, per_second=RECORDS_PER_SECOND
        )
        self._transactions = NumberedTransactions(
            servers,
            "mt",
            TOPIC,
            PARTITIONS,
            random.Random(self.random.random()),
            per_second=TRANSACTIONS_PER_SECOND,
        )
        self._reader = CommittingReader(servers, GROUP, TOPIC, PARTITIONS)
        for worker in (self._producer, self._transactions, self._reader):
            worker.start()
        self._seen: dict[int, list[Seen]] = {p: [] for p in range(PARTITIONS)}
        """By partition, where the group stands on the target."""
        self._following = asyncio.create_task(self._follow())

    async def stop(self) -> None:
        await end_all([self._producer, self._transactions, self._reader])
        await end_watcher(self._following)

    async def close(self) -> None:
        await self._stack.aclose()

    async def check(self) -> Findings:
        findings = Findings()
        await until(self._decided, "every transaction is decided")
        read = await read_all(self.cluster.bootstrap, {TOPIC: PARTITIONS}, committed=True)
        writes = [*self._producer.writes, *self._transactions.writes]
        findings.merge(check_set(writes, found_numbers(read)))
        wanted = sum(map(len, read.values()))

        async def copied() -> bool:
            return await self._copied() >= wanted

        with contextlib.suppress(TimeoutError):
            await until(copied, "everything is mirrored", SETTLE_SECONDS_MAX)
        async with (
            KafkaClient(self._target.bootstrap) as target,
            KafkaClient(self.cluster.bootstrap) as origin,
        ):
            for partition in range(PARTITIONS):
                everything = await read_records(origin, TopicPartition(TOPIC, partition))
                committed = {message.offset for message in read[TOPIC, partition]}
                original = [each for each in everything if each.offset in committed]
                findings.checked["aborted"] += len(everything) - len(original)
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
                    offsets = [
                        Copied(one.offset, other.offset)
                        for one, other in zip(original, copy, strict=True)
                    ]
                    findings.merge(await self._check_group(target, partition, offsets))
        assert self._worker.process is not None
        if self._worker.process.poll() is not None:
            findings.add("mirror-ended", self._worker.log_text()[-1000:])
        return findings

    async def _check_group(
        self, target: KafkaClient, partition: int, copied: Sequence[Copied]
    ) -> Findings:
        """Once the group stands on the target where it stands at the source."""
        commits = self._reader.commits[partition]
        seen = self._seen[partition]
        if commits and copied:
            wanted = translated(copied, max(each.position for each in commits))

            async def there() -> bool:
                await self._look_at_group(target)
                return bool(seen) and seen[-1].position == wanted

            with contextlib.suppress(TimeoutError):
                await until(there, "the group's position is mirrored", SETTLE_SECONDS_MAX)
        return check_synced(f"{GROUP}/{partition}", commits, seen, copied)

    async def _decided(self) -> bool:
        """Whether what is committed ends where the source ends."""
        async with self.cluster.client() as client:
            places = {TopicPartition(TOPIC, p): LATEST_TIMESTAMP for p in range(PARTITIONS)}
            ends = await client.list_offsets(places)
            stable = await client.list_offsets(places, isolation_level=READ_COMMITTED)
            return all(not ends[at].error and ends[at].offset == stable[at].offset for at in places)

    async def _copied(self) -> int:
        """How many records are on the target."""
        async with KafkaClient(self._target.bootstrap) as client:
            places = {TopicPartition(COPY, p): LATEST_TIMESTAMP for p in range(PARTITIONS)}
            return sum(max(e.offset, 0) for e in (await client.list_offsets(places)).values())

    async def _follow(self) -> None:
        while True:
            with contextlib.suppress(KafkaError):
                copied = await self._copied()
                # The group is to be there before anything happens.
                if all(self._seen.values()):
                    self.progress = copied
                async with KafkaClient(self._target.bootstrap) as target:
                    await self._look_at_group(target)
            await asyncio.sleep(0.25)

    async def _look_at_group(self, target: KafkaClient) -> None:
        """Note where it stands on the target."""
        found = (await committed_offsets(target, [GROUP])).get(GROUP, {})
        ended = time.monotonic()
        for at, position in found.items():
            self._seen[at.partition].append(Seen(position.offset, ended))
