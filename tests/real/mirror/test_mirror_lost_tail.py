"""A broker still knows the mirror's producer when retention has deleted all its records."""

from __future__ import annotations

from pathlib import Path

import pytest

from local_cluster.client.auth.security import ClientSecurity
from local_cluster.client.model import NewTopic, TopicPartition
from local_cluster.records.batch import NewRecord, encode_batch
from local_cluster.wire.api import ApiKey
from mirror_maker.clusters.cluster_client import MirrorClient
from mirror_maker.model import DescribedProducer
from tests.support.cluster import running_broker
from tests.support.producing import produce_once

pytestmark = pytest.mark.real

AT = TopicPartition("t", 0)


async def test_our_last_sequence_outlives_our_records(zookeeper: str, tmp_path: Path) -> None:
    async with (
        running_broker(zookeeper, tmp_path) as broker,
        MirrorClient(broker.bootstrap, client_id="m", security=ClientSecurity()) as client,
    ):
        assert await client.create_topics([NewTopic(name=AT.topic)]) == {AT.topic: None}
        leader = (await client.metadata([AT.topic])).topics[AT.topic].partitions[0].leader
        producer_id, epoch = await client.init_producer_id()
        assert await client.describe_producer(leader, AT, producer_id) is None
        records = [NewRecord(1_000, b"k", b"v")] * 3
        batch = encode_batch(
            records, producer_id=producer_id, producer_epoch=epoch, base_sequence=0
        )
        assert not (await produce_once(client, leader, AT, batch)).error
        partition = {"partition_index": AT.partition, "offset": -1}
        await client.call(
            ApiKey.DELETE_RECORDS,
            {"topics": [{"name": AT.topic, "partitions": [partition]}], "timeout": 10_000},
            node_id=leader,
        )
        assert (await client.list_offsets({AT: -2}))[AT].offset == 3
        described = await client.describe_producer(leader, AT, producer_id)
        assert described == DescribedProducer(epoch, last_sequence=2, last_timestamp_ms=1_000)
