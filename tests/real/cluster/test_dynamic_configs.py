"""Broker configs that change while brokers run, on real processes."""

from __future__ import annotations

from pathlib import Path

import pytest

from local_cluster.client.admin.configs import alter_configs, describe_configs
from local_cluster.client.client import KafkaClient
from local_cluster.client.model import ConfigChange, NewTopic, TopicPartition
from local_cluster.records.batch import NewRecord, encode_batch
from local_cluster.wire.constants import AlterOperation, ConfigResourceType, ConfigSource
from local_cluster.wire.errors import ErrorCode, KafkaError
from tests.support.cluster import running_broker
from tests.support.producing import produce_once
from tests.support.replicas import bootstrap, eventually, partition_of, running_cluster

pytestmark = pytest.mark.real

ALL = ""
AT = TopicPartition("t", 0)
BIG = encode_batch([NewRecord(1_700_000_000_000, b"k", b"x" * 5_000)])
SMALL = encode_batch([NewRecord(1_700_000_000_000, b"k", b"x")])


async def alter(client: KafkaClient, broker: str, name: str, value: str | None) -> None:
    """Set a config of a broker, or of all; None deletes it."""
    operation = AlterOperation.DELETE if value is None else AlterOperation.SET
    change = ConfigChange(name, operation, value)
    await alter_configs(client, ConfigResourceType.BROKER, broker, [change])


async def test_message_sizes_and_retention_change_at_run_time(
    zookeeper: str, tmp_path: Path
) -> None:
    config = {"log.retention.check.interval.ms": "100"}
    async with running_broker(zookeeper, tmp_path, config=config) as broker:
        async with KafkaClient(broker.bootstrap) as client:
            configs = {"internal.segment.bytes": "6000", "retention.ms": "-1"}
            await client.create_topics([NewTopic(name="t", partitions=1, configs=configs)])

            async def answer(batch: bytearray) -> ErrorCode:
                return ErrorCode((await produce_once(client, 1, AT, batch)).error)

            assert await answer(BIG) == ErrorCode.none
            await alter(client, ALL, "message.max.bytes", "1000")
            assert await answer(BIG) == ErrorCode.message_too_large
            await alter(client, "1", "message.max.bytes", "2000000")
            assert [await answer(BIG) for _ in range(9)] == [ErrorCode.none] * 9

            first = broker.log_dir / "t-0" / f"{0:020}.log"
            assert first.exists()
            await alter(client, "1", "log.retention.bytes", "15000")
            await eventually(lambda: not first.exists())

            await alter(client, "1", "message.max.bytes", None)
            with pytest.raises(KafkaError, match="Cannot update these configs dynamically"):
                await alter(client, "1", "auto.create.topics.enable", "false")
        await broker.kill()
        await broker.start()
        async with KafkaClient(broker.bootstrap) as client:
            assert await answer(BIG) == ErrorCode.message_too_large, "it outlives the process"
            described = {
                entry.name: (entry.value, entry.source)
                for entry in await describe_configs(client, ConfigResourceType.BROKER, "1")
            }
            assert described["message.max.bytes"] == ("1000", ConfigSource.DYNAMIC_DEFAULT_BROKER)
            assert described["log.retention.bytes"] == ("15000", ConfigSource.DYNAMIC_BROKER)
        assert "message.max.bytes is 1000, was the default" in broker.log_text()


async def test_in_sync_replicas_and_unclean_elections_change_at_run_time(
    zookeeper: str, tmp_path: Path
) -> None:
    async with running_cluster(zookeeper, tmp_path, brokers=2) as brokers:
        leader, follower = brokers
        node_id = follower.settings.broker_id
        async with KafkaClient(bootstrap(brokers)) as client:
            replicas = {0: (leader.settings.broker_id, node_id)}
            await client.create_topics([NewTopic(name="t", assignments=replicas)])
            await follower.kill()
            await eventually(lambda: is_alone(client))
            expected = {"1": ErrorCode.none, "2": ErrorCode.not_enough_replicas}
            for replicas_min, error in expected.items():
                await alter(client, ALL, "min.insync.replicas", replicas_min)
                answer = await produce_once(client, leader.settings.broker_id, AT, SMALL)
                assert answer.error == error
        await leader.kill()
        await follower.start()
        async with KafkaClient(follower.bootstrap) as client:
            await eventually(lambda: leads(client, -1, never=node_id))
            await alter(client, ALL, "unclean.leader.election.enable", "true")
            await eventually(lambda: leads(client, node_id))


async def is_alone(client: KafkaClient) -> bool:
    return len((await partition_of(client, "t")).isr) == 1


async def leads(client: KafkaClient, node_id: int, *, never: int | None = None) -> bool:
    """Whether this broker leads. `never` must not lead meanwhile."""
    topic = (await client.metadata(["t"])).topics["t"]
    found = topic.partitions[0].leader if topic.partitions else None
    assert never is None or found != never
    return found == node_id
