"""Reading a topic of state: whoever returns has seen what was there when it asked."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from local_cluster.client.model import FetchedPartition, FetchPosition, ListedOffset, TopicPartition
from local_cluster.records.batch import NewRecord, encode_batch
from local_cluster.wire.errors import ErrorCode, KafkaError
from local_cluster.wire.metadata import PartitionMetadata, TopicMetadata
from mirror_maker.ports import DataSink, SystemClock
from mirror_maker.stores.state_topic import StateTopic

AT = TopicPartition("state", 0)


class Sink:
    """Each read waits until it is let go, one after the other; there is one record in the end."""

    def __init__(self) -> None:
        self.reads: list[asyncio.Future[bytes]] = []

    async def until_reads(self, count: int) -> None:
        """Wait until so many have begun."""
        while len(self.reads) < count:
            await asyncio.sleep(0)

    async def metadata(self, topics: Any) -> Any:
        partitions = {0: PartitionMetadata(0, 0, 0, (0,), (0,), ErrorCode.none)}
        found = TopicMetadata("state", None, ErrorCode.none, False, partitions)

        class Answer:
            topics = {"state": found}  # noqa: RUF012

        return Answer

    async def list_offsets(self, timestamps: Any) -> dict[TopicPartition, ListedOffset]:
        return {AT: ListedOffset(ErrorCode.none, 0, -1, 0)}

    async def fetch(
        self, node_id: int, positions: dict[TopicPartition, FetchPosition], **limits: Any
    ) -> dict[TopicPartition, FetchedPartition]:
        self.reads.append(asyncio.get_running_loop().create_future())
        records = await self.reads[-1]
        end = 1 if records else 0
        return {AT: FetchedPartition(ErrorCode.none, end, end, 0, (), memoryview(records))}


def begin(seen: list[bytes | None]) -> tuple[Sink, StateTopic]:
    sink = Sink()
    topic = StateTopic(
        cast(DataSink, sink),
        "state",
        replication_factor=1,
        clock=SystemClock(),
        replay=lambda key, value: seen.append(value),
    )
    return sink, topic


@pytest.mark.parametrize("is_cancelled", [False, True])
def test_a_read_that_failed_is_nobodys(is_cancelled: bool) -> None:
    async def scenario() -> None:
        seen: list[bytes | None] = []
        sink, topic = begin(seen)
        first, second, third = (asyncio.create_task(topic.catch_up()) for _ in range(3))
        await sink.until_reads(1)
        sink.reads[0].set_result(b"")
        await sink.until_reads(2)
        # The second began after the third had asked: what it reads is enough for both.
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


def test_who_asked_before_a_read_began_shares_it() -> None:
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
