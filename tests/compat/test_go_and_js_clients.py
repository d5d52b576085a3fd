"""Clients in Go (franz-go, sarama) and JavaScript (kafkajs), each a program of its own.

What they need is fetched once, by their lock files, into the user's cache directory; where that
cannot be done the test is skipped and says why.
"""

from __future__ import annotations

import asyncio
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

import confluent_kafka
import pytest

from tests.support.fetched_program import built, finished

if TYPE_CHECKING:
    from tests.compat.conftest import Broker

pytestmark = pytest.mark.real

HERE = Path(__file__).parent
RUN_SECONDS_MAX = 120.0
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
RECORDS = 100


async def run(command: list[str], directory: Path) -> None:
    """Run the program to its end; a failure shows its output."""
    done = await asyncio.to_thread(finished, command, directory, RUN_SECONDS_MAX)
    assert done.returncode == 0, done.stdout + done.stderr


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


async def test_kafkajs(either_broker: Broker) -> None:
    fetch = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
    check = ["node", "--check", "client.js"]
    directory = await asyncio.to_thread(built, HERE / "js", "npm", fetch, check)
    await run(["node", "client.js", either_broker.bootstrap, "js"], directory)
    await codecs_are_readable(either_broker.bootstrap, "js")


@pytest.mark.parametrize("client", ["franz", "sarama"])
async def test_go_clients(either_broker: Broker, client: str) -> None:
    fetch = ["go", "mod", "download"]
    build = ["go", "build", "-mod=readonly", "-o", "bin/", "./..."]
    directory = await asyncio.to_thread(built, HERE / "go", "go", fetch, build)
    await run([str(directory / "bin" / client), either_broker.bootstrap, client], directory)
    await codecs_are_readable(either_broker.bootstrap, client)
