"""A simulated cluster's logs, topics and configs, read as `LogReader` says."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Mapping, Sequence

from local_cluster.client.fetching import fetch_all
from local_cluster.client.model import (
    BrokerAddress,
    ClusterMetadata,
    FetchedPartition,
    FetchPosition,
    ListedOffset,
    PartitionMetadata,
    SessionAnswer,
    TopicConfigs,
    TopicMetadata,
    TopicPartition,
)
from local_cluster.wire.constants import READ_COMMITTED
from local_cluster.wire.errors import ErrorCode, KafkaError
from local_cluster.wire.fetch import NO_SESSION
from tests.sim.kafka_double.log import SimPartition
from tests.sim.kafka_double.network import SimConnections


class SimReader(SimConnections):
    """Reads without a session."""

    async def metadata(
        self,
        topics: Sequence[str] | None = None,
        *,
        allow_auto_topic_creation: bool = False,
        last: ClusterMetadata | None = None,
    ) -> ClusterMetadata:
        answer: list[ClusterMetadata] = []
        await self._exchange(0, lambda: answer.append(self._describe(topics)), detached=False)
        if last is not None and last.topics == answer[0].topics:
            return answer[0]._replace(topics=last.topics)
        return answer[0]

    def _describe(self, names: Sequence[str] | None) -> ClusterMetadata:
        cluster = self._cluster
        topics: dict[str, TopicMetadata] = {}
        shown = [name for name in cluster.topics if name not in cluster.hidden]
        for name in shown if names is None else names:
            topic = cluster.topics.get(name)
            if name in cluster.hidden:
                error = ErrorCode.topic_authorization_failed
                topics[name] = TopicMetadata(name, None, error, False, {})
                continue
            if topic is None:
                error = ErrorCode.unknown_topic_or_partition
                topics[name] = TopicMetadata(name, None, error, False, {})
                continue
            partitions = {
                index: PartitionMetadata(
                    index,
                    *cluster.leader_and_epoch(TopicPartition(name, index)),
                    (0,),
                    (0,),
                    ErrorCode.none,
                )
                for index in range(len(topic.partitions))
            }
            topics[name] = TopicMetadata(name, topic.topic_id, ErrorCode.none, False, partitions)
        brokers = {node: BrokerAddress(node, "sim", node) for node in range(cluster.brokers)}
        return ClusterMetadata(cluster.name, 0, brokers, topics)

    async def list_offsets(
        self, timestamps: Mapping[TopicPartition, int], *, isolation_level: int = 0
    ) -> dict[TopicPartition, ListedOffset]:
        answer: dict[TopicPartition, ListedOffset] = {}

        def apply() -> None:
            for at, timestamp in timestamps.items():
                leader = self._cluster.leaders.get(at, 0)
                answer[at] = self._list_offset(leader, at, timestamp)

        await self._exchange(0, apply, detached=False)
        return answer

    async def list_offsets_of(
        self, node_id: int, timestamps: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, ListedOffset]:
        answer: dict[TopicPartition, ListedOffset] = {}

        def apply() -> None:
            for at, timestamp in timestamps.items():
                answer[at] = self._list_offset(node_id, at, timestamp)

        await self._exchange(node_id, apply, detached=False)
        return answer

    def _list_offset(self, node_id: int, at: TopicPartition, timestamp: int) -> ListedOffset:
        try:
            partition = self._cluster.find(at, node_id)
        except KafkaError as error:
            return ListedOffset(error.code, -1, -1, -1)
        offset = partition.log_start_offset
        if timestamp == -1:
            if partition.lags:
                return ListedOffset(ErrorCode.offset_not_available, -1, -1, -1)
            offset = partition.high_watermark
        elif timestamp >= 0:
            offset = partition.first_offset_of(timestamp)
        epoch = partition.leader_epoch if self._cluster.tracks_leader_epochs else 0
        return ListedOffset(ErrorCode.none, offset, -1, epoch)

    async def fetch(
        self,
        node_id: int,
        positions: Mapping[TopicPartition, FetchPosition],
        *,
        wait_ms_max: int = 500,
        bytes_min: int = 1,
        bytes_max: int = 52_428_800,
        partition_bytes_max: int = 1_048_576,
        isolation_level: int = 0,
    ) -> dict[TopicPartition, FetchedPartition]:
        return await fetch_all(
            positions.keys(),
            lambda: self._fetch_once(
                node_id, positions, wait_ms_max, partition_bytes_max, isolation_level
            ),
        )

    async def _fetch_once(
        self,
        node_id: int,
        positions: Mapping[TopicPartition, FetchPosition],
        wait_ms_max: int,
        partition_bytes_max: int,
        isolation_level: int,
    ) -> SessionAnswer:
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + wait_ms_max / 1000
        while True:
            answer: dict[TopicPartition, FetchedPartition] = {}
            throttled_ms: list[int] = []

            def apply(
                into: dict[TopicPartition, FetchedPartition] = answer,
                throttled_ms: list[int] = throttled_ms,
            ) -> None:
                throttled_ms.append(self._cluster.throttle_ms())
                if throttled_ms[0]:
                    return
                for at, position in positions.items():
                    into[at] = self._read(
                        node_id,
                        at,
                        position,
                        partition_bytes_max,
                        committed_only=isolation_level == READ_COMMITTED,
                    )

            await self._exchange(node_id, apply, detached=False)
            if (
                throttled_ms[0]
                or loop.time() >= deadline_s
                or any(
                    entry.error or entry.diverging_epoch or len(entry.records)
                    for entry in answer.values()
                )
            ):
                return SessionAnswer(NO_SESSION, throttled_ms[0], answer)
            await asyncio.sleep(0.01)

    def _find_readable(self, node_id: int, at: TopicPartition) -> SimPartition:
        """Return the partition. Raises KafkaError as the broker would."""
        if at.topic in self._cluster.denied or at.topic in self._cluster.hidden:
            raise KafkaError(ErrorCode.topic_authorization_failed, str(at))
        return self._cluster.find(at, node_id)

    def _read(
        self,
        node_id: int,
        at: TopicPartition,
        position: FetchPosition,
        bytes_max: int,
        *,
        committed_only: bool = True,
    ) -> FetchedPartition:
        offset = position.offset
        try:
            partition = self._find_readable(node_id, at)
        except KafkaError as error:
            return FetchedPartition(error.code, -1, -1, -1, (), memoryview(b""))
        code = ErrorCode.none
        if self._cluster.tracks_leader_epochs and position.leader_epoch >= 0:
            if position.leader_epoch < partition.leader_epoch:
                code = ErrorCode.fenced_leader_epoch
            elif position.leader_epoch > partition.leader_epoch:
                code = ErrorCode.unknown_leader_epoch
            if code:
                return FetchedPartition(code, -1, -1, -1, (), memoryview(b""))
        if not partition.log_start_offset <= offset <= partition.log_end_offset:
            code = ErrorCode.offset_out_of_range
        diverging = None
        if position.last_fetched_epoch >= 0 and offset >= partition.log_start_offset:
            diverging = partition.divergence(offset, position.last_fetched_epoch)
        if diverging is not None:
            end = partition.high_watermark
            return FetchedPartition(
                ErrorCode.none, end, end, partition.log_start_offset, (), memoryview(b""), diverging
            )
        records = (
            memoryview(b"")
            if code
            else partition.read(offset, bytes_max, committed_only=committed_only)
        )
        aborted = tuple(
            (producer_id, first) for producer_id, first, last in partition.aborted if last >= offset
        )
        end, stable_end = partition.high_watermark, partition.stable_end
        return FetchedPartition(code, end, stable_end, partition.log_start_offset, aborted, records)

    async def describe_topic_configs(self, names: Sequence[str]) -> dict[str, TopicConfigs]:
        configs: dict[str, TopicConfigs] = {}
        for name, answer in (await self.ask_topic_configs(names)).items():
            if isinstance(answer, KafkaError):
                raise answer
            configs[name] = answer
        return configs

    async def ask_topic_configs(self, names: Sequence[str]) -> dict[str, TopicConfigs | KafkaError]:
        answers: dict[str, TopicConfigs | KafkaError] = {}

        def apply() -> None:
            for name in names:
                if name in self._cluster.denied:
                    answers[name] = KafkaError(ErrorCode.topic_authorization_failed, name)
                    continue
                topic = self._cluster.topics.get(name)
                if topic is None:
                    answers[name] = KafkaError(ErrorCode.unknown_topic_or_partition, name)
                    continue
                answers[name] = {key: (value, False) for key, value in topic.configs.items()}

        await self._exchange(0, apply, detached=False)
        return answers

    async def topic_ids(self, node_id: int, names: Sequence[str]) -> dict[str, uuid.UUID]:
        answer: dict[str, uuid.UUID] = {}

        def apply() -> None:
            topics = self._cluster.topics
            shown = topics.keys() - self._cluster.hidden
            answer.update({name: topics[name].topic_id for name in names if name in shown})

        # Not after a long poll: the mirror uses another connection.
        await self._exchange(-1 - node_id, apply, detached=False)
        return answer
