"""A Kafka Streams 4.3 application, exactly_once_v2, over kill -9 of itself and of the broker."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import confluent_kafka
import pytest

from local_cluster.client.client import KafkaClient
from local_cluster.client.model import NewTopic
from tests.support.java_process import JavaProcess
from tests.support.kafka_from_maven import tool_jars
from tests.support.replicas import bootstrap, running_cluster

if TYPE_CHECKING:
    from tests.compat.conftest import Broker

pytestmark = [pytest.mark.real, pytest.mark.oracle, pytest.mark.timeout(300)]

PROGRAM = str(Path(__file__).parent / "java" / "CountWords.java")
WORDS = [f"word-{index}" for index in range(20)]
WORDS_COUNT = 6_000
WORDS_PER_PAUSE = 20
PAUSE_SECONDS = 0.04
WAIT_SECONDS_MAX = 90.0
PARTITIONS = 3


async def test_every_word_is_counted_once_over_kill_9(
    either_broker: Broker, tmp_path: Path
) -> None:
    async def restart() -> None:
        await either_broker.kill()
        await either_broker.start()

    await count_words(either_broker.bootstrap, tmp_path, restart)


@pytest.mark.long
async def test_every_word_is_counted_once_when_a_broker_is_lost(
    zookeeper: str, tmp_path: Path
) -> None:
    """One of three brokers dies and does not return."""
    async with running_cluster(zookeeper, tmp_path) as brokers:
        await count_words(bootstrap(brokers), tmp_path, brokers[0].kill)


async def count_words(
    bootstrap: str,
    directory: Path,
    strike: Callable[[], Awaitable[None]],
    properties: Sequence[str] = (),
) -> None:
    """The store has no cache: every count is written, 1, 2, 3... of each word, each once.

    The application is killed and started again at work; later `strike` does so to brokers.
    `properties` is the file of its own configs, if it has one.
    """
    async with KafkaClient(bootstrap) as client:
        new = [NewTopic(name=name, partitions=PARTITIONS) for name in ("words", "counts")]
        assert set((await client.create_topics(new)).values()) == {None}
    application = JavaProcess(
        PROGRAM,
        (bootstrap, str(directory / "state"), *properties),
        directory / "application.log",
        jars=tool_jars(),
    )
    counted = Counts(bootstrap)
    producing = asyncio.create_task(asyncio.to_thread(produce, bootstrap))
    try:
        application.start()
        await counted.until(application, WORDS_COUNT // 5)
        await application.kill()
        application.start()
        await counted.until(application, WORDS_COUNT // 2)
        await strike()
        await counted.until(application, WORDS_COUNT)
    finally:
        await application.kill()
        counted.close()
    produced = await producing
    assert {word: counts[-1] for word, counts in counted.by_word.items()} == dict(produced)
    for word, counts in counted.by_word.items():
        assert counts == list(range(1, produced[word] + 1)), word


def produce(bootstrap: str) -> Counter[str]:
    """Produce steadily, so that a kill hits work in progress; return the count of each word."""
    chosen = random.Random(1).choices(WORDS, k=WORDS_COUNT)
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 5}
    )
    failures = []
    for index, word in enumerate(chosen):
        producer.produce(
            "words",
            word,
            f"user-{index}",
            on_delivery=lambda error, _: failures.append(error) if error else None,
        )
        producer.poll(0)
        if index % WORDS_PER_PAUSE == 0:
            time.sleep(PAUSE_SECONDS)
    assert producer.flush(WAIT_SECONDS_MAX) == 0
    assert not failures
    return Counter(chosen)


class Counts:
    """What a read_committed consumer sees of the output during all faults."""

    def __init__(self, bootstrap: str) -> None:
        self.by_word: defaultdict[str, list[int]] = defaultdict(list)
        self._consumer = confluent_kafka.Consumer(
            {"bootstrap.servers": bootstrap, "group.id": "reader", "enable.auto.commit": False}
        )
        self._consumer.assign(
            [confluent_kafka.TopicPartition("counts", each, 0) for each in range(PARTITIONS)]
        )

    async def until(self, application: JavaProcess, count: int) -> None:
        """Read until a number of counts was seen."""
        async with asyncio.timeout(WAIT_SECONDS_MAX):
            while sum(len(counts) for counts in self.by_word.values()) < count:
                application.check_running()
                for message in await asyncio.to_thread(self._consumer.consume, 500, 0.5):
                    if message.error() is None:
                        word, value = message.key(), message.value()
                        assert word is not None
                        assert value is not None
                        self.by_word[word.decode()].append(int(value))

    def close(self) -> None:
        self._consumer.close()
