"""Consumer groups fail over: their positions follow exactly, forward, and only for unused
groups.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka.structs import TopicPartition as ConsumedPartition

from local_cluster.client.admin.group_offsets import (
    CommittedOffset,
    commit_offsets,
    committed_offsets,
    list_groups,
)
from local_cluster.client.client import KafkaClient
from local_cluster.client.model import TopicPartition
from local_cluster.wire.errors import ErrorCode
from tests.real.mirror.test_mirror_links import COPY, T0, create, until_copied, write
from tests.support.cluster import BrokerProcess, running_broker
from tests.support.mirror_process import MirrorProcess, mirror, read_records

pytestmark = pytest.mark.real

Brokers = tuple[BrokerProcess, BrokerProcess]
QUICK = {"group.initial.rebalance.delay.ms": "0"}


@pytest.fixture
async def brokers(zookeeper: str, tmp_path: Path) -> AsyncIterator[Brokers]:
    async with (
        running_broker(zookeeper, tmp_path / "source", cluster="source", config=QUICK) as source,
        running_broker(zookeeper, tmp_path / "target", cluster="target", config=QUICK) as target,
    ):
        yield source, target


async def commit(client: KafkaClient, group: str, at: TopicPartition, offset: int) -> None:
    answers = await commit_offsets(client, group, {at: CommittedOffset(offset, -1, "here")})
    assert answers == {at: ErrorCode.none}


async def position(client: KafkaClient, group: str, at: TopicPartition) -> int | None:
    found = (await committed_offsets(client, [group])).get(group, {}).get(at)
    return found.offset if found is not None else None


async def until_position(client: KafkaClient, group: str, offset: int) -> None:
    async with asyncio.timeout(20):
        while await position(client, group, COPY) != offset:
            await asyncio.sleep(0.05)


async def until_synced(
    worker: MirrorProcess, group: str, is_so: Callable[[dict[str, Any]], bool]
) -> None:
    async with asyncio.timeout(20):
        while True:
            positions = (await worker.link())["groups"]["positions"]
            if any(each["group"] == group and is_so(each) for each in positions):
                return
            await asyncio.sleep(0.05)


async def test_a_group_fails_over_and_re_reads_nothing(brokers: Brokers, tmp_path: Path) -> None:
    source_broker, target_broker = brokers
    async with (
        KafkaClient(source_broker.bootstrap) as source,
        KafkaClient(target_broker.bootstrap) as target,
    ):
        await create(source, "t")
        await write(source, T0, 60)
        consumer = AIOKafkaConsumer(
            "t", bootstrap_servers=source_broker.bootstrap, group_id="app",
            auto_offset_reset="earliest", enable_auto_commit=False,
        )  # fmt: skip
        await consumer.start()
        consumed = []
        async with mirror(
            tmp_path, source_broker.bootstrap, target_broker.bootstrap, sync_group_offsets=True
        ):
            await until_copied(target, COPY, 60)
            async for message in consumer:
                consumed.append(message.key)
                if len(consumed) == 37:
                    break
            # Members at the source do not prevent the sync.
            await consumer.commit({ConsumedPartition("t", 0): 37})
            await until_position(target, "app", 37)
            await consumer.stop()
            await write(source, T0, 10, first=60)
            await until_copied(target, COPY, 70)
        async with asyncio.timeout(30):
            successor = AIOKafkaConsumer(
                "a.t", bootstrap_servers=target_broker.bootstrap, group_id="app",
                auto_offset_reset="earliest",
            )  # fmt: skip
            await successor.start()
            rest = [(await successor.getone()).key for _ in range(33)]
            await successor.stop()
        written = [record.key for record in await read_records(source, T0)]
        assert consumed + rest == written


async def test_states_of_positions_are_shown_and_nothing_is_overwritten(
    brokers: Brokers, tmp_path: Path
) -> None:
    source_broker, target_broker = brokers
    async with (
        KafkaClient(source_broker.bootstrap) as source,
        KafkaClient(target_broker.bootstrap) as target,
    ):
        await create(source, "t")
        await write(source, T0, 50)
        await commit(source, "ahead", T0, 20)
        await commit(source, "beyond", T0, 50)
        await commit(source, "console-consumer-1", T0, 10)
        await commit(source, "active", T0, 10)
        async with mirror(
            tmp_path, source_broker.bootstrap, target_broker.bootstrap, sync_group_offsets=True
        ) as worker:
            await until_position(target, "ahead", 20)
            await until_position(target, "beyond", 50)
            # The group continues at the target, ahead of its source.
            await commit(target, "ahead", COPY, 45)
            await commit(source, "ahead", T0, 22)
            await until_synced(
                worker, "ahead", lambda at: at["state"] == "ahead" and at["source_offset"] == 22
            )
            assert await position(target, "ahead", COPY) == 45
            # With members on the target, the group keeps its own positions.
            consumer = AIOKafkaConsumer(
                "a.t", bootstrap_servers=target_broker.bootstrap, group_id="active",
                enable_auto_commit=False,
            )  # fmt: skip
            await consumer.start()
            before = await position(target, "active", COPY)
            await commit(source, "active", T0, 33)
            await until_synced(
                worker, "active", lambda at: at["state"] == "active" and at["source_offset"] == 33
            )
            assert await position(target, "active", COPY) == before
            await consumer.stop()
            await until_position(target, "active", 33)
            # A position beyond the copy is clamped to its end until more is copied.
            await commit(source, "beyond", T0, 80)
            await until_synced(worker, "beyond", lambda at: at["state"] == "clamped")
            assert await position(target, "beyond", COPY) == 50
            await write(source, T0, 40, first=50)
            await until_position(target, "beyond", 80)
            assert "console-consumer-1" not in await list_groups(target)
            metrics = await worker.get("/metrics")
            assert 'heliograph_mirror_group_positions{link="a-b",state="synced"}' in metrics


async def test_a_position_goes_back_only_with_rewind(brokers: Brokers, tmp_path: Path) -> None:
    source_broker, target_broker = brokers
    async with (
        KafkaClient(source_broker.bootstrap) as source,
        KafkaClient(target_broker.bootstrap) as target,
    ):
        await create(source, "t")
        await write(source, T0, 50)
        await commit(source, "g", T0, 40)
        async with mirror(
            tmp_path,
            source_broker.bootstrap,
            target_broker.bootstrap,
            sync_group_offsets=True,
            rewind_group_offsets=True,
        ):
            await until_position(target, "g", 40)
            await commit(source, "g", T0, 5)
            await until_position(target, "g", 5)
