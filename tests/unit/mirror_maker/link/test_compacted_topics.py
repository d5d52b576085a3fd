"""Which source topics are compacted: what is asked for, and how often."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from random import Random

from local_cluster.client.model import TopicConfigs
from local_cluster.wire.errors import ErrorCode, KafkaError
from mirror_maker.backoff import Backoff
from mirror_maker.link.compacted_topics import LOOKUP_MS, LOOKUP_TOPICS_MAX, CompactedTopics
from tests.sim.mirror.world import VirtualClock
from tests.sim.virtual_time import run_virtually


class FakeSource:
    """A cluster that only describes configs."""

    def __init__(self, **policies: str) -> None:
        self.policies: dict[str, str | None] = {**policies}
        """None is a refusal."""
        self.is_down = False
        self.requests: list[list[str]] = []

    async def ask_topic_configs(self, names: Sequence[str]) -> dict[str, TopicConfigs | KafkaError]:
        self.requests.append(list(names))
        if self.is_down:
            raise KafkaError(ErrorCode.network_exception, "down")
        answers: dict[str, TopicConfigs | KafkaError] = {}
        for name in names:
            policy = self.policies.get(name)
            answers[name] = (
                KafkaError(ErrorCode.topic_authorization_failed, name)
                if policy is None
                else {"cleanup.policy": (policy, False)}
            )
        return answers


def play(
    source: FakeSource, scenario: Callable[[CompactedTopics], Awaitable[None]]
) -> list[list[str]]:
    """Run a scenario with the lookups in the background; return the requests."""

    async def run() -> None:
        clock = VirtualClock()
        backoff = Backoff(1_000, 1_000, Random(1), clock)
        topics = CompactedTopics(source, clock, link="l", backoff=backoff)
        lookups = asyncio.create_task(topics.run())
        await asyncio.sleep(1)
        await scenario(topics)
        lookups.cancel()

    run_virtually(run())
    return source.requests


def test_a_topic_is_looked_up_once_a_minute_while_somebody_asks() -> None:
    source = FakeSource(a="compact", b="delete")

    async def scenario(topics: CompactedTopics) -> None:
        assert not topics.is_compacted("a"), "it is not known yet"
        topics.is_compacted("b")
        for _ in range(30):
            await asyncio.sleep(1)
            assert topics.is_compacted("a")
            assert not topics.is_compacted("b")
        assert len(source.requests) == 1
        await asyncio.sleep(10 * LOOKUP_MS / 1000)
        assert len(source.requests) == 1, "nobody asked"
        source.policies["a"] = "delete"
        assert topics.is_compacted("a")
        await asyncio.sleep(1)
        assert not topics.is_compacted("a")

    assert play(source, scenario) == [["a", "b"], ["a"]]


def test_a_former_answer_holds_while_the_source_gives_none() -> None:
    source = FakeSource(a="compact,delete")

    async def scenario(topics: CompactedTopics) -> None:
        topics.is_compacted("a")
        await asyncio.sleep(LOOKUP_MS / 1000)
        source.is_down = True
        assert topics.is_compacted("a")
        await asyncio.sleep(LOOKUP_MS / 1000)
        assert len(source.requests) > 10, "it is asked until it answers"
        source.is_down, source.policies["a"] = False, None
        await asyncio.sleep(2)
        count = len(source.requests)
        for _ in range(20):
            assert topics.is_compacted("a"), "a refusal tells nothing"
            await asyncio.sleep(1)
        assert len(source.requests) == count

    play(source, scenario)


def test_a_request_has_a_bounded_number_of_topics() -> None:
    source = FakeSource()

    async def scenario(topics: CompactedTopics) -> None:
        for number in range(2 * LOOKUP_TOPICS_MAX + 1):
            assert not topics.is_compacted(f"t{number}")
        await asyncio.sleep(1)

    requests = play(source, scenario)
    assert [len(names) for names in requests] == [LOOKUP_TOPICS_MAX, LOOKUP_TOPICS_MAX, 1]
