"""`follower_fetch` over partition doubles: what it reads, and when."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, cast

from local_cluster.counters.traffic import TopicsTraffic, TopicTraffic
from local_cluster.fetch_sessions.follower_sessions import FollowerSessions
from local_cluster.handlers.data.follower_fetch import follower_fetch
from local_cluster.handlers.deferred import Deferred
from local_cluster.handlers.services import BrokerServices, RequestContext
from local_cluster.wire import fetch as codec
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, KafkaError

VERSION = 17
TOPIC_ID = uuid.UUID(int=1)
FOLLOWER = 2
LONG_MS = 600_000
SESSION = 7


class FakePartition:
    """A partition of one-byte records; `reads` counts how often it is read."""

    def __init__(self, index: int) -> None:
        self.topic, self.partition, self.topic_id = "t", index, TOPIC_ID
        self.log = SimpleNamespace(log_start_offset=0, log_end_offset=0)
        self.high_watermark = 0
        self.reads = 0
        self.traffic = TopicTraffic()
        self.noted: list[int] = []
        self.is_assigned = True
        self.has_forgotten = False
        self.watchers: set[Callable[[], None]] = set()
        self.append_watchers: set[Callable[[], None]] = set()

    def require_leader(self, epoch: int) -> None:
        return

    def has_in_sync(self, replica: int) -> bool:
        return True

    def awaits_fetch(self, replica: int) -> bool:
        return self.has_forgotten

    def find_divergence(self, offset: int, epoch: int) -> None:
        return

    def record_fetch(self, replica: int, *, log_end_offset: int, **_: int) -> None:
        if not self.is_assigned:
            raise KafkaError(ErrorCode.unknown_topic_or_partition)
        self.noted.append(log_end_offset)
        self.has_forgotten = False

    def read(self, offset: int, **_: Any) -> memoryview | None:
        self.reads += 1
        return memoryview(b"r" * (self.log.log_end_offset - offset)) or None

    def append(self, count: int = 1) -> None:
        self.log.log_end_offset += count
        for wake in tuple(self.append_watchers):
            wake()

    def commit(self) -> None:
        self.high_watermark = self.log.log_end_offset
        for wake in tuple(self.watchers):
            wake()

    def watch(self, wake: Callable[[], None]) -> None:
        self.watchers.add(wake)

    def watch_appends(self, wake: Callable[[], None]) -> None:
        self.append_watchers.add(wake)

    def unwatch(self, wake: Callable[[], None]) -> None:
        self.watchers.discard(wake)
        self.append_watchers.discard(wake)


class FakeBroker:
    def __init__(self, partitions_count: int) -> None:
        self.partitions = [FakePartition(index) for index in range(partitions_count)]
        self.settings = SimpleNamespace(broker_principals=(), trusted_listeners=("l",))
        self.clock = SimpleNamespace(monotonic_ms=lambda: 0)
        self.follower_sessions = FollowerSessions(lambda: SESSION)
        self.metadata = SimpleNamespace(topic_by_id=lambda _: SimpleNamespace(name="t"))
        leader = SimpleNamespace(is_used=False, must_wait=lambda *_: False)
        self.throttle = SimpleNamespace(leader=leader)
        self.replicas = self
        self.traffic = TopicsTraffic()

    def authorize(self, *arguments: object) -> bool:
        return True

    def get_leader(self, topic: str, index: int) -> FakePartition:
        return self.partitions[index]

    @property
    def reads(self) -> int:
        """Return the number of reads since the last call."""
        count = sum(partition.reads for partition in self.partitions)
        for partition in self.partitions:
            partition.reads = 0
        return count

    def fetch(
        self,
        *asked: tuple[int, int],
        epoch: int,
        forgotten: Sequence[int] = (),
        wait_ms: int = LONG_MS,
        follower: int = FOLLOWER,
    ) -> Any:
        """Fetch (partition, offset) pairs within the session; return a response or a Deferred."""
        request = codec.FetchRequest(
            follower,
            wait_ms,
            1,
            1_000_000,
            0,
            SESSION,
            epoch,
            [codec.FetchPartition("", i, -1, at, -1, 0, 1_000, TOPIC_ID) for i, at in asked],
            [codec.ForgottenPartition("", i, TOPIC_ID) for i in forgotten],
            "",
            11,
        )
        context = RequestContext(ApiKey.FETCH, VERSION, 1, None, "p", "l", "h", 1)
        reply = follower_fetch(cast(BrokerServices, self), context, request)
        return asyncio.ensure_future(reply) if isinstance(reply, Deferred) else reply

    def begin(self) -> None:
        """Return a session that has fetched each partition at offset 0 and read them all again."""
        at_rest = [(index, 0) for index in range(len(self.partitions))]
        assert results_by_partition(self.fetch(*at_rest, epoch=0, wait_ms=0)) == dict.fromkeys(
            range(len(self.partitions)), (0, 0, 0)
        )
        assert results_by_partition(self.fetch(epoch=1, wait_ms=0)) == {}
        assert self.reads == 2 * len(self.partitions)


def results_by_partition(parts: Any) -> dict[int, tuple[int, int, int]]:
    """Return (error, bytes, high watermark) by partition."""
    body = memoryview(b"".join(bytes(part) for part in parts))
    error, session_id, answers = codec.decode_response(VERSION, body, 0)
    assert (error, session_id) == (0, SESSION)
    return {
        answer.partition: (
            answer.error_code,
            codec.records_size_bytes(answer.records),
            answer.high_watermark,
        )
        for answer in answers
    }


async def soon(reply: Any) -> dict[int, tuple[int, int, int]]:
    assert isinstance(reply, asyncio.Task)
    async with asyncio.timeout(10):
        return results_by_partition(await reply)


async def test_the_cost_of_a_fetch_depends_on_the_partitions_that_moved() -> None:
    for count in (10, 2_000):
        broker = FakeBroker(count)
        broker.begin()
        for round_ in range(1, 6):
            waiting = broker.fetch(*([(3, round_ - 1)] if round_ > 1 else []), epoch=round_ + 1)
            await asyncio.sleep(0)
            broker.partitions[3].append()
            assert await soon(waiting) == {3: (0, 1, 0)}
        # Requested and read to its end, then read again after an append.
        assert broker.reads == 9
        assert broker.partitions[3].noted == [0, 1, 2, 3, 4]
        assert broker.partitions[4].noted == [0]


async def test_an_append_between_two_requests_is_not_missed() -> None:
    broker = FakeBroker(5)
    broker.begin()
    broker.partitions[1].append(2)
    assert results_by_partition(broker.fetch(epoch=2)) == {1: (0, 2, 0)}
    # Records are sent again until the follower's fetch offset passes them.
    assert results_by_partition(broker.fetch(epoch=3)) == {1: (0, 2, 0)}
    assert results_by_partition(broker.fetch((1, 2), epoch=4, wait_ms=0)) == {}


async def test_a_high_watermark_comes_with_the_next_response() -> None:
    broker = FakeBroker(5)
    broker.begin()
    broker.partitions[1].append()
    assert results_by_partition(broker.fetch(epoch=2)) == {1: (0, 1, 0)}
    waiting = broker.fetch((1, 1), epoch=3)
    await asyncio.sleep(0)
    broker.partitions[1].commit()
    await asyncio.sleep(0)
    assert not waiting.done(), "a high watermark alone ends no wait"
    broker.partitions[1].append()
    assert await soon(waiting) == {1: (0, 1, 1)}
    broker.partitions[2].commit()
    assert results_by_partition(broker.fetch((1, 2), epoch=4, wait_ms=0)) == {}, (
        "it is the same as before"
    )
    broker.partitions[1].commit()
    assert results_by_partition(broker.fetch(epoch=5, wait_ms=0)) == {1: (0, 0, 2)}
    waiting = broker.fetch(epoch=6)
    await asyncio.sleep(0)
    broker.partitions[1].append()
    assert await soon(waiting) == {1: (0, 1, 2)}, "it is still watched"


async def test_appends_before_the_response_are_included() -> None:
    broker = FakeBroker(5)
    broker.begin()
    waiting = broker.fetch(epoch=2)
    await asyncio.sleep(0)
    broker.partitions[1].append()
    # In the next turn, as a request that had arrived already.
    asyncio.get_running_loop().call_soon(broker.partitions[1].append)
    asyncio.get_running_loop().call_soon(broker.partitions[2].append)
    assert await soon(waiting) == {1: (0, 2, 0), 2: (0, 1, 0)}


async def test_a_fetch_offset_that_cannot_be_recorded_is_refused() -> None:
    broker = FakeBroker(2)
    broker.begin()
    broker.partitions[0].is_assigned = False
    refused = results_by_partition(broker.fetch((0, 0), epoch=2))
    assert refused == {0: (ErrorCode.unknown_topic_or_partition, 0, -1)}
    broker.partitions[0].is_assigned = True
    assert results_by_partition(broker.fetch(epoch=3, forgotten=[0], wait_ms=0)) == {}
    assert results_by_partition(broker.fetch((0, 0), epoch=4, wait_ms=0)) == {0: (0, 0, 0)}
    assert broker.partitions[0].noted == [0, 0]


async def test_a_leader_without_the_fetch_offset_of_an_idle_partition_asks_for_it() -> None:
    """A leader that reopens a log, for example after a full disk, forgets the fetch offsets."""
    broker = FakeBroker(2)
    broker.begin()
    broker.partitions[0].has_forgotten = True
    waiting = broker.fetch(epoch=2)
    asyncio.get_running_loop().call_soon(broker.partitions[0].commit)
    broker.partitions[1].append()
    found = await soon(waiting)
    assert found[0] == (ErrorCode.not_leader_or_follower, 0, -1)
    assert results_by_partition(broker.fetch((0, 0), epoch=3, wait_ms=0))[0] == (0, 0, 0)
    assert broker.partitions[0].noted == [0, 0]


async def test_a_follower_has_one_session_and_others_have_their_own() -> None:
    broker = FakeBroker(2)
    broker.begin()
    other = broker.fetch((0, 0), epoch=0, wait_ms=0, follower=3)
    assert results_by_partition(other) == {0: (0, 0, 0)}
    broker.partitions[1].append()
    assert results_by_partition(broker.fetch(epoch=2)) == {1: (0, 1, 0)}
    # A new session: the watches of the former one are gone.
    assert results_by_partition(broker.fetch((0, 0), epoch=0, wait_ms=0)) == {0: (0, 0, 0)}
    assert not broker.partitions[1].watchers
    assert not broker.partitions[1].append_watchers
    body = memoryview(b"".join(bytes(part) for part in broker.fetch(epoch=3)))
    assert codec.decode_response(VERSION, body, 0)[0] == ErrorCode.invalid_fetch_session_epoch
