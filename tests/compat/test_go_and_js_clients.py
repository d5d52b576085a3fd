"""Clients in Go (franz-go, sarama) and JavaScript (kafkajs), each a program of its own.

What they need is fetched once, by their lock files, into the user's cache directory; where that
cannot be done the test is skipped and says why.
"""

from __future__ import annotations

import asyncio
import uuid
from typing import TYPE_CHECKING

import confluent_kafka
import pytest

from tests.compat.client_programs import GO_CLIENTS, KAFKAJS, run_client

if TYPE_CHECKING:
    from tests.compat.conftest import Broker

pytestmark = pytest.mark.real

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
RECORDS = 100


def read_values(bootstrap: str, topic: str) -> list[int]:
    """Read a topic by librdkafka: one client can open what another has compressed."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": uuid.uuid4().hex,
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
        }
    )
    metadata = consumer.list_topics(topic, timeout=30).topics[topic]
    starts = [confluent_kafka.TopicPartition(topic, each, 0) for each in metadata.partitions]
    consumer.assign(starts)
    values: list[int] = []
    ends = 0
    while ends < len(starts):
        message = consumer.poll(30)
        assert message is not None
        if message.error() is None:
            values.append(int(message.value() or b""))
        else:
            ends += 1
    consumer.close()
    return sorted(values)


async def codecs_are_readable(bootstrap: str, prefix: str) -> None:
    for codec in CODECS:
        found = await asyncio.to_thread(read_values, bootstrap, f"{prefix}-{codec}")
        assert found == list(range(RECORDS)), codec


@pytest.mark.parametrize("client", [KAFKAJS, *GO_CLIENTS])
async def test_a_client_in_another_language(either_broker: Broker, client: str) -> None:
    await run_client(client, either_broker.bootstrap, client)
    await codecs_are_readable(either_broker.bootstrap, client)
