"""Topics whose oldest records are deleted while they are written: one by time, one by size."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Sequence
from typing import ClassVar, Final

from local_cluster.client.admin.configs import alter_topic_configs
from local_cluster.client.client import KafkaClient
from local_cluster.client.model import NewTopic, TopicPartition
from local_cluster.wire.constants import EARLIEST_TIMESTAMP
from local_cluster.wire.errors import KafkaError
from tests.nemesis.checkers.findings import Findings
from tests.nemesis.checkers.retention import LogStart, Promise, check_retained
from tests.nemesis.checkers.set_full import Found
from tests.nemesis.cluster import until
from tests.nemesis.workloads.numbered import NumberedProducer
from tests.nemesis.workloads.set_full import PARTITIONS, read_numbers
from tests.nemesis.workloads.workload import Workload, end_all, end_watcher, spread_topic

TIMED: Final = "retention-timed"
SEGMENT_MS: Final = 1_500
RETENTION_MS: Final = 4_000
LONG_MS: Final = 3_600_000
"""In the end, so that something is left to be looked at."""
SIZED: Final = "retention-sized"
SEGMENT_BYTES: Final = 1 << 20
"""Kafka takes no less."""
RETENTION_BYTES: Final = 1 << 20
PADDING_BYTES: Final = 8_000
RECORD_BYTES_MAX: Final = PADDING_BYTES + 200
"""With its key and value, and a batch of its own."""
RECORDS_PER_SECOND: Final = 100
LOOK_SECONDS: Final = 0.25


class Retention(Workload):
    """See `checkers/retention.py`."""

    name: ClassVar = "retention"
    title: ClassVar = "numbered records, the oldest deleted by time or size"
    must_check: ClassVar = ("acknowledged", "read", "deleted", "starts")

    @property
    def topics(self) -> Sequence[NewTopic]:
        timed = {"segment_ms": str(SEGMENT_MS), "retention_ms": str(RETENTION_MS)}
        sized = {"segment_bytes": str(SEGMENT_BYTES), "retention_bytes": str(RETENTION_BYTES)}
        return [spread_topic(TIMED, PARTITIONS, **timed), spread_topic(SIZED, PARTITIONS, **sized)]

    @property
    def _promises(self) -> dict[str, Promise]:
        """By topic. A broker whose clock is wrong deletes too early."""
        is_clock_right = self.cluster.options.clock_node is None
        return {
            TIMED: Promise(age_ms=RETENTION_MS if is_clock_right else None),
            SIZED: Promise(records=RETENTION_BYTES // RECORD_BYTES_MAX),
        }

    async def start(self) -> None:
        self._starts: dict[str, dict[int, list[LogStart]]] = {}
        self._producers = {}
        for topic in (TIMED, SIZED):
            self._starts[topic] = {p: [] for p in range(PARTITIONS)}
            self._producers[topic] = NumberedProducer(
                self.cluster.bootstrap,
                topic,
                topic,
                PARTITIONS,
                per_second=RECORDS_PER_SECOND,
                padding=PADDING_BYTES if topic == SIZED else 0,
                on_acknowledged=self._count,
            )
            self._producers[topic].start()
        self._watching = asyncio.create_task(self._watch())

    async def stop(self) -> None:
        await end_all(list(self._producers.values()))
        await until(self._keep_the_rest, "a longer retention")
        await end_watcher(self._watching)

    async def check(self) -> Findings:
        findings = Findings()
        for topic, promise in self._promises.items():
            read: dict[int, list[Found]] = {}

            async def unmoved(topic: str = topic, read: dict[int, list[Found]] = read) -> bool:
                """Read all of it, if nothing is deleted meanwhile."""
                before = await self._look(topic)
                try:
                    read.update(await read_numbers(self.cluster.bootstrap, topic))
                except RuntimeError:
                    # It was deleted before it could be read.
                    return False
                return before == await self._look(topic)

            await until(unmoved, f"nothing of {topic} is deleted any more")
            writes = self._producers[topic].writes
            findings.merge(check_retained(writes, read, self._starts[topic], promise))
        return findings

    async def _keep_the_rest(self) -> bool:
        async with self.cluster.client() as client:
            told = await alter_topic_configs(client, {TIMED: {"retention.ms": str(LONG_MS)}})
            return told[TIMED] is None

    async def _watch(self) -> None:
        while True:
            for topic in (TIMED, SIZED):
                with contextlib.suppress(KafkaError, KeyError):
                    await self._look(topic)
            await asyncio.sleep(LOOK_SECONDS)

    async def _look(self, topic: str) -> list[int]:
        """Note each partition's log start as its leader tells it. Raises KafkaError."""
        async with self.cluster.client() as client:
            known = (await client.metadata([topic])).topics[topic].partitions
            return [
                await self._start(client, TopicPartition(topic, p), known[p].leader)
                for p in range(PARTITIONS)
            ]

    async def _start(self, client: KafkaClient, at: TopicPartition, leader: int) -> int:
        before = self._process(leader)
        listed = (await client.list_offsets_of(leader, {at: EARLIEST_TIMESTAMP}))[at]
        if listed.error:
            raise KafkaError(listed.error, str(at))
        if self._process(leader) == before:
            now_ms = int(time.time() * 1000)
            told = LogStart(listed.offset, (leader, before), now_ms)
            self._starts[at.topic][at.partition].append(told)
        return listed.offset

    def _process(self, node: int) -> int:
        """Of a broker; 0 where nobody leads or it never ran."""
        process = self.cluster.nodes[node].process if node in self.cluster.nodes else None
        return process.pid if process is not None else 0

    def _count(self) -> None:
        self.progress += 1
