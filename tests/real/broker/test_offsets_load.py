"""100,000 committed offsets in one partition of `__consumer_offsets` survive kill -9.

The load time is printed (`make bench-offsets-load`), not asserted.
"""

from __future__ import annotations

import asyncio
import re
import time
from pathlib import Path

import pytest

from local_cluster.client.client import KafkaClient
from local_cluster.client.connection import Connection, connect
from local_cluster.client.model import NewTopic
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode
from tests.support.cluster import BrokerProcess, running_broker

pytestmark = pytest.mark.real

GROUPS = 1_000
OFFSETS = 100
"""Per group, one for each partition of the topic."""
WAIT_SECONDS_MAX = 60.0
FETCH_VERSION = 7
COMMIT_VERSION = 8


async def connected(broker: BrokerProcess) -> Connection:
    return await connect("127.0.0.1", broker.port, client_id="load", timeout_ms=60_000)


def group_name(number: int) -> str:
    return f"group-{number:03d}"


def offsets_of(number: int) -> dict[int, int]:
    return {partition: number * 1_000_000 + partition for partition in range(OFFSETS)}


async def commit(connection: Connection, number: int) -> ErrorCode:
    entries = [
        {
            "partition_index": partition,
            "committed_offset": offset,
            "committed_leader_epoch": 3,
            "committed_metadata": f"at {offset}",
        }
        for partition, offset in offsets_of(number).items()
    ]
    fields = {
        "group_id": group_name(number),
        "generation_id_or_member_epoch": -1,
        "member_id": "",
        "topics": [{"name": "t", "partitions": entries}],
    }
    response = await connection.call(ApiKey.OFFSET_COMMIT, fields, COMMIT_VERSION)
    codes = {entry.error_code for topic in response.topics for entry in topic.partitions}
    assert len(codes) == 1, codes
    return ErrorCode(codes.pop())


async def fetch(connection: Connection, number: int) -> tuple[ErrorCode, dict[int, int]]:
    fields = {"group_id": group_name(number), "topics": None, "require_stable": False}
    group = await connection.call(ApiKey.OFFSET_FETCH, fields, FETCH_VERSION)
    entries = [entry for topic in group.topics for entry in topic.partitions]
    for entry in entries:
        assert entry.metadata == f"at {entry.committed_offset}"
        assert entry.committed_leader_epoch == 3
    return group.error_code, {entry.partition_index: entry.committed_offset for entry in entries}


async def test_every_committed_offset_is_there_after_kill_9(zookeeper: str, tmp_path: Path) -> None:
    config = {"offsets.topic.num.partitions": "1"}
    async with running_broker(zookeeper, tmp_path, config=config) as broker:
        async with KafkaClient(broker.bootstrap) as client:
            created = await client.create_topics([NewTopic(name="t", partitions=OFFSETS)])
            assert created == {"t": None}
        connection = await connected(broker)
        async with asyncio.timeout(WAIT_SECONDS_MAX):
            while True:
                finding = {"key": group_name(0), "key_type": 0}
                found = await connection.call(ApiKey.FIND_COORDINATOR, finding, 2)
                taken = not found.error_code and await commit(connection, 0) is ErrorCode.none
                if taken:
                    break
                await asyncio.sleep(0.05)
        for number in range(1, GROUPS):
            assert await commit(connection, number) is ErrorCode.none
        await connection.close()
        await broker.kill()
        log_before = len(broker.log_text())
        began = time.perf_counter()
        await broker.start()
        ready = time.perf_counter()
        connection = await connected(broker)
        async with asyncio.timeout(WAIT_SECONDS_MAX):
            while (await fetch(connection, 0))[0] is not ErrorCode.none:
                await asyncio.sleep(0.01)
        served = time.perf_counter()
        for number in range(GROUPS):
            assert await fetch(connection, number) == (ErrorCode.none, offsets_of(number))
        await connection.close()
        log = broker.log_text()[log_before:]
        (loaded,) = re.findall(r"__consumer_offsets-0 loaded up to offset \d+ in (\d+) ms", log)
        print(
            f"\n{GROUPS * OFFSETS:,} committed offsets: loaded in {loaded} ms; "
            f"ready {ready - began:.2f} s after the start, served {served - ready:.2f} s later"
        )
