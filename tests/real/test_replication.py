"""Three real brokers, every partition on each of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from local_cluster.client.client import KafkaClient
from local_cluster.client.model import NewTopic, TopicPartition
from local_cluster.client.reader import read_topic
from local_cluster.records.batch import NewRecord, encode_batch
from local_cluster.wire.errors import ErrorCode
from tests.replicas import (
    bootstrap,
    end_offset,
    partition_of,
    replicas_are_equal,
    running_cluster,
)

pytestmark = pytest.mark.real

AT = TopicPartition("t", 0)


def batch(*values: bytes) -> bytearray:
    return encode_batch([NewRecord(index, None, value) for index, value in enumerate(values)])


async def test_an_acknowledged_record_is_on_every_replica(zookeeper: str, tmp_path: Path) -> None:
    async with (
        running_cluster(zookeeper, tmp_path) as brokers,
        KafkaClient(bootstrap(brokers)) as client,
    ):
        assert await client.create_topics([NewTopic(name="t", partitions=3)]) == {"t": None}
        state = await partition_of(client, "t")
        assert sorted(state.replicas) == sorted(state.isr) == [1, 2, 3]
        for index in range(20):
            answer = (await client.produce(state.leader, {AT: batch(b"%d" % index)}))[AT]
            assert (answer.error, answer.base_offset) == (ErrorCode.none, index)
            # In sync are all three: acknowledged means that all of them have it.
            assert [end_offset(broker, "t") for broker in brokers] == [index + 1] * 3
        values = [record.value async for record in read_topic(client, "t")]
        assert values == [b"%d" % index for index in range(20)]
        await replicas_are_equal(brokers, "t")
