"""Retries of a producer: acknowledged only when committed, and known to the next leader."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from local_cluster.client.client import KafkaClient
from local_cluster.client.model import NewTopic, ProducedPartition, TopicPartition
from local_cluster.records.batch import NewRecord, encode_batch
from local_cluster.wire.errors import ErrorCode, KafkaError
from tests.support.producing import produce_once
from tests.support.replicas import (
    bootstrap,
    end_offset,
    eventually,
    leader_of,
    partition_of,
    running_cluster,
    until_known,
)

pytestmark = pytest.mark.real

AT = TopicPartition("t", 0)
SHORT_MS = 300
"""Of a request that cannot be committed; well below replica.lag.time.max.ms."""


class Sequences:
    """The batches of one idempotent producer, with one record each; any may be sent again."""

    def __init__(self, client: KafkaClient, producer_id: int, leader: int) -> None:
        self.leader = leader
        self._client = client
        self._producer_id = producer_id

    async def send(
        self, sequence: int, *, epoch: int = 0, timeout_ms: int = 5_000
    ) -> ProducedPartition:
        records = encode_batch(
            [NewRecord(0, None, b"%d.%d" % (epoch, sequence))],
            producer_id=self._producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
        )
        return await produce_once(self._client, self.leader, AT, records, timeout_ms=timeout_ms)

    async def offset(self, sequence: int, *, epoch: int = 0) -> int:
        """Return the acknowledged offset."""
        answer = await self.send(sequence, epoch=epoch)
        assert answer.error is ErrorCode.none, answer
        return answer.base_offset

    async def is_acknowledged(self, sequence: int) -> bool:
        with contextlib.suppress(KafkaError):
            return (await self.send(sequence)).error is ErrorCode.none
        return False


async def test_a_retry_waits_for_its_commit_and_survives_the_leader(
    zookeeper: str, tmp_path: Path
) -> None:
    async with (
        running_cluster(zookeeper, tmp_path) as brokers,
        KafkaClient(bootstrap(brokers)) as client,
    ):
        await client.create_topics([NewTopic(name="t", partitions=1)])
        await until_known(brokers, client, "t")
        leader = await leader_of(brokers, client, "t")
        followers = [broker for broker in brokers if broker is not leader]
        producer_id, _ = await client.init_producer_id()
        producer = Sequences(client, producer_id, leader.settings.broker_id)
        assert await producer.offset(0) == 0
        async with KafkaClient(leader.bootstrap) as alone:
            lonely = Sequences(alone, producer_id, leader.settings.broker_id)
            await lonely.offset(0)  # it is connected
            for broker in followers:
                broker.pause()
            try:
                for _ in range(2):
                    answer = await lonely.send(1, timeout_ms=SHORT_MS)
                    assert answer.error in {
                        ErrorCode.request_timed_out,
                        # The followers may have left the ISR by then.
                        ErrorCode.not_enough_replicas_after_append,
                        ErrorCode.not_enough_replicas,
                    }
                assert end_offset(leader, "t") <= 2, "written once at most"
            finally:
                for broker in followers:
                    broker.resume()
        await eventually(lambda: producer.is_acknowledged(1))
        assert await producer.offset(1) == 1
        assert await producer.offset(2) == 2

        assert await leader.stop() == 0

        async def leads_elsewhere() -> bool:
            with contextlib.suppress(KafkaError):
                producer.leader = (await partition_of(client, "t")).leader
            return producer.leader != leader.settings.broker_id and (
                await producer.is_acknowledged(2)
            )

        await eventually(leads_elsewhere)
        assert [await producer.offset(sequence) for sequence in range(3)] == [0, 1, 2]
        assert (await producer.send(4)).error is ErrorCode.out_of_order_sequence_number
        assert await producer.offset(3) == 3
        # The client raised the epoch by itself: its retries are new batches to any broker.
        assert (await producer.send(3, epoch=1)).error is ErrorCode.out_of_order_sequence_number
        assert await producer.offset(0, epoch=1) == 4
        assert (await producer.send(3)).error is ErrorCode.invalid_producer_epoch
