"""Old segments and deleted topics are removed from disk while the broker runs."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from local_cluster.client.client import KafkaClient
from local_cluster.client.model import NewTopic, TopicPartition
from local_cluster.records.batch import NewRecord, encode_batch
from local_cluster.wire.errors import ErrorCode
from tests.support.cluster import running_broker
from tests.support.producing import produce_once

pytestmark = pytest.mark.real

WAIT_SECONDS_MAX = 30.0


async def test_old_segments_and_deleted_topics_leave_the_disk(
    zookeeper: str, tmp_path: Path
) -> None:
    config = {"log.retention.check.interval.ms": "100"}
    async with (
        running_broker(zookeeper, tmp_path, config=config) as broker,
        KafkaClient(broker.bootstrap) as client,
    ):
        limits = {
            "internal.segment.bytes": "20000",
            "retention.bytes": "40000",
            "retention.ms": "-1",
        }
        await client.create_topics([NewTopic(name="t", partitions=1, configs=limits)])
        at = TopicPartition("t", 0)
        for _ in range(50):
            batch = encode_batch([NewRecord(0, b"k", b"x" * 5_000)])
            assert (await produce_once(client, 1, at, batch)).error == ErrorCode.none
        directory = broker.log_dir / "t-0"

        def files() -> list[str]:
            return sorted(path.name for path in directory.iterdir())

        async with asyncio.timeout(WAIT_SECONDS_MAX):
            while sum(path.stat().st_size for path in directory.glob("*.log")) > 60_000:
                await asyncio.sleep(0.05)
            while any(name.endswith(".deleted") for name in files()):
                await asyncio.sleep(0.05)
        start = (await client.list_offsets({at: -2}))[at].offset
        end = (await client.list_offsets({at: -1}))[at].offset
        assert (end, start > 0) == (50, True)
        assert f"{start:020}.log" in files()

        assert (await client.delete_topics(["t"]))["t"] is None
        async with asyncio.timeout(WAIT_SECONDS_MAX):
            while any(path.name.startswith("t-0") for path in broker.log_dir.iterdir()):
                await asyncio.sleep(0.05)


@pytest.mark.parametrize(
    ("configs", "timestamp_ms", "code"),
    [
        ({"message.timestamp.before.max.ms": "1000"}, 0, ErrorCode.invalid_timestamp),
        ({"message.timestamp.after.max.ms": "1000"}, 2**42, ErrorCode.invalid_timestamp),
        ({"message.timestamp.type": "LogAppendTime"}, 0, ErrorCode.none),
        ({}, 0, ErrorCode.none),
    ],
)
async def test_topics_set_the_limits_of_timestamps(
    zookeeper: str, tmp_path: Path, configs: dict[str, str], timestamp_ms: int, code: ErrorCode
) -> None:
    async with (
        running_broker(zookeeper, tmp_path) as broker,
        KafkaClient(broker.bootstrap) as client,
    ):
        await client.create_topics([NewTopic(name="t", partitions=1, configs=configs)])
        at = TopicPartition("t", 0)
        batch = encode_batch([NewRecord(timestamp_ms, b"k", b"v")])
        answer = await produce_once(client, 1, at, batch)
        assert answer.error == code
        stamped = "LogAppendTime" in configs.values()
        assert (answer.log_append_time_ms > 10**12) == stamped
