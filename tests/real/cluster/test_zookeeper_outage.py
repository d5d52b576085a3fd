"""ZooKeeper goes away under three brokers: what is in sync goes on, and all recovers by itself."""

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
        assert len(producer.errors) == before, "all three are in sync, and nobody said otherwise"
        # A follower dies: nobody can write the ISR without it, so a record waits for its whole
        # time, and nothing is acknowledged but one that the follower had fetched before.
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
        # The controller takes it out of the ISR when its session is over, and producing goes on.
        await producer.advance(20)
        assert len(producer.acknowledged) > acknowledged
        await follower.start()
        await eventually(lambda: all_in_sync(client, "t"))
        # And what needs ZooKeeper works as before: another leader is elected.
        await (await leader_of(brokers, client, "t")).stop()
        await producer.advance(20)
        await producer.stop()
        values = [record.value async for record in read_topic(client, "t")]
        assert values == producer.acknowledged
