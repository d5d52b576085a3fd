"""Groups of existing clients on a real broker: rebalance, resume, static members, kill -9."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import signal
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiokafka
import confluent_kafka
import confluent_kafka.admin
import pytest

from local_cluster.client.client import KafkaClient
from local_cluster.client.model import NewTopic
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, KafkaError
from tests.support.cluster import BrokerProcess, running_broker

pytestmark = pytest.mark.real

PARTITIONS = 4
RECORDS = 400
WAIT_SECONDS_MAX = 60.0


@pytest.fixture
async def broker(zookeeper: str, tmp_path: Path) -> AsyncIterator[BrokerProcess]:
    async with running_broker(zookeeper, tmp_path) as broker:
        yield broker


def name(prefix: str) -> str:
    return f"{prefix}-{uuid.uuid4().hex[:8]}"


async def topic_with_records(broker: BrokerProcess) -> str:
    topic = name("t")
    async with KafkaClient(broker.bootstrap) as client:
        results = await client.create_topics([NewTopic(name=topic, partitions=PARTITIONS)])
    assert results[topic] is None
    producer = aiokafka.AIOKafkaProducer(bootstrap_servers=broker.bootstrap)
    await producer.start()
    for index in range(RECORDS):
        await producer.send(topic, b"%d" % index, partition=index % PARTITIONS)
    await producer.stop()
    return topic


def consumer(broker: BrokerProcess, topic: str, group: str, **options: Any) -> Any:
    return aiokafka.AIOKafkaConsumer(
        topic,
        bootstrap_servers=broker.bootstrap,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=6_000,
        heartbeat_interval_ms=300,
        **options,
    )


async def take(consumer: Any, count: int) -> list[bytes]:
    values: list[bytes] = []
    async with asyncio.timeout(WAIT_SECONDS_MAX):
        while len(values) < count:
            polled = await consumer.getmany(timeout_ms=200, max_records=count - len(values))
            values += [record.value for records in polled.values() for record in records]
    return values


async def until(condition: Any) -> None:
    async with asyncio.timeout(WAIT_SECONDS_MAX):
        while not condition():
            await asyncio.sleep(0.05)


async def describe(broker: BrokerProcess, group: str) -> Any:
    async with KafkaClient(broker.bootstrap) as client:
        response = await client.call_coordinator(
            group,
            ApiKey.DESCRIBE_GROUPS,
            {"groups": [group], "include_authorized_operations": False},
        )
    return response.groups[0]


async def test_two_consumers_share_a_topic_and_one_takes_over(broker: BrokerProcess) -> None:
    topic, group = await topic_with_records(broker), name("g")
    first = consumer(broker, topic, group)
    await first.start()
    await until(lambda: len(first.assignment()) == PARTITIONS)
    second = consumer(broker, topic, group)
    await second.start()
    # The first one notices the second one by its heartbeats.
    await until(lambda: len(first.assignment()) == len(second.assignment()) == PARTITIONS // 2)
    assert not first.assignment() & second.assignment()
    described = await describe(broker, group)
    assert (described.group_state, len(described.members)) == ("Stable", 2)
    await second.stop()
    await until(lambda: len(first.assignment()) == PARTITIONS)
    await first.stop()
    assert (await describe(broker, group)).group_state == "Empty"


async def test_a_group_resumes_at_its_commit(broker: BrokerProcess) -> None:
    topic, group = await topic_with_records(broker), name("g")
    first = consumer(broker, topic, group)
    await first.start()
    taken = await take(first, 150)
    await first.commit()
    await first.stop()
    second = consumer(broker, topic, group)
    await second.start()
    taken += await take(second, RECORDS - 150)
    await second.stop()
    assert sorted(taken, key=int) == [b"%d" % index for index in range(RECORDS)]


async def test_groups_and_committed_offsets_survive_kill_9(broker: BrokerProcess) -> None:
    topic, group = await topic_with_records(broker), name("g")
    member = consumer(broker, topic, group)
    await member.start()
    taken = await take(member, 100)
    await member.commit()
    before = await describe(broker, group)
    await broker.kill()
    await broker.start()
    after = await describe(broker, group)
    assert after.group_state == "Stable"
    assert after.members == before.members
    # The member saw only a broken connection: same generation, no rebalance.
    taken += await take(member, 100)
    await member.commit()
    await broker.kill()
    await broker.start()
    taken += await take(member, RECORDS - 200)
    # aiokafka's stop() raises the cancellation of a fetch task that waits before a retry.
    with contextlib.suppress(asyncio.CancelledError):
        await member.stop()
    assert sorted(taken, key=int) == [b"%d" % index for index in range(RECORDS)]


async def test_every_acknowledged_commit_is_there_after_kill_9(broker: BrokerProcess) -> None:
    topic, group = await topic_with_records(broker), name("g")
    acknowledged = -1
    for _ in range(3):
        async with KafkaClient(broker.bootstrap) as client:
            found = await committed(client, group, topic)
            # One more may have been written without an acknowledgement.
            assert found in (acknowledged, acknowledged + 1)
            acknowledged = found
            with pytest.raises(KafkaError):
                while True:
                    response = await client.call(
                        ApiKey.OFFSET_COMMIT,
                        commit_fields(group, topic, acknowledged + 1),
                        node_id=broker.settings.broker_id,
                    )
                    assert response.topics[0].partitions[0].error_code is ErrorCode.none
                    acknowledged += 1
                    if acknowledged == found + 1:  # the kill comes in the midst of more
                        kill = functools.partial(os.kill, broker.pid, signal.SIGKILL)
                        asyncio.get_running_loop().call_later(0.3, kill)
        assert acknowledged > found
        await broker.kill()
        await broker.start()
    async with KafkaClient(broker.bootstrap) as client:
        assert await committed(client, group, topic) in (acknowledged, acknowledged + 1)


async def committed(client: KafkaClient, group: str, topic: str) -> int:
    """Return the group's committed offset in partition 0."""
    response = await client.call_coordinator(
        group,
        ApiKey.OFFSET_FETCH,
        {
            "group_id": group,
            "topics": [{"name": topic, "partition_indexes": [0]}],
            "require_stable": False,
        },
    )
    offset: int = response.topics[0].partitions[0].committed_offset
    return offset


def commit_fields(group: str, topic: str, offset: int) -> dict[str, Any]:
    partition = {
        "partition_index": 0,
        "committed_offset": offset,
        "committed_leader_epoch": -1,
        "committed_metadata": f"note {offset}",
    }
    return {
        "group_id": group,
        "generation_id_or_member_epoch": -1,
        "member_id": "",
        "group_instance_id": None,
        "topics": [{"name": topic, "partitions": [partition]}],
    }


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
async def test_librdkafka_static_members_restart_without_a_rebalance(
    broker: BrokerProcess, strategy: str
) -> None:
    topic, group = await topic_with_records(broker), name("g")
    await asyncio.to_thread(_static_members, broker.bootstrap, topic, group, strategy)


def _static_members(bootstrap: str, topic: str, group: str, strategy: str) -> None:
    def static(instance: str) -> confluent_kafka.Consumer:
        made = confluent_kafka.Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "group.instance.id": instance,
                "partition.assignment.strategy": strategy,
                "auto.offset.reset": "earliest",
                "session.timeout.ms": 30_000,
                "heartbeat.interval.ms": 300,
            }
        )
        made.subscribe([topic])
        return made

    def poll_until_shared(*members: confluent_kafka.Consumer) -> None:
        for _ in range(int(WAIT_SECONDS_MAX / 0.1)):
            for member in members:
                member.poll(0.1)
            if all(len(member.assignment()) == PARTITIONS // 2 for member in members):
                return
        raise AssertionError("the members never shared the topic")

    first, second = static("one"), static("two")
    poll_until_shared(first, second)
    before = {p.partition for p in second.assignment()}
    admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": bootstrap})

    def member_ids() -> dict[str, str]:
        described = admin.describe_consumer_groups([group])[group].result(timeout=20)
        assert described.state == confluent_kafka.ConsumerGroupState.STABLE
        return {member.group_instance_id: member.member_id for member in described.members}

    ids = member_ids()
    # A static member's close does not leave the group.
    second.close()
    second = static("two")
    for _ in range(int(WAIT_SECONDS_MAX / 0.1)):
        second.poll(0.1)
        if second.assignment():
            break
    assert {p.partition for p in second.assignment()} == before
    again = member_ids()
    assert again["one"] == ids["one"], "the other member had to rejoin"
    assert again["two"] != ids["two"]
    first.close()
    second.close()


async def test_admin_tools_see_and_move_a_group(broker: BrokerProcess) -> None:
    topic, group = await topic_with_records(broker), name("g")
    await asyncio.to_thread(_admin, broker.bootstrap, topic, group)


def _admin(bootstrap: str, topic: str, group: str) -> None:
    admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": bootstrap})
    moved = confluent_kafka.ConsumerGroupTopicPartitions(
        group, [confluent_kafka.TopicPartition(topic, 2, 17)]
    )
    admin.alter_consumer_group_offsets([moved])[group].result(timeout=20)
    request = confluent_kafka.ConsumerGroupTopicPartitions(group)
    found = admin.list_consumer_group_offsets([request])[group].result(timeout=20)
    assert [(p.topic, p.partition, p.offset) for p in found.topic_partitions] == [(topic, 2, 17)]
    listed = admin.list_consumer_groups().result(timeout=20)
    assert not listed.errors
    assert group in {entry.group_id for entry in listed.valid}


async def test_two_brokers_share_the_groups(zookeeper: str, tmp_path: Path) -> None:
    connect = f"{zookeeper}/{name('two')}"
    async with (
        running_broker(connect, tmp_path, broker_id=1) as first,
        running_broker(connect, tmp_path, broker_id=2) as second,
    ):
        topic = await topic_with_records(first)
        groups = [f"group-{index}" for index in range(12)]
        # The broker that is not the controller has to have the topic created.
        async with KafkaClient(second.bootstrap) as client:
            for group in groups:
                response = await client.call_coordinator(
                    group, ApiKey.OFFSET_COMMIT, commit_fields(group, topic, 5)
                )
                assert response.topics[0].partitions[0].error_code is ErrorCode.none
            listed: dict[int, set[str]] = {}
            for node_id in (1, 2):
                response = await client.call(ApiKey.LIST_GROUPS, LIST_ALL, node_id=node_id)
                listed[node_id] = {entry.group_id for entry in response.groups}
            assert listed[1] | listed[2] == set(groups)
            assert listed[1] and listed[2]
            assert not listed[1] & listed[2]
            stranger = next(iter(listed[1]))
            refused = await client.call(
                ApiKey.OFFSET_COMMIT, commit_fields(stranger, topic, 6), node_id=2
            )
            assert refused.topics[0].partitions[0].error_code is ErrorCode.not_coordinator


LIST_ALL = {"states_filter": (), "types_filter": ()}
