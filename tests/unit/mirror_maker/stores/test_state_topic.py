"""A reader of a topic of state sees every record that was acknowledged before it asked."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from local_cluster.client.model import FetchedPartition, FetchPosition, ListedOffset, TopicPartition
from local_cluster.records.batch import NewRecord, encode_batch
from local_cluster.wire.constants import EARLIEST_TIMESTAMP
from local_cluster.wire.errors import ErrorCode, KafkaError
from local_cluster.wire.metadata import PartitionMetadata, TopicMetadata
from mirror_maker.ports import DataSink, SystemClock
from mirror_maker.stores.state_topic import StateTopic

AT = TopicPartition("state", 0)


class Sink:
    """A leader whose reads wait, one after the other, until the test resolves them.

    A read asks for the end first; the result of its future is what the log has then.
    """

    def __init__(self) -> None:
        self.reads: list[asyncio.Future[bytes]] = []
        self._log = b""

    async def until_reads(self, count: int) -> None:
        """Wait until this many reads have begun."""
        while len(self.reads) < count:
            await asyncio.sleep(0)

    async def metadata(self, topics: Any) -> Any:
        partitions = {0: PartitionMetadata(0, 0, 0, (0,), (0,), ErrorCode.none)}
        found = TopicMetadata("state", None, ErrorCode.none, False, partitions)

        class Answer:
            topics = {"state": found}  # noqa: RUF012

        return Answer

    async def list_offsets_of(
        self, node_id: int, timestamps: dict[TopicPartition, int]
    ) -> dict[TopicPartition, ListedOffset]:
        if timestamps[AT] == EARLIEST_TIMESTAMP:
            return {AT: ListedOffset(ErrorCode.none, 0, -1, 0)}
        self.reads.append(asyncio.get_running_loop().create_future())
        self._log = await self.reads[-1]
        return {AT: ListedOffset(ErrorCode.none, 1 if self._log else 0, -1, 0)}

    async def fetch(
        self, node_id: int, positions: dict[TopicPartition, FetchPosition], **limits: Any
    ) -> dict[TopicPartition, FetchedPartition]:
        return {AT: FetchedPartition(ErrorCode.none, 1, 1, 0, (), memoryview(self._log))}


def begin(seen: list[bytes | None], sink: Sink | None = None) -> tuple[Sink, StateTopic]:
    sink = sink or Sink()
    topic = StateTopic(
        cast(DataSink, sink),
        "state",
        replication_factor=1,
        clock=SystemClock(),
        replay=lambda key, value: seen.append(value),
    )
    return sink, topic


@pytest.mark.parametrize("is_cancelled", [False, True])
def test_a_failed_read_counts_for_no_caller(is_cancelled: bool) -> None:
    async def scenario() -> None:
        seen: list[bytes | None] = []
        sink, topic = begin(seen)
        first, second, third = (asyncio.create_task(topic.catch_up()) for _ in range(3))
        await sink.until_reads(1)
        sink.reads[0].set_result(b"")
        await sink.until_reads(2)
        # The second read began after the third call, so its result would be enough for both.
        if is_cancelled:
            second.cancel()
        else:
            sink.reads[1].set_exception(KafkaError(ErrorCode.network_exception))
        with pytest.raises((KafkaError, asyncio.CancelledError)):
            await second
        async with asyncio.timeout(60):
            await sink.until_reads(3)
        sink.reads[2].set_result(bytes(encode_batch([NewRecord(0, b"k", b"v")])))
        await asyncio.gather(first, third)
        assert seen == [b"v"]

    asyncio.run(scenario())


def test_callers_that_asked_before_a_read_began_share_it() -> None:
    async def scenario() -> None:
        seen: list[bytes | None] = []
        sink, topic = begin(seen)
        tasks = [asyncio.create_task(topic.catch_up()) for _ in range(5)]
        await sink.until_reads(1)
        sink.reads[0].set_result(b"")
        await sink.until_reads(2)
        sink.reads[1].set_result(bytes(encode_batch([NewRecord(0, b"k", b"v")])))
        await asyncio.gather(*tasks)
        assert (seen, len(sink.reads)) == ([b"v"], 2)

    asyncio.run(scenario())


def test_a_new_leader_that_does_not_know_what_is_committed_is_not_read() -> None:
    """Its high watermark lags until its followers have fetched, so acknowledged records lie above
    it; ListOffsets says so (KIP-207)."""

    class NewLeader(Sink):
        async def list_offsets_of(
            self, node_id: int, timestamps: dict[TopicPartition, int]
        ) -> dict[TopicPartition, ListedOffset]:
            if timestamps[AT] == EARLIEST_TIMESTAMP:
                return await super().list_offsets_of(node_id, timestamps)
            return {AT: ListedOffset(ErrorCode.offset_not_available, -1, -1, -1)}

        async def fetch(
            self, node_id: int, positions: dict[TopicPartition, FetchPosition], **limits: Any
        ) -> dict[TopicPartition, FetchedPartition]:
            return {AT: FetchedPartition(ErrorCode.none, 0, 0, 0, (), memoryview(b""))}

    async def scenario() -> None:
        _, topic = begin([], NewLeader())
        with pytest.raises(KafkaError) as refused:
            await topic.catch_up()
        assert refused.value.code == ErrorCode.offset_not_available

    asyncio.run(scenario())
