"""Where logs of one cluster begin and end, asked for many partitions at once. Shell.

A worker that starts has the bounds of thousands of partitions to find out. Those that are asked for
at the same time go in one request to their leader, which is the one of the directory: a broker that
does not lead any more refuses, and the flow tries again when discovery has found out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from local_cluster.client.model import TopicPartition
from local_cluster.wire.constants import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from local_cluster.wire.errors import ErrorCode, KafkaError
from mirror_maker.clusters.request_batching import Together
from mirror_maker.ports import LogReader

PARTITIONS_PER_REQUEST_MAX: Final = 1_000


class LogOffsets:
    """Of one cluster. Methods raise KafkaError where a partition's leader does not tell."""

    def __init__(
        self, reader: LogReader, leader_of: Callable[[TopicPartition], int | None]
    ) -> None:
        self._reader = reader
        self._leader_of = leader_of
        self._asking: dict[tuple[int, int], Together[TopicPartition, int | KafkaError]] = {}
        """By leader and timestamp: a request has one timestamp for a partition, and one broker
        that does not answer holds up nobody else."""

    async def bounds(self, at: TopicPartition, leader: int | None = None) -> tuple[int, int]:
        """(log start offset, high watermark), in this order; `leader` where the directory does not
        know the topic."""
        first = await self._listed(at, EARLIEST_TIMESTAMP, leader)
        return first, await self._listed(at, LATEST_TIMESTAMP, leader)

    async def first(self, at: TopicPartition) -> int:
        """The log start offset."""
        return await self._listed(at, EARLIEST_TIMESTAMP)

    async def end(self, at: TopicPartition) -> int:
        """The high watermark."""
        return await self._listed(at, LATEST_TIMESTAMP)

    async def at_time(self, at: TopicPartition, timestamp_ms: int) -> int:
        """Of the first record that is as late as that, -1 where there is none."""
        return await self._listed(at, timestamp_ms)

    async def _listed(self, at: TopicPartition, which: int, leader: int | None = None) -> int:
        key = self._leader(at) if leader is None else leader, which
        if key not in self._asking:

            async def ask(partitions: Sequence[TopicPartition]) -> list[int | KafkaError]:
                return await self._ask(*key, partitions)

            self._asking[key] = Together(ask, count_max=PARTITIONS_PER_REQUEST_MAX)
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
