"""The only disk of a broker fails: the broker stops, and nothing is lost."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from local_cluster.client.client import KafkaClient
from local_cluster.client.model import NewTopic, TopicPartition
from local_cluster.client.reader import read_topic
from local_cluster.records.batch import NewRecord, encode_batch
from local_cluster.wire.errors import ErrorCode, KafkaError
from tests.support.cluster import running_broker
from tests.support.producing import produce_once
from tests.support.sick_disk import GROUND_MIB, SickDisk, sick_disk

pytestmark = pytest.mark.real

VALUE_BYTES = 100_000
END_SECONDS_MAX = 60.0
AT = TopicPartition("t", 0)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SickDisk]:
    with sick_disk(tmp_path, tmp_path / "broker-1" / "log") as disk:
        yield disk


async def test_a_failed_sync_ends_the_broker_and_loses_nothing(
    zookeeper: str, tmp_path: Path, disk: SickDisk
) -> None:
    async with running_broker(zookeeper, tmp_path) as broker:
        acknowledged: list[bytes] = []
        error = ErrorCode.none
        async with KafkaClient(broker.bootstrap, request_timeout_ms=10_000) as client:
            await client.create_topics([NewTopic(name="t", partitions=1)])
            while error is ErrorCode.none:
                value = b"%d:" % len(acknowledged) + os.urandom(VALUE_BYTES)
                batch = encode_batch([NewRecord(0, b"k", value)])
                try:
                    error = (await produce_once(client, 1, AT, batch)).error
                except KafkaError as raised:
                    error = raised.code
                if error is ErrorCode.none:
                    acknowledged.append(value)
        assert error in (ErrorCode.kafka_storage_error, ErrorCode.network_exception)
        assert len(acknowledged) * VALUE_BYTES < GROUND_MIB << 20
        assert broker.process is not None
        ended = await asyncio.wait_for(asyncio.to_thread(broker.process.wait), END_SECONDS_MAX)
        assert ended != 0
        assert "fsync failed, so the log directory" in broker.log_text()
        disk.heal()
        await broker.start()
        async with KafkaClient(broker.bootstrap) as client:
            found = [record.value async for record in read_topic(client, "t", partition=0)]
            assert found[: len(acknowledged)] == acknowledged
            assert len(found) <= len(acknowledged) + 1, "the batch that failed may be there"
            batch = encode_batch([NewRecord(0, b"k", b"next")])
            assert (await produce_once(client, 1, AT, batch)).base_offset == len(found)
