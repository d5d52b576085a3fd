"""The client of an in-memory cluster with Kafka's rules for idempotent producers.

`SimCluster` is the state: logs, high watermarks, producer states, leaders. `SimClient` is the
client of one process: the methods of `KafkaClient`, with delays, lost requests and lost responses
that a seeded `Network` decides. Its layers are the mirror's ports, in a file each: connections
(`network`), `LogReader` (`reader`), `DataSource` (`source`), `DataSink` (here).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from local_cluster.client.model import NewTopic, ProducedPartition, TopicPartition
from local_cluster.client.produce_batches import ProduceBatches
from local_cluster.records.batch import decode_batch
from local_cluster.records.header import read_header
from local_cluster.wire.errors import ErrorCode, KafkaError
from mirror_maker.model import DescribedProducer
from tests.sim.kafka_double.log import SimPartition
from tests.sim.kafka_double.source import SimSource


class SimClient(SimSource):
    """A client of one process, on one connection per broker."""

    async def produce(
        self,
        node_id: int,
        batches: ProduceBatches,
        *,
        acks: int = -1,
        timeout_ms: int = 30_000,
    ) -> dict[TopicPartition, ProducedPartition]:
        answer: dict[TopicPartition, ProducedPartition] = {}
        waiting: list[tuple[SimPartition, int]] = []
        # The bytes at the time of sending: the process may change its buffer later.
        sent = {at: bytes(batch) for at, batch in batches.items()}

        def apply() -> None:
            loop = asyncio.get_running_loop()
            for at, batch in sent.items():
                try:
                    partition = self._cluster.find(at, node_id)
                    refusal = self._cluster.refuse(at, read_header(batch))
                    if at.topic in self._cluster.hidden:
                        refusal = ErrorCode.topic_authorization_failed
                    if refusal is None and not at.topic.endswith(".internal"):
                        records = decode_batch(batch, 0, read_header(batch))
                        refusal = self._cluster.refuse_records(records)
                    if refusal is not None:
                        raise KafkaError(refusal, "refused by the test")
                    base_offset, repeated = partition.append(batch)
                except KafkaError as error:
                    answer[at] = ProducedPartition(error.code, -1, -1, -1, error.message)
                    continue
                answer[at] = ProducedPartition(ErrorCode.none, base_offset, -1, 0, None)
                end = base_offset + read_header(batch).records_count
                waiting.append((partition, end))
                if not repeated:
                    delay_s = self._network.random.uniform(0, self._network.commit_delay_ms_max)
                    loop.call_later(delay_s / 1000, partition.commit, end)

        await self._exchange(node_id, apply, detached=True)
        for partition, end in waiting:
            while partition.high_watermark < end:
                await partition.committed.wait()
        self._step()
        return answer

    async def delete_records(self, node_id: int, at: TopicPartition, before_offset: int) -> None:
        refusals: list[KafkaError] = []

        def apply() -> None:
            try:
                self._cluster.find(at, node_id).delete_below(before_offset)
            except KafkaError as error:
                refusals.append(error)

        await self._exchange(node_id, apply, detached=False)
        for refusal in refusals:
            raise refusal

    async def init_producer_id(self) -> tuple[int, int]:
        answer: list[int] = []

        def apply() -> None:
            answer.append(self._cluster.next_producer_id)
            self._cluster.next_producer_id += 1

        await self._exchange(0, apply, detached=False)
        return answer[0], 0

    async def announce_producer(self, producer_id: int, producer_epoch: int) -> None:
        """Kafka ignores it."""

    async def describe_producer(
        self, node_id: int, at: TopicPartition, producer_id: int
    ) -> DescribedProducer | None:
        answer: list[DescribedProducer | KafkaError | None] = []

        def apply() -> None:
            try:
                state = self._cluster.find(at, node_id).producers.get(producer_id)
            except KafkaError as error:
                answer.append(error)
                return
            if state is None:
                answer.append(None)
                return
            last = state.batches[-1][1]
            answer.append(DescribedProducer(state.epoch, last, state.last_timestamp_ms))

        await self._exchange(node_id, apply, detached=False)
        if isinstance(answer[0], KafkaError):
            raise answer[0]
        return answer[0]

    async def create_topics(
        self, topics: Sequence[NewTopic], *, timeout_ms: int = 30_000
    ) -> dict[str, KafkaError | None]:
        answer: dict[str, KafkaError | None] = {}

        def apply() -> None:
            for topic in topics:
                if topic.name in self._cluster.topics:
                    answer[topic.name] = KafkaError(ErrorCode.topic_already_exists, topic.name)
                else:
                    self._cluster.create(topic.name, topic.partitions, topic.configs)
                    answer[topic.name] = None

        await self._exchange(0, apply, detached=False)
        return answer

    async def create_partitions(
        self, counts: Mapping[str, int], *, timeout_ms: int = 30_000
    ) -> dict[str, KafkaError | None]:
        answer: dict[str, KafkaError | None] = {}

        def apply() -> None:
            for name, count in counts.items():
                if name not in self._cluster.topics:
                    answer[name] = KafkaError(ErrorCode.unknown_topic_or_partition, name)
                    continue
                partitions = self._cluster.topics[name].partitions
                while len(partitions) < count:
                    at = TopicPartition(name, len(partitions))
                    self._cluster.leaders[at] = at.partition % self._cluster.brokers
                    partitions.append(SimPartition())
                answer[name] = None

        await self._exchange(0, apply, detached=False)
        return answer
