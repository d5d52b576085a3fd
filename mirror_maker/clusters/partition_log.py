"""One partition of one cluster, read and asked at the leader that discovery found. Shell."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from local_cluster.client.model import (
    FetchedPartition,
    FetchPosition,
    TopicConfigs,
    TopicPartition,
)
from local_cluster.wire.constants import READ_UNCOMMITTED
from local_cluster.wire.errors import ErrorCode, KafkaError
from mirror_maker.clusters.log_offsets import LogOffsets
from mirror_maker.model import DescribedProducer
from mirror_maker.ports import DataSink, LogReader

FETCH_BYTES_DEFAULT: Final = 1_048_576

LeaderOf = Callable[[TopicPartition], int | None]


class PartitionLog:
    """One partition's log. Methods raise KafkaError, also if the leader is unknown."""

    def __init__(
        self, at: TopicPartition, reader: LogReader, offsets: LogOffsets, leader_of: LeaderOf
    ) -> None:
        self.at = at
        self._reader = reader
        self._offsets = offsets
        self._leader_of = leader_of

    @property
    def known_leader(self) -> int | None:
        return self._leader_of(self.at)

    def leader(self) -> int:
        leader = self.known_leader
        if leader is None or leader < 0:
            raise KafkaError(ErrorCode.leader_not_available, str(self.at))
        return leader

    async def first(self) -> int:
        """Return the log start offset."""
        return await self._offsets.first(self.at)

    async def end(self) -> int:
        """Return the high watermark."""
        return await self._offsets.end(self.at)

    async def bounds(self) -> tuple[int, int]:
        """Return (log start offset, high watermark), asked in this order."""
        return await self._offsets.bounds(self.at)

    async def at_time(self, timestamp_ms: int) -> int:
        """Return the offset of the first record at or after a time; -1 if there is none."""
        return await self._offsets.at_time(self.at, timestamp_ms)

    async def fetch(
        self,
        offset: int,
        *,
        bytes_max: int = FETCH_BYTES_DEFAULT,
        isolation_level: int = READ_UNCOMMITTED,
        last_fetched_epoch: int = -1,
    ) -> FetchedPartition:
        """Fetch from an offset without waiting. The caller checks `error` of the answer.

        With the epoch of the record before `offset` the answer may have a diverging epoch.
        """
        answers = await self._reader.fetch(
            self.leader(),
            {self.at: FetchPosition(offset, last_fetched_epoch=last_fetched_epoch)},
            wait_ms_max=0,
            partition_bytes_max=bytes_max,
            isolation_level=isolation_level,
        )
        return answers[self.at]

    async def read(
        self, offset: int, *, bytes_max: int = FETCH_BYTES_DEFAULT, isolation_level: int = 0
    ) -> FetchedPartition:
        """Fetch as `fetch` does, and raise any error of the answer."""
        fetched = await self.fetch(offset, bytes_max=bytes_max, isolation_level=isolation_level)
        if fetched.error:
            raise KafkaError(fetched.error, str(self.at))
        return fetched

    async def configs(self) -> TopicConfigs:
        """Return the configs of the topic; empty if the cluster returns none."""
        return (await self._reader.describe_topic_configs([self.at.topic])).get(self.at.topic, {})

    async def is_compacted(self) -> bool:
        """Return whether the topic's cleanup.policy includes compact."""
        return "compact" in ((await self.configs()).get("cleanup.policy", (None, True))[0] or "")


class TargetLog(PartitionLog):
    """The copy of one source partition on the target."""

    def __init__(
        self, at: TopicPartition, sink: DataSink, offsets: LogOffsets, leader_of: LeaderOf
    ) -> None:
        super().__init__(at, sink, offsets, leader_of)
        self._sink = sink

    async def describe_producer(self, producer_id: int) -> DescribedProducer | None:
        """Return what the leader knows of a producer; None also if it cannot say (Kafka < 2.8)."""
        try:
            return await self._sink.describe_producer(self.leader(), self.at, producer_id)
        except KafkaError as error:
            if error.code != ErrorCode.unsupported_version:
                raise
            return None

    async def delete_records(self, before_offset: int) -> None:
        """Delete every record below an offset."""
        await self._sink.delete_records(self.leader(), self.at, before_offset)
