"""A fetch that a quota holds back: an answer without error and without partitions."""

from __future__ import annotations

import asyncio

import pytest

from local_cluster.client import throttled
from local_cluster.client.client import KafkaClient
from local_cluster.client.model import (
    FetchedPartition,
    FetchPosition,
    SessionAnswer,
    TopicPartition,
)
from local_cluster.client.throttled import until_answered
from local_cluster.wire.errors import ErrorCode, KafkaError
from tests.sim.virtual_time import run_virtually

A, B = TopicPartition("a", 0), TopicPartition("b", 0)
TOLD = FetchedPartition(ErrorCode.none, 3, 3, 0, (), memoryview(b""))
WHOLE = SessionAnswer(0, 0, {A: TOLD, B: TOLD})


class Broker:
    """Gives these answers, the last one again and again."""

    def __init__(self, *answers: SessionAnswer) -> None:
        self.answers = answers
        self.asked_s: list[float] = []
        """When it was asked."""

    async def send(self) -> SessionAnswer:
        self.asked_s.append(asyncio.get_running_loop().time())
        return self.answers[min(len(self.asked_s), len(self.answers)) - 1]


def test_a_throttled_fetch_is_asked_again_when_the_broker_says() -> None:
    async def scenario() -> None:
        broker = Broker(SessionAnswer(0, 1_500, {}), SessionAnswer(0, 3_600_000, {A: TOLD}), WHOLE)
        assert await until_answered({A, B}, broker.send) == WHOLE.partitions
        first, second, third = broker.asked_s
        assert second - first == pytest.approx(1.5)
        assert third - second == pytest.approx(throttled.THROTTLE_WAIT_MS_MAX / 1000)

    run_virtually(scenario())


def test_an_answer_of_every_partition_is_taken_at_once() -> None:
    async def scenario() -> None:
        # A broker that answers says as well for how long it does not read the next request.
        broker = Broker(WHOLE._replace(throttle_ms=700))
        assert await until_answered({A, B}, broker.send) == WHOLE.partitions
        assert len(broker.asked_s) == 1

    run_virtually(scenario())


def test_in_the_end_it_is_an_error_that_is_tried_again() -> None:
    async def scenario() -> None:
        broker = Broker(SessionAnswer(0, 0, {A: TOLD}))
        with pytest.raises(KafkaError, match="b-0") as raised:
            await until_answered({A, B}, broker.send)
        assert raised.value.code == ErrorCode.request_timed_out
        assert raised.value.retriable
        assert len(broker.asked_s) == throttled.THROTTLED_ATTEMPTS_MAX

    run_virtually(scenario())


def test_the_clients_fetch_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        broker = Broker(SessionAnswer(0, 1_000, {}), WHOLE)
        client = KafkaClient("nowhere:9")
        monkeypatch.setattr(client, "_fetch", lambda node_id, request: broker.send())
        assert await client.fetch(1, {A: FetchPosition(0), B: FetchPosition(0)}) == WHOLE.partitions
        assert len(broker.asked_s) == 2

    run_virtually(scenario())
