"""A cluster as an outside client sees it: replicas in sync, and final logs."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable
from typing import Any, Final

import confluent_kafka
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from tests.referee.clients import LIBRDKAFKA
from tests.ten_hosts.judging import Log

ANSWER_SECONDS_MAX: Final = 10.0
READ_SECONDS_MAX: Final = 300.0


def out_of_sync(bootstrap: str) -> list[str]:
    """Return what is not well with the partitions of a cluster, one line each."""
    client = AdminClient({**LIBRDKAFKA, "bootstrap.servers": bootstrap})
    try:
        found: Any = client.list_topics(timeout=ANSWER_SECONDS_MAX)
    except confluent_kafka.KafkaException as error:
        return [f"{bootstrap}: {error}"]
    return [
        f"{topic.topic}-{number}: in sync are {partition.isrs} of {partition.replicas}"
        for topic in found.topics.values()
        for number, partition in topic.partitions.items()
        if partition.leader < 0 or len(partition.isrs) < len(partition.replicas)
    ]


def in_sync_on(bootstrap: str, broker: int) -> int | None:
    """Return in how many partitions a broker is in sync; None if the cluster does not say it."""
    client = AdminClient({**LIBRDKAFKA, "bootstrap.servers": bootstrap})
    try:
        found: Any = client.list_topics(timeout=ANSWER_SECONDS_MAX)
    except confluent_kafka.KafkaException:
        return None
    partitions = [each for topic in found.topics.values() for each in topic.partitions.values()]
    return sum(broker in each.isrs for each in partitions)


def replicas_by_broker(bootstrap: str, topic: str) -> dict[int, int]:
    """Return how many replicas of a topic each broker has."""
    client = AdminClient({**LIBRDKAFKA, "bootstrap.servers": bootstrap})
    found: Any = client.list_topics(topic, timeout=ANSWER_SECONDS_MAX)
    counts: dict[int, int] = defaultdict(int)
    for partition in found.topics[topic].partitions.values():
        for broker in partition.replicas:
            counts[broker] += 1
    return dict(counts)


def read_log(bootstrap: str, topic: str, partitions: Iterable[int]) -> Log:
    """Return every record of a topic, from the start to the end that it has now.

    Raises TimeoutError.
    """
    records: dict[int, list[tuple[int, str]]] = {number: [] for number in partitions}
    consumer = confluent_kafka.Consumer(
        {
            **LIBRDKAFKA,
            "bootstrap.servers": bootstrap,
            "group.id": "the-checker",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
            "auto.offset.reset": "error",
        }
    )
    try:
        ends = {number: _end(consumer, topic, number) for number in records}
        left = {number for number, end in ends.items() if end > 0}
        consumer.assign([TopicPartition(topic, number, 0) for number in sorted(left)])
        deadline_s = time.monotonic() + READ_SECONDS_MAX
        while left:
            if time.monotonic() > deadline_s:
                raise TimeoutError(f"{topic} of {bootstrap}: {sorted(left)} not read to the end")
            message: Any
            for message in consumer.consume(5_000, timeout=1.0):
                number = message.partition()
                if message.error() is None:
                    records[number].append((message.offset(), message.value().decode()))
                elif message.error().code() != confluent_kafka.KafkaError._PARTITION_EOF:
                    raise RuntimeError(f"{topic}-{number} of {bootstrap}: {message.error()}")
                elif message.offset() >= ends[number]:
                    left.discard(number)
    finally:
        consumer.close()
    return records


def _end(consumer: Any, topic: str, partition: int) -> int:
    _, end = consumer.get_watermark_offsets(
        TopicPartition(topic, partition), timeout=ANSWER_SECONDS_MAX
    )
    return int(end)
