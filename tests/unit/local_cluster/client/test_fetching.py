"""Fetches that a quota throttles: the response has no error and lacks partitions."""

from __future__ import annotations

import asyncio

import pytest

from local_cluster.client.client import KafkaClient
from local_cluster.client.fetching import (
    THROTTLE_WAIT_MS_MAX,
    THROTTLED_ATTEMPTS_MAX,
    fetch_all,
)
from local_cluster.client.model import (
    FetchedPartition,
    FetchPosition,
    SessionAnswer,
    TopicPartition,
)
from local_cluster.wire.errors import ErrorCode, KafkaError
from tests.sim.virtual_time import run_virtually

A, B = TopicPartition("a", 0), TopicPartition("b", 0)
FETCHED = FetchedPartition(ErrorCode.none, 3, 3, 0, (), memoryview(b""))
WHOLE = SessionAnswer(0, 0, {A: FETCHED, B: FETCHED})


class Broker:
    """Sends these responses, the last one again and again."""

    def __init__(self, *answers: SessionAnswer) -> None:
        self.answers = answers
        self.requested_s: list[float] = []
        """The times of the requests."""

    async def send(self) -> SessionAnswer:
        self.requested_s.append(asyncio.get_running_loop().time())
        return self.answers[min(len(self.requested_s), len(self.answers)) - 1]


def test_a_throttled_fetch_is_repeated_after_the_throttle_time() -> None:
    async def scenario() -> None:
        broker = Broker(
            SessionAnswer(0, 1_500, {}), SessionAnswer(0, 3_600_000, {A: FETCHED}), WHOLE
        )
        assert await fetch_all({A, B}, broker.send) == WHOLE.partitions
        first, second, third = broker.requested_s
        assert second - first == pytest.approx(1.5)
        assert third - second == pytest.approx(THROTTLE_WAIT_MS_MAX / 1000)

    run_virtually(scenario())


def test_a_complete_response_is_returned_at_once() -> None:
    async def scenario() -> None:
        # The broker will not read the next request during the throttle time.
        broker = Broker(WHOLE._replace(throttle_ms=700))
        assert await fetch_all({A, B}, broker.send) == WHOLE.partitions
        assert len(broker.requested_s) == 1

    run_virtually(scenario())


def test_in_the_end_it_is_a_retriable_error() -> None:
    async def scenario() -> None:
        broker = Broker(SessionAnswer(0, 0, {A: FETCHED}))
        with pytest.raises(KafkaError, match="b-0") as raised:
            await fetch_all({A, B}, broker.send)
        assert raised.value.code == ErrorCode.request_timed_out
        assert raised.value.retriable
        assert len(broker.requested_s) == THROTTLED_ATTEMPTS_MAX

    run_virtually(scenario())


def test_a_client_repeats_a_throttled_fetch(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        broker = Broker(SessionAnswer(0, 1_000, {}), WHOLE)
        client = KafkaClient("nowhere:9")
        monkeypatch.setattr(client, "_fetch", lambda node_id, request: broker.send())
        assert await client.fetch(1, {A: FetchPosition(0), B: FetchPosition(0)}) == WHOLE.partitions
        assert len(broker.requested_s) == 2

    run_virtually(scenario())
