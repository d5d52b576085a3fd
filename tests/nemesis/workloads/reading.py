"""Reading everything there is in the end: as a consumer of librdkafka does, and batch by batch."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import confluent_kafka

from local_cluster.client.client import KafkaClient
from local_cluster.client.reader import read_batches
from tests.nemesis.checkers.resent import Written
from tests.nemesis.cluster import Cluster, until
from tests.nemesis.workloads.workload import LIBRDKAFKA

SILENCE_SECONDS_MAX: Final = 60.0


class Message(NamedTuple):
    """One record as a consumer gets it."""

    offset: int
    key: str
    value: str | None
    timestamp_ms: int


async def read_all(
    bootstrap: str, partitions: Mapping[str, int], *, committed: bool = False
) -> dict[tuple[str, int], list[Message]]:
    """Every record of these topics (name -> partition count), in order of offsets.

    With `committed` only those of committed transactions. Raises RuntimeError where the end does
    not come.
    """
    return await asyncio.to_thread(_read_all, bootstrap, partitions, committed)


async def read_written(cluster: Cluster, topic: str, partitions: int) -> dict[int, list[Written]]:
    """Every record of a topic with what its batch says of who wrote it, in order of offsets.

    Raises TimeoutError where it cannot be read.
    """
    found: dict[int, list[Written]] = {}

    async def read() -> bool:
        async with cluster.client() as client:
            for partition in range(partitions):
                found[partition] = await read_partition(client, topic, partition)
        return True

    await until(read, f"{topic} is read batch by batch")
    return found


async def read_partition(client: KafkaClient, topic: str, partition: int) -> list[Written]:
    """As `read_written`, of one partition and at once. Raises KafkaError."""
    return [
        Written(
            record.offset,
            (record.value or b"").decode(),
            header.producer_id,
            header.producer_epoch,
            header.base_sequence + record.offset - header.base_offset,
            header.base_offset,
        )
        async for header, records in read_batches(client, topic, partition=partition)
        for record in records
    ]


def _read_all(
    bootstrap: str, partitions: Mapping[str, int], committed: bool
) -> dict[tuple[str, int], list[Message]]:
    consumer = confluent_kafka.Consumer(
        {
            **LIBRDKAFKA,
            "bootstrap.servers": bootstrap,
            "group.id": "nemesis-final-reader",
            "isolation.level": "read_committed" if committed else "read_uncommitted",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
        }
    )
    wanted = {(topic, index) for topic, count in partitions.items() for index in range(count)}
    found: dict[tuple[str, int], list[Message]] = {at: [] for at in sorted(wanted)}
    last: dict[tuple[str, int], int] = defaultdict(lambda: -1)
    consumer.assign([
        confluent_kafka.TopicPartition(topic, index, confluent_kafka.OFFSET_BEGINNING)
        for topic, index in sorted(wanted)
    ])  # fmt: skip
    try:
        while wanted:
            message = consumer.poll(SILENCE_SECONDS_MAX)
            if message is None:
                raise RuntimeError(f"the last reader hangs before the end of {sorted(wanted)}")
            error = message.error()
            at = str(message.topic()), int(message.partition() or 0)
            if error is None:
                found[at].append(_read(message))
                assert found[at][-1].offset > last[at], "librdkafka delivers in order"
                last[at] = found[at][-1].offset
            elif error.code() == confluent_kafka.KafkaError._PARTITION_EOF:
                wanted.discard(at)
            elif error.fatal() or error.code() == confluent_kafka.KafkaError.OFFSET_OUT_OF_RANGE:
                raise RuntimeError(f"the last reader failed at {at}: {error}")
    finally:
        consumer.close()
    return found


def _read(message: Any) -> Message:
    key, value = message.key(), message.value()
    return Message(
        message.offset(),
        key.decode() if key is not None else "",
        value.decode() if value is not None else None,
        message.timestamp()[1],
    )
