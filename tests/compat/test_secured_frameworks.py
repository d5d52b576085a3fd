"""Streams, Connect, MirrorMaker 2 and Spark's Kafka connector on secured listeners.

The broker is that of secured_broker.py: its sessions last for SESSION_MS, so each program also
authenticates again at work. The table of clients and cases is in README.md.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import pytest
import pytest_asyncio

from local_cluster.client.client import KafkaClient
from local_cluster.client.model import NewTopic
from local_cluster.wire.constants import ResourceType
from tests.compat.connect import running_worker
from tests.compat.secured_broker import (
    LISTENERS,
    Secured,
    allow,
    new_topic,
    running_secured,
)
from tests.compat.test_kafka_connect import FILE, append_lines, has_lines, read_committed
from tests.compat.test_kafka_streams import count_words
from tests.compat.test_mirror_maker_2 import (
    PARTITIONS,
    RECORDS_PER_ROUND,
    Mirrored,
    errors_of,
    mirror_maker,
    produce,
)
from tests.support.kafka_from_maven import connector_jars, tool_jars
from tests.support.secured_connector_job import ROWS

pytestmark = [
    pytest.mark.real,
    pytest.mark.oracle,
    pytest.mark.long,
    pytest.mark.timeout(400),
    pytest.mark.parametrize("protocol", LISTENERS),
]

CLIENTS_OF_WORKERS: Final = ("", "producer.", "consumer.", "admin.")
"""Each client of a Connect worker has configs of its own."""
READ_COMMITTED: Final = {
    "consumer.override.isolation.level": "read_committed",
    "consumer.override.auto.offset.reset": "earliest",
}


@pytest_asyncio.fixture
async def secured(zookeeper: str, tmp_path: Path) -> AsyncIterator[Secured]:
    tool_jars()
    async with running_secured(zookeeper, tmp_path) as started:
        yield started


async def test_streams_counts_every_word_once_over_kill_9(secured: Secured, protocol: str) -> None:
    await allow(
        secured,
        (ResourceType.TOPIC, "words"),
        (ResourceType.TOPIC, "counts"),
        *((kind, "count-words") for kind in (ResourceType.TOPIC, ResourceType.GROUP)),
        (ResourceType.TRANSACTIONAL_ID, "count-words"),
    )

    async def restart() -> None:
        await secured.broker.kill()
        await secured.broker.start()

    configs = secured.write_java(secured.alice(protocol), "streams")
    await count_words(secured.broker.bootstrap, secured.directory, restart, [configs])


async def test_connect_writes_lines_once_over_kill_9(secured: Secured, protocol: str) -> None:
    await allow(
        secured,
        (ResourceType.TOPIC, "lines"),
        (ResourceType.TOPIC, "connect-"),
        (ResourceType.GROUP, "connect-"),
        (ResourceType.TRANSACTIONAL_ID, "connect-"),
    )
    await new_topic(secured, "lines")
    told = secured.java(secured.alice(protocol))
    configs = {f"{of}{name}": value for of in CLIENTS_OF_WORKERS for name, value in told.items()}
    source, sink = secured.directory / "source.txt", secured.directory / "sink.txt"
    written = append_lines(source, 0, 1_000)
    address = secured.broker.bootstrap
    async with running_worker(address, secured.directory, configs) as worker:
        for name, config in (
            ("source", {"file": str(source), "topic": "lines", "exactly.once.support": "required"}),
            ("sink", {"file": str(sink), "topics": "lines", **READ_COMMITTED}),
        ):
            connector = f"{FILE}FileStream{name.capitalize()}Connector"
            await worker.run_connector(name, {"connector.class": connector, **config})
        await has_lines(sink, written)
        await worker.process.kill()
        written += append_lines(source, 1_000, 2_000)
        await worker.start()
        await has_lines(sink, written)
    assert await asyncio.to_thread(read_committed, address, len(written)) == written


async def test_mirror_maker_2_copies_every_record_once(
    secured: Secured, protocol: str, zookeeper: str, tmp_path: Path
) -> None:
    """Both clusters are secured, and its user is a super user of both."""
    async with running_secured(zookeeper, tmp_path / "west", cluster="west") as west:
        async with KafkaClient(secured.broker.bootstrap) as client:
            new = NewTopic(name="orders", partitions=PARTITIONS)
            assert (await client.create_topics([new]))["orders"] is None
        configs = {
            f"{name}.{config}": value
            for name, cluster in (("east", secured), ("west", west))
            for config, value in cluster.java(cluster.admin(protocol)).items()
        }
        mirror = mirror_maker(secured.broker, west.broker, tmp_path, configs)
        mirrored = Mirrored(west.broker.bootstrap)
        try:
            mirror.start()
            produced = await asyncio.to_thread(produce, secured.broker.bootstrap, 0)
            await mirrored.until(mirror, RECORDS_PER_ROUND)
            await mirror.kill()
            produced += await asyncio.to_thread(produce, secured.broker.bootstrap, 1)
            mirror.start()
            await mirrored.until(mirror, 2 * RECORDS_PER_ROUND)
            assert not errors_of(mirror), "our responses cause no error in it"
        finally:
            await mirror.kill()
            mirrored.close()
    got = [value for values in mirrored.by_partition.values() for value in values]
    assert sorted(got) == sorted(produced), "every record once"


async def test_sparks_connector_writes_and_reads(secured: Secured, protocol: str) -> None:
    jars = connector_jars()
    await new_topic(secured, "orders")
    # Spark's groups begin so.
    await allow(secured, (ResourceType.GROUP, "spark-kafka-"))
    configs = secured.write_java(secured.alice(protocol), "spark")
    command = [sys.executable, "-m", "tests.support.secured_connector_job"]
    done = await asyncio.to_thread(
        subprocess.run,
        [*command, str(jars), "orders", configs],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found == {"batch": list(range(ROWS)), "stream": list(range(ROWS))}
