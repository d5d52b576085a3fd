"""A Connect worker 4.3, distributed, exactly-once sources: file to topic to file over kill -9."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import confluent_kafka
import pytest

from local_cluster.client.client import KafkaClient
from local_cluster.client.model import NewTopic
from tests.compat.connect import INTERNAL_TOPICS, ConnectWorker, running_worker

if TYPE_CHECKING:
    from tests.compat.conftest import Broker

pytestmark = [pytest.mark.real, pytest.mark.oracle, pytest.mark.timeout(300)]

WAIT_SECONDS_MAX = 90.0
FILE = "org.apache.kafka.connect.file."


async def test_files_go_over_a_topic_and_offsets_resume(
    either_broker: Broker, tmp_path: Path
) -> None:
    broker = either_broker
    source, sink = tmp_path / "source.txt", tmp_path / "sink.txt"
    written = append_lines(source, 0, 1_000)
    async with KafkaClient(broker.bootstrap) as client:
        assert (await client.create_topics([NewTopic(name="lines", partitions=1)]))["lines"] is None
        async with running_worker(broker.bootstrap, tmp_path) as worker:
            configs = await client.describe_topic_configs(INTERNAL_TOPICS)
            assert {configs[name]["cleanup.policy"][0] for name in INTERNAL_TOPICS} == {"compact"}
            await worker.run_connector(
                "source",
                {
                    "connector.class": FILE + "FileStreamSourceConnector",
                    "file": str(source),
                    "topic": "lines",
                    "exactly.once.support": "required",
                },
            )
            await worker.run_connector(
                "sink",
                {
                    "connector.class": FILE + "FileStreamSinkConnector",
                    "file": str(sink),
                    "topics": "lines",
                    "consumer.override.isolation.level": "read_committed",
                    "consumer.override.auto.offset.reset": "earliest",
                },
            )
            await has_lines(sink, written)
            written += append_lines(source, 1_000, 2_000)
            await worker.process.kill()
            written += append_lines(source, 2_000, 3_000)
            await worker.start()
            await has_lines(sink, written)
            written += append_lines(source, 3_000, 4_000)
            await broker.kill()
            await broker.start()
            written += append_lines(source, 4_000, 5_000)
            await has_lines(sink, written)
            await offset_reaches(worker, "source", "position", source.stat().st_size)
            await offset_reaches(worker, "sink", "kafka_offset", len(written))
            await worker.ask("PUT", "/connectors/sink/stop")
            await worker.await_state("sink", "STOPPED", tasks=0)
            await worker.ask("DELETE", "/connectors/sink/offsets")
            assert (await worker.ask("GET", "/connectors/sink/offsets"))["offsets"] == []
            await worker.ask("DELETE", "/connectors/sink")
    assert await asyncio.to_thread(read_committed, broker.bootstrap, len(written)) == written


def append_lines(path: Path, first: int, end: int) -> list[str]:
    lines = [f"line {index}" for index in range(first, end)]
    with path.open("a") as file:
        file.writelines(f"{line}\n" for line in lines)
    return lines


async def has_lines(path: Path, lines: list[str]) -> None:
    """Wait until the sink has them all. After a kill a sink repeats uncommitted lines."""
    wanted = set(lines)
    async with asyncio.timeout(WAIT_SECONDS_MAX):
        while not path.exists() or not wanted <= set(path.read_text().splitlines()):
            await asyncio.sleep(0.1)


async def offset_reaches(worker: ConnectWorker, connector: str, field: str, offset: int) -> None:
    """Wait until the committed offset of the connector's only partition reaches an offset."""
    async with asyncio.timeout(WAIT_SECONDS_MAX):
        while True:
            told = (await worker.ask("GET", f"/connectors/{connector}/offsets"))["offsets"]
            if [True for entry in told if entry["offset"][field] >= offset]:
                return
            await asyncio.sleep(0.2)


def read_committed(bootstrap: str, count: int) -> list[str]:
    """Read the whole topic, which is more than `count` if lines are duplicated."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    consumer.assign([confluent_kafka.TopicPartition("lines", 0, 0)])
    seen: list[str] = []
    try:
        while True:
            message = consumer.poll(WAIT_SECONDS_MAX)
            assert message is not None, f"{len(seen)} of {count} lines and no end"
            error = message.error()
            if error is not None:
                assert error.code() == confluent_kafka.KafkaError._PARTITION_EOF, error
                return seen
            seen.append((message.value() or b"").decode())
    finally:
        consumer.close()
