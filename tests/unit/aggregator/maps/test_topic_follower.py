"""The follower reads topics to their ends, follows them, and survives their failures."""

from __future__ import annotations

import asyncio
import uuid

import pytest

from aggregator.maps import topic_follower
from aggregator.maps.followed_topic import TopicState
from aggregator.maps.link_map import TranslationState
from aggregator.maps.topic_follower import TopicFollower
from aggregator.maps.translation import LinkMaps
from local_cluster.wire.errors import ErrorCode, KafkaError
from tests.unit.aggregator.fakes import FakeCluster, FakeTopic, opening_and_block

_TARGET_ID = uuid.UUID(int=9)
_TOPIC = "heliograph-offset-map.jfk-nyc.internal"


class World:
    """One follower over one fake cluster, with a clock that the test moves."""

    def __init__(self, *links: str) -> None:
        self.now = 100.0
        self.cluster = FakeCluster()
        links = links or ("jfk-nyc",)
        self.maps = LinkMaps({link: link[:3] for link in links})
        self.follower = TopicFollower(
            self.cluster,
            [followed for _, followed in self.maps.topics()],
            monotonic=lambda: self.now,
        )

    async def steps(self, count: int = 3) -> None:
        for _ in range(count):
            self.now += 1.0
            await self.follower.step()

    def state(self, link: str = "jfk-nyc") -> TopicState:
        return self.maps.topic(link).state

    def target(self, offset: int, link: str = "jfk-nyc") -> tuple[TranslationState, int | None]:
        answer = self.maps.translate(link, "flights", 0, offset)
        return answer.state, answer.target_offset

    def publish(self, *runs: tuple[int, int, int], topic: str = _TOPIC) -> None:
        records = opening_and_block("flights", 0, "jfk.flights", _TARGET_ID, runs)
        self.cluster.topics.setdefault(topic, FakeTopic())
        for record in records:
            self.cluster.topics[topic].append(record)


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_follower, "ERROR_PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(topic_follower, "RETRY_SECONDS", 0.0)
    monkeypatch.setattr(topic_follower, "DISCOVERY_SECONDS", 0.0)


async def test_ready_only_at_the_end_of_the_map() -> None:
    world = World()
    world.publish((0, 0, 10))
    assert world.state() is TopicState.LOADING
    await world.steps(1)
    assert world.state() is TopicState.LOADING
    assert world.maps.topic("jfk-nyc").lag_records == 1
    await world.steps(1)
    assert world.state() is TopicState.READY
    assert world.maps.topic("jfk-nyc").lag_records == 0
    assert world.maps.topic("jfk-nyc").read_at == world.now
    assert world.target(4) == (TranslationState.EXACT, 4)


async def test_follows_what_is_published_later() -> None:
    world = World()
    world.publish((0, 0, 10))
    await world.steps()
    assert world.target(15) == (TranslationState.PENDING, None)
    world.publish((10, 12, 10))
    await world.steps()
    assert world.target(15) == (TranslationState.EXACT, 17)
    assert world.state() is TopicState.READY


async def test_missing_topic_is_pending_and_found_later() -> None:
    world = World()
    await world.steps(1)
    assert world.state() is TopicState.PENDING
    assert world.target(0) == (TranslationState.PENDING, None)
    world.publish((0, 5, 1))
    await world.steps()
    assert world.target(0) == (TranslationState.EXACT, 5)


async def test_one_missing_link_does_not_hold_up_another() -> None:
    world = World("jfk-nyc", "ewr-nyc")
    world.publish((0, 0, 10))
    await world.steps()
    assert world.state("jfk-nyc") is TopicState.READY
    assert world.state("ewr-nyc") is TopicState.PENDING


async def test_recreated_topic_is_read_from_its_start() -> None:
    world = World()
    world.publish((0, 0, 10))
    await world.steps()
    world.cluster.topics[_TOPIC] = FakeTopic()
    world.publish((0, 1_000, 10))
    await world.steps(4)
    assert world.target(4) == (TranslationState.EXACT, 1_004)


async def test_deleted_topic_takes_its_answers_along() -> None:
    world = World()
    world.publish((0, 0, 10))
    await world.steps()
    del world.cluster.topics[_TOPIC]
    await world.steps()
    assert world.state() is TopicState.PENDING
    assert world.target(4) == (TranslationState.PENDING, None)


async def test_position_trimmed_away_starts_anew() -> None:
    world = World()
    world.publish((0, 0, 10))
    await world.steps()
    topic = world.cluster.topics[_TOPIC]
    topic.log.clear()
    topic.log_start_offset = topic.next_offset = 50
    world.publish((0, 0, 20))
    await world.steps(4)
    assert world.state() is TopicState.READY
    assert world.target(15) == (TranslationState.EXACT, 15)


async def test_log_cut_back_starts_anew() -> None:
    world = World()
    world.publish((0, 0, 10), (10, 12, 5))
    await world.steps()
    topic = world.cluster.topics[_TOPIC]
    topic.log.clear()
    topic.next_offset = 0
    await world.steps(1)
    assert world.state() is TopicState.LOADING
    await world.steps(2)
    assert world.state() is TopicState.READY
    assert world.target(4) == (TranslationState.PENDING, None)


@pytest.mark.parametrize("kind", ["format", "checksum"])
async def test_unreadable_map_fails_alone_and_is_read_again_later(kind: str) -> None:
    world = World("jfk-nyc", "ewr-nyc")
    world.publish((0, 0, 10), topic="heliograph-offset-map.ewr-nyc.internal")
    world.publish((0, 0, 10))
    topic = world.cluster.topics[_TOPIC]
    good = bytes(topic.log)
    if kind == "format":
        topic.append((b"\xff\xff", b"not ours"))
    else:
        topic.log[-1] ^= 1
    await world.steps(4)
    assert world.state("jfk-nyc") is TopicState.FAILED
    assert world.state("ewr-nyc") is TopicState.READY
    assert world.maps.topic("jfk-nyc").problem
    assert world.target(4) == (TranslationState.PENDING, None)

    topic.log[:] = good
    topic.next_offset = 2
    world.now += topic_follower.REREAD_SECONDS
    await world.steps(4)
    assert world.state("jfk-nyc") is TopicState.READY
    assert world.target(4) == (TranslationState.EXACT, 4)


async def test_contradictory_map_fails_when_asked_and_recovers() -> None:
    world = World()
    world.publish((0, 100, 10))
    world.publish((5, 50, 10))
    await world.steps(5)
    with pytest.raises(ValueError, match=r"back|contradicts"):
        world.target(4)
    assert world.state() is TopicState.FAILED
    await world.steps(2)
    assert world.state() is TopicState.FAILED, "a failed map must not turn ready by being followed"
    world.cluster.topics[_TOPIC] = FakeTopic()
    world.publish((0, 100, 10))
    world.now += topic_follower.REREAD_SECONDS
    await world.steps(4)
    assert world.target(4) == (TranslationState.EXACT, 104)


async def test_lost_broker_keeps_the_map_and_goes_on_where_it_stopped() -> None:
    world = World()
    world.publish((0, 0, 10))
    await world.steps()
    world.cluster.down = True
    with pytest.raises(KafkaError):
        await world.steps(1)
    running = asyncio.create_task(world.follower.run())
    async with asyncio.timeout(10):
        while world.maps.topic("jfk-nyc").problem is None:
            await asyncio.sleep(0)
        assert world.target(4) == (TranslationState.EXACT, 4)
        world.publish((10, 10, 10))
        world.cluster.down = False
        while world.target(15) != (TranslationState.EXACT, 15):
            await asyncio.sleep(0)
    assert world.maps.topic("jfk-nyc").problem is None
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


async def test_partition_without_leader_is_waited_for() -> None:
    world = World()
    world.publish((0, 0, 10))
    world.cluster.topics[_TOPIC].error = ErrorCode.leader_not_available
    await world.steps(1)
    assert world.state() is TopicState.LOADING
    world.cluster.topics[_TOPIC].error = ErrorCode.none
    await world.steps()
    assert world.state() is TopicState.READY


async def test_a_topic_that_stays_is_read_on_and_one_that_leaves_is_not() -> None:
    world = World("jfk-nyc", "lga-nyc")
    lga = "heliograph-offset-map.lga-nyc.internal"
    world.publish((0, 100, 50))
    world.publish((0, 100, 50), topic=lga)
    await world.steps()
    kept, gone = world.maps.topic("jfk-nyc"), world.maps.topic("lga-nyc")
    value = kept.value

    world.maps = LinkMaps({"jfk-nyc": "jfk", "ewr-nyc": "ewr"}, world.maps)
    world.follower.follow(followed for _, followed in world.maps.topics())
    world.publish((50, 200, 50))
    world.publish((50, 200, 50), topic=lga)
    world.publish((0, 7, 50), topic="heliograph-offset-map.ewr-nyc.internal")
    await world.steps()
    assert world.maps.topic("jfk-nyc") is kept
    assert kept.value is value, "it was not read from its start"
    assert world.target(60) == (TranslationState.EXACT, 210)
    assert world.target(3, "ewr-nyc") == (TranslationState.EXACT, 10)
    read, end = gone.next_offset, world.cluster.topics[lga].next_offset
    assert read is not None and read < end
