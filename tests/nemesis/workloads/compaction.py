"""Keys that are updated and deleted while their topic is compacted."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar, Final

import confluent_kafka

from local_cluster.client.model import NewTopic
from tests.nemesis.checkers.compaction import Kept, Update, check_compacted
from tests.nemesis.checkers.findings import Findings
from tests.nemesis.checkers.set_full import Outcome
from tests.nemesis.workloads.reading import read_all
from tests.nemesis.workloads.workload import (
    DELIVERY_MS_MAX,
    LIBRDKAFKA,
    Worker,
    Workload,
    end_all,
    spread_topic,
)

TOPIC: Final = "compaction"
PARTITIONS: Final = 2
KEYS: Final = 20
UPDATES_PER_SECOND: Final = 100
TOMBSTONE_SHARE: Final = 0.1
SEGMENT_MS: Final = 3_000


class Compaction(Workload):
    """Each key has one writer; see `checkers/compaction.py`."""

    name: ClassVar = "compaction"
    title: ClassVar = "keys updated and deleted under compaction"
    must_check: ClassVar = ("updates", "kept", "compacted-away")

    @property
    def topics(self) -> Sequence[NewTopic]:
        return [
            spread_topic(
                TOPIC,
                PARTITIONS,
                cleanup_policy="compact",
                segment_ms=str(SEGMENT_MS),
                min_cleanable_dirty_ratio="0.01",
            )
        ]

    async def start(self) -> None:
        self._writer = Writer(self, random.Random(self.random.random()))
        self._writer.start()

    async def stop(self) -> None:
        await end_all([self._writer])

    async def check(self) -> Findings:
        read = await read_all(self.cluster.bootstrap, {TOPIC: PARTITIONS})
        kept = [Kept(m.offset, m.key, m.value) for messages in read.values() for m in messages]
        findings = check_compacted(self._writer.updates(), kept)
        findings.checked["compacted-away"] = max(
            findings.checked["updates"] - findings.checked["kept"], 0
        )
        return findings


class Writer(Worker):
    """Idempotent; a key always goes to the same partition."""

    def __init__(self, workload: Compaction, randomly: random.Random) -> None:
        super().__init__("compaction-writer")
        self._workload = workload
        self._random = randomly
        self._updates: list[Update] = []

    def updates(self) -> list[Update]:
        """In the order of sending, which is that of each key."""
        return list(self._updates)

    def work(self) -> None:
        producer = confluent_kafka.Producer(
            {
                **LIBRDKAFKA,
                "bootstrap.servers": self._workload.cluster.bootstrap,
                "enable.idempotence": True,
                "message.timeout.ms": DELIVERY_MS_MAX,
                "linger.ms": 5,
            }
        )
        self.produce_paced(
            producer, UPDATES_PER_SECOND, partial(self._update, producer), while_idle=True
        )

    def _update(self, producer: confluent_kafka.Producer) -> None:
        number = len(self._updates)
        key = self._random.randrange(KEYS)
        is_tombstone = self._random.random() < TOMBSTONE_SHARE
        value = None if is_tombstone else f"{key}-{number}"
        self._updates.append(Update(f"k{key}", value, Outcome.UNKNOWN))
        producer.produce(
            TOPIC,
            key=f"k{key}",
            value=value,
            partition=key % PARTITIONS,
            on_delivery=partial(self._delivered, number),
        )

    def _delivered(self, number: int, error: Any, message: Any) -> None:
        if error is None:
            self._updates[number] = self._updates[number]._replace(
                outcome=Outcome.ACKNOWLEDGED, offset=message.offset()
            )
            self._workload.progress += 1
