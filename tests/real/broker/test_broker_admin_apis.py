"""The smaller APIs of a running broker, over sockets at each version and by real clients."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import confluent_kafka
import kafka.structs
import pytest
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)
from kafka.admin import KafkaAdminClient

from local_cluster.client.client import KafkaClient
from local_cluster.client.model import FetchPosition, NewTopic, TopicPartition
from local_cluster.records.batch import NewRecord, encode_batch
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode
from tests.support.cluster import BrokerProcess, running_broker
from tests.support.producing import produce_once

pytestmark = pytest.mark.real

AT = TopicPartition("t", 0)
NODE = 1


@pytest.fixture
async def broker(zookeeper: str, tmp_path: Path) -> AsyncIterator[BrokerProcess]:
    async with running_broker(zookeeper, tmp_path) as broker:
        yield broker


@pytest.fixture
async def client(broker: BrokerProcess) -> AsyncIterator[KafkaClient]:
    async with KafkaClient(broker.bootstrap) as client:
        topics = [
            NewTopic(name="t", partitions=1),
            NewTopic(name="compacted", partitions=1, configs={"cleanup.policy": "compact"}),
        ]
        assert set((await client.create_topics(topics)).values()) == {None}
        yield client


async def ask(client: KafkaClient, api: ApiKey, version: int, **fields: Any) -> Any:
    return await client.call(api, fields, node_id=NODE, version_max=version)


async def produce(client: KafkaClient, count: int) -> None:
    for index in range(count):
        records = encode_batch([NewRecord(1000 + index, b"k", b"%d" % index)])
        assert (await produce_once(client, NODE, AT, records)).error == ErrorCode.none


# -- OffsetForLeaderEpoch -------------------------------------------------------------------


async def epoch_end(
    client: KafkaClient, version: int, epoch: int, *, current: int = -1, topic: str = "t"
) -> tuple[ErrorCode, int, int]:
    entry = {"partition": 0, "current_leader_epoch": current, "leader_epoch": epoch}
    answer = await ask(
        client,
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        version,
        replica_id=-1,
        topics=[{"topic": topic, "partitions": [entry]}],
    )
    (told,) = answer.topics[0].partitions
    return told.error_code, told.leader_epoch, told.end_offset


@pytest.mark.parametrize("version", [2, 3, 4])
async def test_offset_for_leader_epoch(
    broker: BrokerProcess, client: KafkaClient, version: int
) -> None:
    none = ErrorCode.none
    first = (await client.metadata(["t"])).topics["t"].partitions[0].leader_epoch
    assert await epoch_end(client, version, first) == (none, first, 0), "nothing is written"
    await produce(client, 3)
    assert await epoch_end(client, version, first) == (none, first, 3)
    assert await epoch_end(client, version, first + 1) == (none, -1, -1), (
        "the epoch is in the future"
    )
    assert await epoch_end(client, version, -1) == (none, -1, -1)
    code = (await epoch_end(client, version, first, current=first + 1))[0]
    assert code == ErrorCode.unknown_leader_epoch
    code = (await epoch_end(client, version, first, topic="absent"))[0]
    assert code == ErrorCode.unknown_topic_or_partition
    await broker.stop()
    await broker.start()
    async with KafkaClient(broker.bootstrap) as again:
        second = (await again.metadata(["t"])).topics["t"].partitions[0].leader_epoch
        assert second > first
        assert await epoch_end(again, version, second) == (none, second, 3), "without a record"
        assert await epoch_end(again, version, first) == (none, first, 3)
        await produce(again, 2)
        assert await epoch_end(again, version, first) == (none, first, 3)
        assert await epoch_end(again, version, second) == (none, second, 5)
        code = (await epoch_end(again, version, first, current=first))[0]
        assert code == ErrorCode.fenced_leader_epoch


# -- ListOffsets ----------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(1, 12))
async def test_list_offsets(client: KafkaClient, version: int) -> None:
    await produce(client, 5)
    await delete(client, 2, 2)

    async def listed(timestamp_ms: int) -> tuple[ErrorCode, int]:
        entry = {"partition_index": 0, "current_leader_epoch": -1, "timestamp": timestamp_ms}
        answer = await ask(
            client,
            ApiKey.LIST_OFFSETS,
            version,
            replica_id=-1,
            isolation_level=0,
            timeout=1_000,
            topics=[{"name": "t", "partitions": [entry]}],
        )
        (told,) = answer.topics[0].partitions
        return told.error_code, told.offset

    none, unsupported = ErrorCode.none, (ErrorCode.unsupported_version, -1)
    assert await listed(-1) == (none, 5)
    assert await listed(-2) == (none, 2)
    assert await listed(1000) == (none, 2)
    assert await listed(-3) == ((none, 4) if version >= 7 else unsupported)
    assert await listed(-4) == ((none, 2) if version >= 8 else unsupported)
    assert await listed(-5) == ((none, -1) if version >= 9 else unsupported)
    assert await listed(-6) == ((none, -1) if version >= 11 else unsupported)
    assert await listed(-7) == unsupported


# -- DeleteRecords --------------------------------------------------------------------------


async def delete(
    client: KafkaClient, version: int, offset: int, topic: str = "t"
) -> tuple[ErrorCode, int]:
    answer = await ask(
        client,
        ApiKey.DELETE_RECORDS,
        version,
        timeout=5_000,
        topics=[{"name": topic, "partitions": [{"partition_index": 0, "offset": offset}]}],
    )
    (told,) = answer.topics[0].partitions
    return told.error_code, told.low_watermark


async def log_start(client: KafkaClient) -> int:
    return (await client.list_offsets({AT: -2}))[AT].offset


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_delete_records(broker: BrokerProcess, client: KafkaClient, version: int) -> None:
    await produce(client, 5)
    assert await delete(client, version, 3) == (ErrorCode.none, 3)
    assert await log_start(client) == 3
    fetched = (await client.fetch(NODE, {AT: FetchPosition(2)}, wait_ms_max=0))[AT]
    assert fetched.error == ErrorCode.offset_out_of_range
    assert await delete(client, version, 1) == (ErrorCode.none, 3), (
        "the log start offset never moves back"
    )
    assert (await delete(client, version, 6))[0] == ErrorCode.offset_out_of_range
    assert (await delete(client, version, -2))[0] == ErrorCode.offset_out_of_range
    code, _ = await delete(client, version, 0, "absent")
    assert code == ErrorCode.unknown_topic_or_partition
    assert (await delete(client, version, 0, "compacted"))[0] == ErrorCode.policy_violation
    await broker.kill()
    await broker.start()
    async with KafkaClient(broker.bootstrap) as again:
        assert await log_start(again) == 3, "a crash does not bring records back"
        assert await delete(again, version, -1) == (ErrorCode.none, 5)
        await produce(again, 1)
        assert (await again.list_offsets({AT: -1}))[AT].offset == 6
    await broker.stop()
    await broker.start()
    async with KafkaClient(broker.bootstrap) as again:
        assert await log_start(again) == 5


async def test_delete_records_by_real_clients(broker: BrokerProcess, client: KafkaClient) -> None:
    await produce(client, 5)

    def by_confluent() -> int:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        asked = [confluent_kafka.TopicPartition("t", 0, 2)]
        (future,) = admin.delete_records(asked).values()
        return int(future.result(20).low_watermark)

    def by_kafka_python() -> None:
        admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
        admin.delete_records({kafka.structs.TopicPartition("t", 0): 4})
        admin.close()

    assert await asyncio.to_thread(by_confluent) == 2
    await asyncio.to_thread(by_kafka_python)
    assert await log_start(client) == 4


# -- DescribeLogDirs, ListPartitionReassignments, DescribeTopicPartitions -------------------


@pytest.mark.parametrize("version", [1, 2, 3, 4, 5])
async def test_describe_log_dirs(broker: BrokerProcess, client: KafkaClient, version: int) -> None:
    await produce(client, 3)
    everything = await ask(client, ApiKey.DESCRIBE_LOG_DIRS, version, topics=None)
    (directory,) = everything.results
    assert (directory.error_code, directory.log_dir) == (ErrorCode.none, str(broker.log_dir))
    sizes = {t.name: [p.partition_size for p in t.partitions] for t in directory.topics}
    assert sizes["t"] == [(broker.log_dir / "t-0" / f"{0:020d}.log").stat().st_size] != [0]
    assert "compacted" in sizes
    if version >= 4:
        assert directory.total_bytes >= directory.usable_bytes > 0
    some = [{"topic": "compacted", "partitions": [0, 7]}, {"topic": "absent", "partitions": [0]}]
    (directory,) = (await ask(client, ApiKey.DESCRIBE_LOG_DIRS, version, topics=some)).results
    assert [t.name for t in directory.topics] == ["compacted"]
    assert [p.partition_index for p in directory.topics[0].partitions] == [0]


async def test_no_partition_is_being_reassigned(client: KafkaClient) -> None:
    answer = await ask(client, ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, topics=None)
    assert (answer.error_code, answer.topics) == (ErrorCode.none, ())


async def test_describe_topic_partitions_page_by_page(client: KafkaClient) -> None:
    assert (await client.create_topics([NewTopic(name="many", partitions=5)]))["many"] is None
    cursor = None
    pages = []
    while True:
        answer = await ask(
            client,
            ApiKey.DESCRIBE_TOPIC_PARTITIONS,
            0,
            topics=[{"name": name} for name in ("t", "many", "absent")],
            response_partition_limit=2,
            cursor=cursor,
        )
        pages.append(
            [
                (t.name, t.error_code, [p.partition_index for p in t.partitions])
                for t in answer.topics
            ]
        )
        if answer.next_cursor is None:
            break
        cursor = {
            "topic_name": answer.next_cursor.topic_name,
            "partition_index": answer.next_cursor.partition_index,
        }
    none = ErrorCode.none
    assert pages == [
        [("absent", ErrorCode.unknown_topic_or_partition, []), ("many", none, [0, 1])],
        [("many", none, [2, 3])],
        [("many", none, [4]), ("t", none, [0])],
    ]
    everything = await ask(
        client, ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, topics=[], response_partition_limit=100
    )
    assert [t.name for t in everything.topics] == ["compacted", "many", "t"]
    assert everything.topics[1].partitions[0].leader_id == NODE


# -- configs --------------------------------------------------------------------------------

TOPIC, BROKER = 2, 4
SET, DELETE, APPEND, SUBTRACT = range(4)


async def overrides(client: KafkaClient, topic: str = "t") -> dict[str, str]:
    fields = {"resources": [{"resource_type": TOPIC, "resource_name": topic}]}
    answer = await client.call(ApiKey.DESCRIBE_CONFIGS, fields, node_id=NODE)
    return {c.name: c.value for c in answer.results[0].configs if c.config_source == 1}


async def alter(
    client: KafkaClient, version: int, configs: dict[str, str | None], **options: Any
) -> ErrorCode:
    resource = {
        "resource_type": options.get("resource_type", TOPIC),
        "resource_name": options.get("topic", "t"),
        "configs": [{"name": name, "value": value} for name, value in configs.items()],
    }
    answer = await ask(
        client,
        ApiKey.ALTER_CONFIGS,
        version,
        resources=[resource] * options.get("times", 1),
        validate_only=options.get("validate_only", False),
    )
    assert len(answer.responses) == options.get("times", 1)
    (code,) = {told.error_code for told in answer.responses}
    return ErrorCode(code)


async def change(
    client: KafkaClient,
    version: int,
    *changes: tuple[str, int, str | None],
    topic: str = "t",
    validate_only: bool = False,
) -> ErrorCode:
    configs = [{"name": n, "config_operation": op, "value": v} for n, op, v in changes]
    answer = await ask(
        client,
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        version,
        resources=[{"resource_type": TOPIC, "resource_name": topic, "configs": configs}],
        validate_only=validate_only,
    )
    return ErrorCode(answer.responses[0].error_code)


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_alter_configs_replaces(
    broker: BrokerProcess, client: KafkaClient, version: int
) -> None:
    none = ErrorCode.none
    assert await alter(client, version, {"retention.ms": "5", "max.message.bytes": "100"}) == none
    assert await overrides(client) == {"retention.ms": "5", "max.message.bytes": "100"}
    big = encode_batch([NewRecord(1000, b"k", b"x" * 200)])
    assert (await produce_once(client, NODE, AT, big)).error == ErrorCode.message_too_large
    assert await alter(client, version, {"segment.ms": "9"}, validate_only=True) == none
    assert len(await overrides(client)) == 2, "validate_only changes nothing"
    assert await alter(client, version, {"segment.ms": "9"}) == none
    assert await overrides(client) == {"segment.ms": "9"}
    assert (await produce_once(client, NODE, AT, big)).error == none
    refusals = [
        (await alter(client, version, {"no.such": "1"}), ErrorCode.invalid_config),
        (await alter(client, version, {"retention.ms": "soon"}), ErrorCode.invalid_config),
        (await alter(client, version, {"retention.ms": None}), ErrorCode.invalid_request),
        (await alter(client, version, {}, topic="?"), ErrorCode.invalid_topic_exception),
        (
            await alter(client, version, {}, topic="absent"),
            ErrorCode.unknown_topic_or_partition,
        ),
        (await alter(client, version, {}, resource_type=BROKER), ErrorCode.invalid_request),
        (await alter(client, version, {}, times=2), ErrorCode.invalid_request),
    ]
    assert [told for told, _ in refusals] == [wanted for _, wanted in refusals]
    await broker.kill()
    await broker.start()
    async with KafkaClient(broker.bootstrap) as again:
        assert await overrides(again) == {"segment.ms": "9"}


@pytest.mark.parametrize("version", [0, 1])
async def test_incremental_alter_configs(client: KafkaClient, version: int) -> None:
    none = ErrorCode.none
    assert await change(client, version, ("retention.ms", SET, "5")) == none
    assert await change(client, version, ("cleanup.policy", APPEND, "compact")) == none
    assert await overrides(client) == {"retention.ms": "5", "cleanup.policy": "delete,compact"}
    assert (
        await change(
            client,
            version,
            ("retention.ms", DELETE, None),
            ("cleanup.policy", SUBTRACT, "delete"),
            validate_only=True,
        )
        == none
    )
    assert len(await overrides(client)) == 2
    assert (
        await change(
            client, version, ("retention.ms", DELETE, None), ("cleanup.policy", SUBTRACT, "delete")
        )
        == none
    )
    assert await overrides(client) == {"cleanup.policy": "compact"}
    assert await change(client, version, ("retention.ms", APPEND, "5")) == ErrorCode.invalid_config
    assert await change(client, version, ("retention.ms", 9, "5")) == ErrorCode.invalid_request
    assert await change(client, version, ("retention.ms", SET, None)) == ErrorCode.invalid_request
    assert (
        await change(client, version, ("retention.ms", SET, "5"), topic="absent")
        == ErrorCode.unknown_topic_or_partition
    )


async def test_clients_that_change_one_topic_at_once_both_succeed(client: KafkaClient) -> None:
    names = ["retention.ms", "segment.ms", "flush.ms", "segment.jitter.ms"]
    errors = await asyncio.gather(*(change(client, 1, (name, SET, "7")) for name in names))
    assert set(errors) == {ErrorCode.none}
    assert await overrides(client) == dict.fromkeys(names, "7")


async def test_configs_by_librdkafka(broker: BrokerProcess, client: KafkaClient) -> None:
    def change_it() -> None:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        entry = ConfigEntry(
            "retention.ms",
            "77",
            incremental_operation=AlterConfigOpType.SET,
        )
        resource = ConfigResource(ResourceType.TOPIC, "t", incremental_configs=[entry])
        (future,) = admin.incremental_alter_configs([resource]).values()
        future.result(20)

    await asyncio.to_thread(change_it)
    assert await overrides(client) == {"retention.ms": "77"}


# -- OffsetDelete ---------------------------------------------------------------------------


async def test_offset_delete_by_librdkafka_while_a_member_is_there(
    broker: BrokerProcess, client: KafkaClient
) -> None:
    async def delete_offsets(topic: str) -> tuple[ErrorCode, ErrorCode | None]:
        asked = [{"name": topic, "partitions": [{"partition_index": 0}]}]
        answer = await client.call_coordinator(
            "g", ApiKey.OFFSET_DELETE, {"group_id": "g", "topics": asked}
        )
        codes = [p.error_code for t in answer.topics for p in t.partitions]
        return answer.error_code, codes[0] if codes else None

    def subscribe() -> confluent_kafka.Consumer:
        consumer = confluent_kafka.Consumer(
            {"bootstrap.servers": broker.bootstrap, "group.id": "g", "enable.auto.commit": False}
        )
        for topic in ("t", "compacted"):
            consumer.commit(
                offsets=[confluent_kafka.TopicPartition(topic, 0, 4)], asynchronous=False
            )
        consumer.subscribe(["t"])
        while not consumer.assignment():
            consumer.poll(0.1)
        return consumer

    assert await delete_offsets("t") == (ErrorCode.group_id_not_found, None)
    async with asyncio.timeout(60):
        consumer = await asyncio.to_thread(subscribe)
        none = ErrorCode.none
        assert await delete_offsets("t") == (none, ErrorCode.group_subscribed_to_topic)
        assert await delete_offsets("compacted") == (none, none)
        assert await delete_offsets("absent") == (none, ErrorCode.unknown_topic_or_partition)
        await asyncio.to_thread(consumer.close)
        assert await delete_offsets("t") == (none, none)
