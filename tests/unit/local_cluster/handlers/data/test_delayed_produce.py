"""`DelayedProduce`: when the response leaves, and its errors."""

from __future__ import annotations

import asyncio

from local_cluster.handlers.data.delayed_produce import DelayedProduce
from local_cluster.handlers.deferred import Deferred
from local_cluster.replication.purgatory import CompleteProduce
from local_cluster.wire.errors import ErrorCode
from local_cluster.wire.produce import PartitionProduceResponse

NEVER_MS = 600_000


class FakePartition:
    """A partition whose commits are the test's."""

    def __init__(self) -> None:
        self.parked: list[tuple[int, CompleteProduce]] = []
        self.is_under_min_isr = False

    def when_committed(self, next_offset: int, settle: CompleteProduce) -> None:
        self.parked.append((next_offset, settle))

    def settle(self, error_code: ErrorCode = ErrorCode.none) -> None:
        for _, settle in self.parked:
            settle(error_code)


def delayed_produce(
    partitions: list[FakePartition], timeout_ms: int = NEVER_MS
) -> tuple[Deferred, list[list[tuple[int, int]]]]:
    """Return the reply, and the encoded responses: (partition, error code)."""
    encoded: list[list[tuple[int, int]]] = []

    def encode(results: list[PartitionProduceResponse]) -> bytes:
        encoded.append([(result.partition, result.error_code) for result in results])
        return b"answer"

    results = [PartitionProduceResponse("t", index, 0, 7) for index in range(len(partitions) + 1)]
    waiting = [(index, partition, 8) for index, partition in enumerate(partitions)]
    return DelayedProduce(results, waiting, timeout_ms, encode).reply, encoded


async def test_it_leaves_with_the_last_commit() -> None:
    first, second = FakePartition(), FakePartition()
    reply, encoded = delayed_produce([first, second])
    first.settle()
    assert not reply.is_done
    second.settle()
    assert await reply == b"answer"
    assert encoded == [[(0, 0), (1, 0), (2, 0)]]


async def test_a_failure_is_reported_for_its_partition_only() -> None:
    first, second = FakePartition(), FakePartition()
    reply, encoded = delayed_produce([first, second])
    first.settle(ErrorCode.not_leader_or_follower)
    second.settle()
    assert reply.is_done
    assert encoded == [[(0, ErrorCode.not_leader_or_follower), (1, 0), (2, 0)]]


async def test_an_uncommitted_partition_times_out() -> None:
    first, second = FakePartition(), FakePartition()
    reply, encoded = delayed_produce([first, second], timeout_ms=10)
    second.settle()
    assert await asyncio.wait_for(asyncio.ensure_future(waited(reply)), 10) == b"answer"
    first.settle()
    assert encoded == [[(0, ErrorCode.request_timed_out), (1, 0), (2, 0)]]


async def test_too_few_in_sync_replicas_are_reported_after_the_timeout() -> None:
    first, second = FakePartition(), FakePartition()
    reply, encoded = delayed_produce([first, second], timeout_ms=10)
    second.is_under_min_isr = True
    await asyncio.wait_for(asyncio.ensure_future(waited(reply)), 10)
    late = ErrorCode.not_enough_replicas_after_append
    assert encoded == [[(0, ErrorCode.request_timed_out), (1, late), (2, 0)]]


async def waited(reply: Deferred) -> object:
    return await reply
