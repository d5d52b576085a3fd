"""The bounds of logs in one cluster, requested for many partitions at once. Shell.

A worker that starts needs the bounds of thousands of partitions. Lookups of the same moment go in
one request to each leader of the directory. A broker that does not lead any more refuses, and the
flow retries after the next discovery.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from local_cluster.client.model import TopicPartition
from local_cluster.wire.constants import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from local_cluster.wire.errors import ErrorCode, KafkaError
from mirror_maker.clusters.request_batching import RequestBatcher
from mirror_maker.ports import LogReader

PARTITIONS_PER_REQUEST_MAX: Final = 1_000


class LogOffsets:
    """Log bounds of one cluster. Methods raise KafkaError if a leader does not answer."""

    def __init__(
        self, reader: LogReader, leader_of: Callable[[TopicPartition], int | None]
    ) -> None:
        self._reader = reader
        self._leader_of = leader_of
        self._asking: dict[tuple[int, int], RequestBatcher[TopicPartition, int | KafkaError]] = {}
        """Batchers by leader and timestamp. A request has one timestamp per partition, and a broker
        that does not answer delays no other one."""

    async def bounds(self, at: TopicPartition, leader: int | None = None) -> tuple[int, int]:
        """Return (log start offset, high watermark), looked up in this order.

        `leader` is needed for topics that the directory does not know.
        """
        first = await self._listed(at, EARLIEST_TIMESTAMP, leader)
        return first, await self._listed(at, LATEST_TIMESTAMP, leader)

    async def first(self, at: TopicPartition) -> int:
        """Return the log start offset."""
        return await self._listed(at, EARLIEST_TIMESTAMP)

    async def end(self, at: TopicPartition) -> int:
        """Return the high watermark."""
        return await self._listed(at, LATEST_TIMESTAMP)

    async def at_time(self, at: TopicPartition, timestamp_ms: int) -> int:
        """Return the offset of the first record with this timestamp or a later one; -1 if none."""
        return await self._listed(at, timestamp_ms)

    async def _listed(self, at: TopicPartition, which: int, leader: int | None = None) -> int:
        key = self._leader(at) if leader is None else leader, which
        if key not in self._asking:

            async def ask(partitions: Sequence[TopicPartition]) -> list[int | KafkaError]:
                return await self._ask(*key, partitions)

            self._asking[key] = RequestBatcher(ask, count_max=PARTITIONS_PER_REQUEST_MAX)
        return _offset(await self._asking[key].ask(at))

    async def _ask(
        self, leader: int, timestamp: int, partitions: Sequence[TopicPartition]
    ) -> list[int | KafkaError]:
        listed = await self._reader.list_offsets_of(leader, dict.fromkeys(partitions, timestamp))
        return [
            KafkaError(listed[at].error, str(at)) if listed[at].error else listed[at].offset
            for at in partitions
        ]

    def _leader(self, at: TopicPartition) -> int:
        leader = self._leader_of(at)
        if leader is None or leader < 0:
            raise KafkaError(ErrorCode.leader_not_available, str(at))
        return leader


def _offset(listed: int | KafkaError) -> int:
    if isinstance(listed, KafkaError):
        raise KafkaError(listed.code, listed.message)
    return listed
