"""Committed positions of groups: one commits growing ones, everybody reads them back."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Sequence
from typing import Any, ClassVar, Final

import confluent_kafka

from local_cluster.client.client import KafkaClient
from local_cluster.client.model import NewTopic
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, KafkaError
from tests.nemesis.checkers.findings import Findings
from tests.nemesis.checkers.offsets import Commit, Reading, check_last, check_offsets
from tests.nemesis.checkers.set_full import Outcome
from tests.nemesis.cluster import PROBE_GROUP, until
from tests.nemesis.workloads.workload import LIBRDKAFKA, Worker, Workload, end_all, spread_topic

TOPIC: Final = "offsets"
GROUPS: Final = (PROBE_GROUP, "offsets-1", "offsets-2")
"""Coordinated by different brokers, one by that which the faults call "the coordinator"."""
CALL_SECONDS_MAX: Final = 10.0
PAUSE_SECONDS: Final = 0.05
SETTLE_SECONDS_MAX: Final = 90.0
"""After the end, how long a last position may take to be acknowledged."""


class Offsets(Workload):
    """See `checkers/offsets.py`."""

    name: ClassVar = "offsets"
    title: ClassVar = "positions of groups, committed and read back"
    must_check: ClassVar = ("commits", "readings", "last-readings", "replicas")

    @property
    def topics(self) -> Sequence[NewTopic]:
        return [spread_topic(TOPIC, 1)]

    async def start(self) -> None:
        servers = self.cluster.bootstrap
        self._committers = [
            Committer(self, servers, group, random.Random(self.random.random())) for group in GROUPS
        ]
        for committer in self._committers:
            committer.start()
        self._stop = asyncio.Event()
        self._readings: dict[str, list[Reading]] = {group: [] for group in GROUPS}
        self._reading = asyncio.create_task(self._read_by_ours())

    async def stop(self) -> None:
        self._stop.set()
        await self._reading
        await end_all(self._committers)

    async def check(self) -> Findings:
        findings = Findings()
        for committer in self._committers:
            group = committer.group
            # What is committed in the end, read once more when all is quiet.
            await until(lambda group=group: self._read(group), f"positions of {group}")  # type: ignore[misc]
            readings = committer.readings + self._readings[group]
            findings.merge(check_offsets(group, committer.commits, readings))
            findings.merge(check_last(group, committer.commits, self._readings[group][-1]))
        return findings

    async def _read_by_ours(self) -> None:
        """A second reader, with connections of its own."""
        while not self._stop.is_set():
            for group in GROUPS:
                await self._read(group)
                await self._read(group, is_stable=False)
            await asyncio.sleep(PAUSE_SECONDS)

    async def _read(self, group: str, *, is_stable: bool = True) -> bool:
        """Note what is committed; whether there was an answer."""
        fields = {
            "group_id": group,
            "topics": [{"name": TOPIC, "partition_indexes": (0,)}],
            "require_stable": is_stable,
        }
        began = time.monotonic()
        try:
            async with asyncio.timeout(CALL_SECONDS_MAX):
                async with KafkaClient(self.cluster.bootstrap, request_timeout_ms=5_000) as client:
                    answer = await client.call_coordinator(
                        group, ApiKey.OFFSET_FETCH, fields, version_max=7
                    )
        except (KafkaError, TimeoutError):
            return False
        entry = answer.topics[0].partitions[0]
        if entry.error_code is not ErrorCode.none:
            return False
        position = int(entry.committed_offset)
        self._readings[group].append(
            Reading(position, began, time.monotonic(), is_stable=is_stable)
        )
        return True


class Committer(Worker):
    """The only one that commits for its group; reads back what it committed. The last position is
    acknowledged."""

    def __init__(
        self, workload: Offsets, servers: str, group: str, randomly: random.Random
    ) -> None:
        super().__init__(group)
        self.group = group
        self.commits: list[Commit] = []
        self.readings: list[Reading] = []
        self._workload = workload
        self._servers = servers
        self._random = randomly

    def work(self) -> None:
        consumer = confluent_kafka.Consumer(
            {
                **LIBRDKAFKA,
                "bootstrap.servers": self._servers,
                "group.id": self.group,
                "enable.auto.commit": False,
            }
        )
        position = 1_000
        try:
            while not self.stopping.is_set():
                position += self._random.randint(1, 100)
                self._commit(consumer, position)
                if self._random.random() < 0.5:
                    self._read(consumer)
                self.pause(PAUSE_SECONDS)
            self.settle(consumer, position + 1)
        finally:
            consumer.close()

    def settle(self, consumer: Any, position: int) -> None:
        """Commit a last position until that is acknowledged. Raises RuntimeError where not."""
        end = time.monotonic() + SETTLE_SECONDS_MAX
        while time.monotonic() < end:
            self._commit(consumer, position)
            if self.commits[-1].outcome is Outcome.ACKNOWLEDGED:
                return
            time.sleep(PAUSE_SECONDS)
        raise RuntimeError(f"position {position} of {self.group} is not acknowledged")

    def _commit(self, consumer: Any, position: int) -> None:
        at = confluent_kafka.TopicPartition(TOPIC, 0, position)
        began = time.monotonic()
        outcome = Outcome.ACKNOWLEDGED
        try:
            (done,) = consumer.commit(offsets=[at], asynchronous=False)
            if done.error is not None:
                outcome = Outcome.UNKNOWN
        except confluent_kafka.KafkaException:
            outcome = Outcome.UNKNOWN
        self.commits.append(Commit(position, began, time.monotonic(), outcome))
        self._workload.progress += outcome is Outcome.ACKNOWLEDGED

    def _read(self, consumer: Any) -> None:
        at = confluent_kafka.TopicPartition(TOPIC, 0)
        began = time.monotonic()
        try:
            (known,) = consumer.committed([at], timeout=CALL_SECONDS_MAX)
        except confluent_kafka.KafkaException:
            return
        if known.error is None:
            # librdkafka says OFFSET_INVALID where nothing was ever committed.
            position = max(known.offset, -1)
            self.readings.append(Reading(position, began, time.monotonic()))
