"""Lookups that share a request; bounds of many logs."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, cast

import pytest

from local_cluster.client.model import ListedOffset, TopicPartition
from local_cluster.wire.errors import ErrorCode, KafkaError
from mirror_maker.clusters.log_offsets import LogOffsets
from mirror_maker.clusters.request_batching import RequestBatcher


class Requests:
    """Records the lookups; each request is answered when the test says so."""

    def __init__(self, failing: int | None = None) -> None:
        """`failing` is the number of the request that fails."""
        self.asked: list[list[int]] = []
        self.answers = asyncio.Semaphore(0)
        self._failing = failing

    async def __call__(self, questions: Sequence[int]) -> list[int]:
        number = len(self.asked)
        self.asked.append(list(questions))
        await self.answers.acquire()
        if number == self._failing:
            raise KafkaError(ErrorCode.network_exception, "lost")
        return [question * 10 for question in questions]

    async def until_asked(self, count: int) -> None:
        async with asyncio.timeout(60):
            while len(self.asked) < count:
                await asyncio.sleep(0)

    def answer(self, count: int) -> None:
        for _ in range(count):
            self.answers.release()


async def asked_behind_another(
    requests: Requests, numbers: Sequence[int], *, count_max: int = 100
) -> list[asyncio.Task[int]]:
    """Tasks that ask while a request with the question 0 is on its way."""
    together = RequestBatcher(requests, count_max=count_max)
    first = asyncio.create_task(together.ask(0))
    await requests.until_asked(1)
    tasks = [asyncio.create_task(together.ask(number)) for number in numbers]
    await asyncio.sleep(0)
    return [first, *tasks]


async def test_lookups_during_a_request_go_with_the_next_one() -> None:
    requests = Requests()
    tasks = await asked_behind_another(requests, [1, 2, 3])
    requests.answer(2)
    assert await asyncio.gather(*tasks) == [0, 10, 20, 30]
    assert requests.asked == [[0], [1, 2, 3]]


async def test_no_request_exceeds_its_limit() -> None:
    requests = Requests()
    tasks = await asked_behind_another(requests, [1, 2, 3, 4, 5], count_max=2)
    requests.answer(4)
    assert await asyncio.gather(*tasks) == [0, 10, 20, 30, 40, 50]
    assert requests.asked == [[0], [1, 2], [3, 4], [5]]


async def test_a_failure_concerns_all_callers_of_the_request_and_no_others() -> None:
    requests = Requests(failing=1)
    tasks = await asked_behind_another(requests, [1, 2, 3], count_max=2)
    requests.answer(3)
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert [isinstance(result, KafkaError) for result in results] == [False, True, True, False]


async def test_a_cancelled_caller_takes_nothing_from_the_others() -> None:
    requests = Requests()
    tasks = await asked_behind_another(requests, [1, 2, 3])
    requests.answer(1)
    await requests.until_asked(2)
    tasks[1].cancel()  # this caller has sent the second request
    requests.answer(2)
    assert await asyncio.gather(*tasks[2:]) == [20, 30]
    with pytest.raises(asyncio.CancelledError):
        await tasks[1]
    assert requests.asked == [[0], [1, 2, 3], [1, 2, 3]]


class Cluster:
    """Partitions from 5 to 10, on two brokers; one is led by nobody."""

    def __init__(self) -> None:
        self.requests: list[tuple[int, int, int]] = []
        """(broker, timestamp, partitions)"""

    async def list_offsets_of(
        self, node_id: int, timestamps: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, ListedOffset]:
        (timestamp,) = set(timestamps.values())
        self.requests.append((node_id, timestamp, len(timestamps)))
        await asyncio.sleep(0)
        if node_id == 2:
            raise KafkaError(ErrorCode.network_exception, "broker 2")
        offset = {-2: 5, -1: 10}.get(timestamp, 7)
        return {
            at: ListedOffset(
                ErrorCode.not_leader_or_follower if at.partition == 9 else ErrorCode.none,
                *(offset, -1, -1),
            )
            for at in timestamps
        }


def leader_of(at: TopicPartition) -> int | None:
    return None if at.topic == "unknown" else at.partition % 2 + 1


async def test_bounds_of_many_logs_share_requests_and_fail_separately() -> None:
    cluster = Cluster()
    logs = LogOffsets(cast("Any", cluster), leader_of)
    partitions = [TopicPartition("t", number) for number in range(20)]
    results = await asyncio.gather(
        *(logs.bounds(at, 1 if at.partition == 9 else None) for at in partitions),
        return_exceptions=True,
    )
    for at, result in zip(partitions, results, strict=True):
        if at.partition % 2 or at.partition == 9:
            assert isinstance(result, KafkaError)
        else:
            assert result == (5, 10)
    assert sorted(cluster.requests)[:2] == [(1, -2, 11), (1, -1, 10)]
    with pytest.raises(KafkaError, match="LEADER_NOT_AVAILABLE"):
        await logs.end(TopicPartition("unknown", 0))
    assert [await logs.first(partitions[0]), await logs.at_time(partitions[0], 77)] == [5, 7]
