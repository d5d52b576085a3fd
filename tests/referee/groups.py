"""Outside consumer groups at the sources, which commit positions."""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Sequence
from typing import Any, Final

import confluent_kafka
from confluent_kafka import TopicPartition

from tests.referee.clients import LIBRDKAFKA, Client

COMMIT_EVERY_SECONDS: Final = 0.7
READER_RECORDS_PER_SECOND: Final = 60.0
"""Slower than the load, so that the group ends in the middle."""
ANSWER_SECONDS_MAX: Final = 5.0


def consumer_settings(bootstrap: str, group: str) -> dict[str, Any]:
    """Settings of a consumer that commits by itself and reads what is committed."""
    return {
        **LIBRDKAFKA,
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        "isolation.level": "read_committed",
        "session.timeout.ms": 10_000,
    }


class Reader(Client):
    """A member of a group that reads slowly and commits as it goes."""

    def __init__(self, bootstrap: str, group: str, topics: Sequence[str]) -> None:
        super().__init__(f"reader-{group}")
        self._settings = consumer_settings(bootstrap, group)
        self._topics = topics

    def work(self) -> None:
        consumer = confluent_kafka.Consumer(self._settings)
        consumer.subscribe(list(self._topics))
        commit_at = time.monotonic()
        try:
            while not self.stopping.is_set():
                consumer.poll(0.2)
                self.pause(1.0 / READER_RECORDS_PER_SECOND)
                if time.monotonic() > commit_at:
                    commit_at = time.monotonic() + COMMIT_EVERY_SECONDS
                    _commit(consumer)
        finally:
            consumer.close()


class Marker(Client):
    """Commits positions for a group without reading: forward, at any offset, also at those of
    transaction markers and of records that compaction took."""

    def __init__(self, bootstrap: str, group: str, topics: Sequence[str]) -> None:
        super().__init__(f"marker-{group}")
        self._settings = consumer_settings(bootstrap, group)
        self._topics = topics
        self._random = random.Random(group)
        self._positions: dict[tuple[str, int], int] = {}

    def work(self) -> None:
        consumer = confluent_kafka.Consumer(self._settings)
        try:
            while not self.stopping.is_set():
                try:
                    self._move(consumer)
                except confluent_kafka.KafkaException:
                    self.pause(0.5)  # it is away; the next round tries again
                self.pause(COMMIT_EVERY_SECONDS)
        finally:
            consumer.close()

    def _move(self, consumer: Any) -> None:
        found = consumer.list_topics(timeout=ANSWER_SECONDS_MAX).topics
        places = [
            TopicPartition(topic, number)
            for topic in self._topics
            if topic in found
            for number in found[topic].partitions
        ]
        chosen = self._random.sample(places, min(3, len(places)))
        for place in chosen:
            low, high = consumer.get_watermark_offsets(place, timeout=ANSWER_SECONDS_MAX)
            at = max(low, self._positions.get((place.topic, place.partition), 0))
            if at > high:
                continue
            position = self._random.randint(at, high)
            self._positions[place.topic, place.partition] = position
            moved = TopicPartition(place.topic, place.partition, position)
            consumer.commit(offsets=[moved], asynchronous=False)


def _commit(consumer: Any) -> None:
    # Nothing new to commit, or the coordinator is away: the next round commits.
    with contextlib.suppress(confluent_kafka.KafkaException):
        consumer.commit(asynchronous=False)
