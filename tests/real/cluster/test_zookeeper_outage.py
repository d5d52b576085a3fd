"""ZooKeeper stops under three brokers: in-sync partitions stay writable, and all recovers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from local_cluster.client.client import KafkaClient
from local_cluster.client.model import NewTopic
from local_cluster.client.reader import read_topic
from local_cluster.wire.errors import ErrorCode
from tests.support.replicas import (
    IdempotentProducer,
    all_in_sync,
    bootstrap,
    eventually,
    leader_of,
    running_cluster,
)
from tests.support.zookeeper_process import ZooKeeperProcess

pytestmark = pytest.mark.real


@pytest.fixture
def own_zookeeper(tmp_path: Path) -> Iterator[ZooKeeperProcess]:
    process = ZooKeeperProcess(tmp_path / "zookeeper")
    yield process
    process.kill()


async def test_producing_goes_on_without_zookeeper(
    own_zookeeper: ZooKeeperProcess, tmp_path: Path
) -> None:
    async with (
        running_cluster(own_zookeeper.server.connect, tmp_path) as brokers,
        KafkaClient(bootstrap(brokers)) as client,
    ):
        await client.create_topics([NewTopic(name="t", partitions=1)])
        producer = IdempotentProducer(bootstrap(brokers), "t")
        await producer.advance(20)
        leader = await leader_of(brokers, client, "t")
        own_zookeeper.kill()
        before = len(producer.errors)
        await producer.advance(200)
        assert len(producer.errors) == before, "all three are in sync, and none was removed"
        # A follower dies: without ZooKeeper the ISR cannot shrink, so a record waits until its
        # timeout. Only a record that the follower had fetched before may be acknowledged.
        follower = next(broker for broker in brokers if broker is not leader)
        await follower.kill()
        acknowledged, refused = len(producer.acknowledged), len(producer.errors)
        await eventually(
            lambda: (
                ErrorCode.request_timed_out in producer.errors[refused:]
                or len(producer.acknowledged) > acknowledged + 1
            )
        )
        assert len(producer.acknowledged) <= acknowledged + 1
        own_zookeeper.start()
        # When its session ends, the controller shrinks the ISR, and producing continues.
        await producer.advance(20)
        assert len(producer.acknowledged) > acknowledged
        await follower.start()
        await eventually(lambda: all_in_sync(client, "t"))
        # Operations that need ZooKeeper work again: another leader is elected.
        await (await leader_of(brokers, client, "t")).stop()
        await producer.advance(20)
        await producer.stop()
        values = [record.value async for record in read_topic(client, "t")]
        assert values == producer.acknowledged
