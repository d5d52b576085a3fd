"""A consumer in a group of its own that commits, synchronously, each time that it has read."""

from __future__ import annotations

import time
from collections import defaultdict
from typing import Any, Final

import confluent_kafka

from tests.nemesis.checkers.offsets import Commit
from tests.nemesis.checkers.set_full import Outcome
from tests.nemesis.workloads.workload import LIBRDKAFKA, SESSION_MS, Worker

RECORDS_MAX: Final = 50
POLL_SECONDS: Final = 0.2
SETTLE_SECONDS_MAX: Final = 90.0
"""After the end, how long the last positions may take to be acknowledged."""


class CommittingReader(Worker):
    """The only member of its group. It ends when it has committed in every partition, and the
    greatest position that it tried is acknowledged. Raises RuntimeError where that does not come.
    """

    def __init__(self, servers: str, group: str, topic: str, partitions: int) -> None:
        super().__init__(group)
        self.commits: dict[int, list[Commit]] = defaultdict(list)
        """By partition."""
        self._servers = servers
        self._topic = topic
        self._partitions = partitions

    def work(self) -> None:
        consumer = confluent_kafka.Consumer(
            {
                **LIBRDKAFKA,
                "bootstrap.servers": self._servers,
                "group.id": self.name,
                "isolation.level": "read_committed",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "session.timeout.ms": SESSION_MS,
                "heartbeat.interval.ms": 1_000,
            }
        )
        consumer.subscribe([self._topic])
        stopped_at: float | None = None
        try:
            while not self.stopping.is_set() or not self._is_settled():
                if self.stopping.is_set():
                    stopped_at = stopped_at or time.monotonic()
                    if time.monotonic() > stopped_at + SETTLE_SECONDS_MAX:
                        raise RuntimeError(f"not acknowledged: {self._unsettled()}")
                # Where nothing new comes, what has no answer is said again.
                positions = self._unsettled()
                for message in consumer.consume(RECORDS_MAX, POLL_SECONDS):
                    if message.error() is None:
                        positions[message.partition() or 0] = (message.offset() or 0) + 1
                for partition, position in positions.items():
                    self._commit(consumer, partition, position)
        finally:
            consumer.close()

    def _is_settled(self) -> bool:
        return len(self.commits) == self._partitions and not self._unsettled()

    def _unsettled(self) -> dict[int, int]:
        """By partition the greatest position that was tried, where it is not acknowledged."""
        greatest = {p: max(each.position for each in mine) for p, mine in self.commits.items()}
        return {
            partition: position
            for partition, position in greatest.items()
            if self.commits[partition][-1].position != position
            or self.commits[partition][-1].outcome is not Outcome.ACKNOWLEDGED
        }

    def _commit(self, consumer: Any, partition: int, position: int) -> None:
        at = confluent_kafka.TopicPartition(self._topic, partition, position)
        began = time.monotonic()
        outcome = Outcome.UNKNOWN
        try:
            (done,) = consumer.commit(offsets=[at], asynchronous=False)
            if done.error is None:
                outcome = Outcome.ACKNOWLEDGED
        except confluent_kafka.KafkaException:
            # Where it lost its membership the next poll joins again.
            pass
        self.commits[partition].append(Commit(position, began, time.monotonic(), outcome))
