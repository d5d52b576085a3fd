"""Brokers die, pause and stop under load: each acknowledged record is on every replica, once."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from local_cluster.client.client import KafkaClient
from local_cluster.client.model import NewTopic
from local_cluster.client.reader import read_topic
from tests.support.replicas import (
    IdempotentProducer,
    all_in_sync,
    bootstrap,
    eventually,
    leader_of,
    partition_of,
    replicas_are_equal,
    running_cluster,
)

pytestmark = pytest.mark.real

KILLS = 3
LONG_SESSION_MS = 60_000
"""Longer than a test runs: no test waits until such a session expires."""


async def assert_each_once(client: KafkaClient, acknowledged: list[bytes]) -> None:
    """Every acknowledged record is there once, in order; at most one unanswered record follows."""
    values = [record.value async for record in read_topic(client, "t")]
    assert values[: len(acknowledged)] == acknowledged
    assert len(values) <= len(acknowledged) + 1


async def test_every_acknowledged_record_once_when_leaders_are_killed(
    zookeeper: str, tmp_path: Path
) -> None:
    async with (
        running_cluster(zookeeper, tmp_path) as brokers,
        KafkaClient(bootstrap(brokers)) as client,
    ):
        await client.create_topics([NewTopic(name="t", partitions=1)])
        producer = IdempotentProducer(bootstrap(brokers), "t")
        epoch = 0
        for _ in range(KILLS):
            await producer.advance(50)
            killed = await leader_of(brokers, client, "t")
            await killed.kill()
            await producer.advance(50)
            state = await partition_of(client, "t")
            assert state.leader != killed.settings.broker_id
            assert state.leader_epoch > epoch
            epoch = state.leader_epoch
            await killed.start()

            await eventually(lambda: all_in_sync(client, "t"))
        await producer.stop()
        await replicas_are_equal(brokers, "t")
        await assert_each_once(client, producer.acknowledged)


@pytest.mark.parametrize("controls", [False, True])
async def test_a_killed_leader_is_not_waited_for(
    zookeeper: str, tmp_path: Path, controls: bool
) -> None:
    """Its port refuses connections: the others need not wait until its session ends."""
    async with (
        running_cluster(zookeeper, tmp_path, session_timeout_ms=LONG_SESSION_MS) as brokers,
        KafkaClient(bootstrap(brokers)) as client,
    ):
        await client.create_topics([NewTopic(name="t", partitions=3)])
        controller_id = (await client.metadata()).controller_id
        leaders = {index: await leader_of(brokers, client, "t", index) for index in range(3)}
        partition, killed = next(
            (index, leader)
            for index, leader in leaders.items()
            if (leader.settings.broker_id == controller_id) == controls
        )
        producer = IdempotentProducer(bootstrap(brokers), "t", partition)
        await producer.advance(50)
        await killed.kill()
        # Committed with two replicas: another broker leads, and the dead one has left the ISR.
        await producer.advance(50)
        state = await partition_of(client, "t", partition)
        assert killed.settings.broker_id not in (state.leader, *state.isr)
        known = await client.metadata()
        assert killed.settings.broker_id in known.brokers, "still registered"
        assert known.controller_id not in (-1, killed.settings.broker_id)
        await killed.start()
        await eventually(lambda: all_in_sync(client, "t"))
        await producer.advance(50)
        await producer.stop()
        values = [record.value async for record in read_topic(client, "t", partition=partition)]
        assert values[: len(producer.acknowledged)] == producer.acknowledged
        await replicas_are_equal(brokers, "t", partition)


async def test_a_leader_that_slept_acknowledges_nothing_when_it_wakes(
    zookeeper: str, tmp_path: Path
) -> None:
    """SIGSTOP for longer than its session: it continues in the belief that it leads."""
    async with (
        running_cluster(zookeeper, tmp_path) as brokers,
        KafkaClient(bootstrap(brokers)) as client,
    ):
        await client.create_topics([NewTopic(name="t", partitions=1)])
        producer = IdempotentProducer(bootstrap(brokers), "t")
        await producer.advance(50)
        sleeper = await leader_of(brokers, client, "t")
        others = [broker for broker in brokers if broker is not sleeper]
        # This producer writes to the stopped broker only: its responses must be true.
        stubborn = IdempotentProducer(sleeper.bootstrap, "t", key=b"kk")
        await stubborn.advance(20)
        sleeper.pause()
        async with KafkaClient(bootstrap(others)) as other:

            async def led_by_another() -> bool:
                leader = (await partition_of(other, "t")).leader
                return leader not in (-1, sleeper.settings.broker_id)

            await eventually(led_by_another)
        await producer.advance(50)
        sleeper.resume()
        await eventually(lambda: all_in_sync(client, "t"))
        await producer.advance(50)
        await stubborn.advance(20)
        await producer.stop()
        await stubborn.stop()
        await replicas_are_equal(brokers, "t")
        by_producer: dict[int, list[bytes]] = {}
        async for record in read_topic(client, "t"):
            by_producer.setdefault(len(record.key or b""), []).append(record.value or b"")
        assert by_producer[1] == producer.acknowledged
        assert by_producer[2] == stubborn.acknowledged


async def test_a_rolling_restart_loses_and_doubles_nothing(zookeeper: str, tmp_path: Path) -> None:
    async with (
        running_cluster(zookeeper, tmp_path) as brokers,
        KafkaClient(bootstrap(brokers)) as client,
    ):
        await client.create_topics([NewTopic(name="t", partitions=3)])
        failed: list[object] = []
        delivered: list[int] = []
        # An ordinary producer with retries: it must not see an error.
        producer = Producer(
            {"bootstrap.servers": bootstrap(brokers), "enable.idempotence": True, "linger.ms": 5}
        )

        def report(error: object, message: Any) -> None:
            if error is not None:
                failed.append(error)
            else:
                delivered.append(int(message.key()))

        stop = asyncio.Event()

        async def produce() -> int:
            sent = 0
            while not stop.is_set():
                producer.produce(
                    "t", key=b"%d" % sent, value=b"v", partition=sent % 3, callback=report
                )
                sent += 1
                producer.poll(0)
                await asyncio.sleep(0.002)
            return sent

        producing = asyncio.create_task(produce())
        for broker in brokers:
            wanted = len(delivered) + 50
            await eventually(lambda wanted=wanted: len(delivered) > wanted)  # type: ignore[misc]
            assert await broker.stop() == 0
            others = [each for each in brokers if each is not broker]
            async with KafkaClient(bootstrap(others)) as other:
                partitions = (await other.metadata(["t"])).topics["t"].partitions
                # Leadership moved before it stopped: no client waits until its session ends.
                assert all(
                    p.leader not in (-1, broker.settings.broker_id) for p in partitions.values()
                )
            await broker.start()
            await eventually(lambda: all_in_sync(client, "t"))
        stop.set()
        sent = await producing
        await asyncio.to_thread(producer.flush)
        assert failed == []
        assert sorted(delivered) == list(range(sent))
        for partition in range(3):
            keys = [
                int(record.key or b"")
                async for record in read_topic(client, "t", partition=partition)
            ]
            assert keys == list(range(partition, sent, 3))
            await replicas_are_equal(brokers, "t", partition)
