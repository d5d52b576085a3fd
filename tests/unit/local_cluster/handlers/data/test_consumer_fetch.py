"""`ConsumerFetch` over partition doubles and a fake page cache: what it reads, and when."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

from local_cluster.counters.traffic import TopicsTraffic, TopicTraffic
from local_cluster.fetch_sessions.session_cache import FetchSessionCache
from local_cluster.handlers.data.consumer_fetch import ConsumerFetch
from local_cluster.handlers.deferred import Deferred, RecordsBody, ThrottledBody
from local_cluster.handlers.services import BrokerServices, RequestContext
from local_cluster.log.disk.cold_reads import ColdReads
from local_cluster.log.disk.page_cache import ColdReadError, is_warm_only
from local_cluster.quotas.client_quotas import ClientQuotas
from local_cluster.quotas.entity import CLIENT_ID, USER, entity
from local_cluster.wire import fetch as codec
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, KafkaError

VERSION = 12
LONG_MS = 600_000


class FakePartition:
    """A partition of one-byte records; `reads` counts its reads."""

    def __init__(self, index: int) -> None:
        self.index = index
        self.topic = "t"
        self.topic_id = uuid.UUID(int=1)
        self.log = SimpleNamespace(log_start_offset=0)
        self.high_watermark = 0
        self.last_stable_offset = 0
        self.reads = 0
        self.traffic = TopicTraffic()
        self.cold = 0
        self.watchers: set[Callable[[], None]] = set()

    in_sync = None

    def require_epoch(self, epoch: int) -> None:
        self.reads += 1

    def read(
        self, offset: int, *, bytes_max: int, offset_limit: int, at_least_one_batch: bool
    ) -> memoryview | None:
        if self.cold and is_warm_only():
            self.cold -= 1
            raise ColdReadError(cast(Any, self), 4096 * self.cold, 61)
        count = offset_limit - offset
        return memoryview(b"r" * count)[:bytes_max] if count > 0 else None

    def fileno(self) -> int:
        return self.index

    def append(self, count: int = 1) -> None:
        self.high_watermark += count
        self.last_stable_offset += count
        for wake in tuple(self.watchers):
            wake()

    def watch(self, wake: Callable[[], None]) -> None:
        self.watchers.add(wake)

    def unwatch(self, wake: Callable[[], None]) -> None:
        self.watchers.discard(wake)


class FakePageCache:
    def __init__(self) -> None:
        self.loads: list[tuple[int, int]] = []

    def warm_bytes(self, fd: int, position: int, size_bytes: int) -> int:
        raise AssertionError("a lookup asks by reading")

    def read_now(self, fd: int, size_bytes: int, position: int) -> bytes | None:
        raise AssertionError("only an outbox sends")

    def load(self, fd: int, position: int, size_bytes: int, read_ahead_bytes: int) -> None:
        self.loads.append((fd, position))


class FakeBroker:
    def __init__(self, partitions_count: int) -> None:
        self.partitions = [FakePartition(index) for index in range(partitions_count)]
        self.page_cache = FakePageCache()
        self.cold_reads = ColdReads(self.page_cache)
        self.clock = SimpleNamespace(monotonic_ms=lambda: self.now_ms)
        self.fetch_sessions = FetchSessionCache(lambda: 7)
        self.replicas = self
        self.traffic = TopicsTraffic()
        self.epoch = 0
        self.rights_version = 0
        self.now_ms: int = 0
        self.quotas = ClientQuotas({})
        self.may_read = True
        self.asked: list[tuple[str, str, str]] = []

    def authorize(self, context: RequestContext, operation: str, kind: str, name: str) -> bool:
        if not self.may_read:
            self.asked.append((operation, kind, name))
        return self.may_read

    def get_readable(self, topic: str, index: int) -> FakePartition:
        if index >= len(self.partitions):
            raise KafkaError(ErrorCode.unknown_topic_or_partition)
        return self.partitions[index]

    @property
    def reads(self) -> int:
        count = sum(partition.reads for partition in self.partitions)
        for partition in self.partitions:
            partition.reads = 0
        return count

    def fetch(
        self,
        *asked: tuple[int, int],
        session: tuple[int, int] = (0, -1),
        wait_ms: int = LONG_MS,
        bytes_min: int = 1,
        bytes_max: int = 1_000,
    ) -> Any:
        """Fetch (partition, offset) pairs; return bytes, parts or a Deferred."""
        entries = [codec.FetchPartition("t", i, -1, offset, -1, -1, 1_000) for i, offset in asked]
        request = codec.FetchRequest(
            -1, wait_ms, bytes_min, bytes_max, 0, *session, entries, (), ""
        )
        opened = self.fetch_sessions.open(*session, entries, (), uses_topic_ids=False, now_ms=0)
        context = RequestContext(ApiKey.FETCH, VERSION, 1, None, "User:p", "l", "h", 1)
        return ConsumerFetch(cast(BrokerServices, self), context, request, opened).run()


def records_by_partition(parts: Any) -> dict[int, int]:
    """Return the bytes of records by partition."""
    body = memoryview(b"".join(bytes(part) for part in parts))
    _, _, partitions = codec.decode_response(VERSION, body, 0)
    return {entry.partition: codec.records_size_bytes(entry.records) for entry in partitions}


async def soon(deferred: Any) -> dict[int, int]:
    assert isinstance(deferred, Deferred)
    async with asyncio.timeout(10):
        return records_by_partition(await deferred)


async def test_records_are_returned_at_once() -> None:
    broker = FakeBroker(2)
    broker.partitions[1].append(5)
    assert records_by_partition(broker.fetch((0, 0), (1, 2))) == {0: 0, 1: 3}
    assert not any(partition.watchers for partition in broker.partitions)


async def test_a_long_poll_reads_only_partitions_that_moved() -> None:
    broker = FakeBroker(2_000)
    waiting = broker.fetch(*((index, 0) for index in range(2_000)), bytes_min=3)
    assert broker.reads == 2_000
    broker.partitions[77].append(2)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not waiting.is_done, "not enough yet"
    assert broker.reads == 1
    broker.partitions[78].append(1)
    answer = await soon(waiting)
    assert {index: size for index, size in answer.items() if size} == {77: 2, 78: 1}
    assert broker.reads == 1
    assert not any(partition.watchers for partition in broker.partitions)


async def test_a_session_of_thousands_reads_only_partitions_that_moved() -> None:
    broker = FakeBroker(2_000)
    records_by_partition(
        broker.fetch(*((index, 0) for index in range(2_000)), session=(0, 0), wait_ms=0)
    )
    assert records_by_partition(broker.fetch(session=(7, 1), wait_ms=0)) == {}
    broker.reads  # noqa: B018 - counts from here
    assert records_by_partition(broker.fetch(session=(7, 2), wait_ms=0)) == {}
    assert broker.reads == 0
    broker.partitions[5].append(4)
    assert records_by_partition(broker.fetch(session=(7, 3))) == {5: 4}
    assert broker.reads == 1
    # The records are sent again until the client's fetch offset passes them.
    assert records_by_partition(broker.fetch(session=(7, 4))) == {5: 4}
    waiting = broker.fetch((5, 4), session=(7, 5))
    broker.partitions[1_999].append(1)
    assert await soon(waiting) == {1_999: 1}


async def test_records_that_did_not_fit_are_read_by_the_next_request() -> None:
    broker = FakeBroker(2)
    records_by_partition(broker.fetch((0, 0), (1, 0), session=(0, 0), wait_ms=0))
    records_by_partition(broker.fetch(session=(7, 1), wait_ms=0))
    for partition in broker.partitions:
        partition.append(5)
    first = records_by_partition(broker.fetch(session=(7, 2), bytes_max=5))
    assert first == {0: 5, 1: 0}, "the other high watermark has moved"
    second = records_by_partition(broker.fetch((0, 5), session=(7, 3), bytes_max=5))
    assert second == {1: 5}


async def test_the_wait_ends_with_the_timeout() -> None:
    broker = FakeBroker(1)
    assert await soon(broker.fetch((0, 0), wait_ms=10)) == {0: 0}


async def test_the_wait_ends_with_the_session() -> None:
    """A Java consumer that closes ends its session while an earlier request waits.

    Responses of a connection are in order: the client would wait for both until the timeout.
    """
    broker = FakeBroker(2)
    broker.partitions[0].append()
    broker.fetch((0, 0), (1, 0), session=(0, 0))
    waiting = broker.fetch((0, 1), session=(7, 1))
    assert records_by_partition(broker.fetch(session=(7, -1))) == {}
    assert await soon(waiting) == {}
    assert not any(partition.watchers for partition in broker.partitions)


async def test_an_error_does_not_wait() -> None:
    broker = FakeBroker(1)
    assert records_by_partition(broker.fetch((0, 0), (9, 0))) == {0: 0, 9: 0}


async def test_cold_lookups_are_loaded_and_repeated() -> None:
    broker = FakeBroker(3)
    for partition in broker.partitions:
        partition.append(3)
    broker.partitions[1].cold = 2
    waiting = broker.fetch((0, 0), (1, 0), (2, 0))
    assert await soon(waiting) == {0: 3, 1: 3, 2: 3}
    assert broker.page_cache.loads == [(1, 4096), (1, 0)]
    assert broker.partitions[0].reads == 1, "results are kept"


async def test_a_move_during_a_cold_lookup_is_not_missed() -> None:
    broker = FakeBroker(2)
    records_by_partition(broker.fetch((0, 0), (1, 0), session=(0, 0), wait_ms=0))
    broker.partitions[1].cold = 1
    waiting = broker.fetch(session=(7, 1))
    broker.partitions[0].append(2)
    assert await soon(waiting) == {0: 2}


async def test_a_range_that_stays_cold_is_read() -> None:
    broker = FakeBroker(1)
    broker.partitions[0].append(3)

    def always_cold(offset: int, **limits: Any) -> memoryview:
        if is_warm_only():
            raise ColdReadError(cast(Any, broker.partitions[0]), 0, 61)
        return memoryview(b"abc")

    broker.partitions[0].read = always_cold  # type: ignore[method-assign]
    assert await soon(broker.fetch((0, 0))) == {0: 3}


async def test_a_repeated_read_keeps_the_order_of_partitions() -> None:
    """Otherwise the response has two topics of the same name, and sarama keeps the second."""
    broker = FakeBroker(3)
    waiting = broker.fetch((0, 0), (1, 0), (2, 0))
    broker.partitions[0].append()
    assert list((await soon(waiting)).items()) == [(0, 1), (1, 0), (2, 0)]


async def test_records_read_before_a_revocation_do_not_leave_after_it() -> None:
    broker = FakeBroker(1)
    broker.partitions[0].append(5)
    waiting = broker.fetch((0, 0), bytes_min=100, wait_ms=10)
    broker.may_read = False
    broker.rights_version += 1
    assert await soon(waiting) == {0: 0}


async def test_records_that_wait_for_another_response_leave_only_with_the_right() -> None:
    broker = FakeBroker(2)
    broker.rights_version = 1
    broker.partitions[0].append(5)
    assert records_by_partition(broker.fetch((1, 0), wait_ms=0)) == {1: 0}, "nothing to guard"
    body = broker.fetch((0, 0), (1, 0))
    assert isinstance(body, RecordsBody)
    assert records_by_partition(body.body) == {0: 5, 1: 0}
    broker.may_read = False
    assert body.may_leave(), "nothing has changed"
    broker.rights_version = 2
    assert not body.may_leave()
    assert broker.asked == [("READ", "TOPIC", "t")], "where nothing was read nothing is asked"
    broker.may_read = True
    assert body.may_leave(), "rights of others have changed"


async def test_a_session_is_told_of_a_revocation_without_new_records() -> None:
    broker = FakeBroker(1)
    records_by_partition(broker.fetch((0, 0), session=(0, 0), wait_ms=0))
    assert records_by_partition(broker.fetch(session=(7, 1), wait_ms=0)) == {}
    broker.may_read = False
    broker.fetch_sessions.read_all_again()
    assert records_by_partition(broker.fetch(session=(7, 2))) == {0: 0}, "the error"


def throttled(reply: Any) -> tuple[int, int, int]:
    """Return (throttle time in ms, error code, session id) of a response without partitions."""
    assert isinstance(reply, ThrottledBody)
    parts: Any = reply.body
    body = memoryview(b"".join(bytes(part) for part in parts))
    error_code, session_id, partitions = codec.decode_response(VERSION, body, 0)
    assert not partitions
    assert int.from_bytes(body[:4]) == reply.throttle_ms
    return reply.throttle_ms, error_code, session_id


def limit(broker: FakeBroker, bytes_per_second: float) -> None:
    broker.quotas.set_quotas({entity({USER: "p"}): {"consumer_byte_rate": bytes_per_second}})


async def test_above_a_quota_a_response_is_empty_and_not_counted() -> None:
    broker = FakeBroker(1)
    broker.partitions[0].append(500)
    parts: Any = broker.fetch((0, 0), bytes_max=40)
    size_bytes = 4 + sum(len(bytes(part)) for part in parts)
    limit(broker, size_bytes / 10)
    assert records_by_partition(broker.fetch((0, 0), bytes_max=40)) == {0: 40}
    for _ in range(2):
        assert throttled(broker.fetch((0, 0), bytes_max=40)) == (10_000, 0, 0)
    assert not any(partition.watchers for partition in broker.partitions)
    broker.now_ms = 11_000
    assert records_by_partition(broker.fetch((0, 40), bytes_max=1)) == {0: 1}


async def test_a_response_is_no_larger_than_a_quota_lets_pass() -> None:
    broker = FakeBroker(1)
    broker.partitions[0].append(500)
    limit(broker, 7)
    too_much = throttled(broker.fetch((0, 0), bytes_min=400))[0]
    assert too_much < 20_000, "it is too large by its headers only"


async def test_quotas_of_others_do_not_throttle() -> None:
    broker = FakeBroker(1)
    broker.partitions[0].append(500)
    broker.quotas.set_quotas({entity({CLIENT_ID: "x"}): {"consumer_byte_rate": 1}})
    for _ in range(5):
        assert records_by_partition(broker.fetch((0, 0))) == {0: 500}


async def test_a_throttled_session_continues_with_all_it_left_out() -> None:
    broker = FakeBroker(2)
    asked = ((0, 0), (1, 0))
    assert records_by_partition(broker.fetch(*asked, session=(0, 0), wait_ms=0)) == {0: 0, 1: 0}
    broker.partitions[1].append(30)
    limit(broker, 1)
    throttle_ms, error_code, session_id = throttled(broker.fetch(session=(7, 1)))
    assert (error_code, session_id) == (0, 7)
    broker.now_ms = throttle_ms
    limit(broker, 1_000)
    assert records_by_partition(broker.fetch(session=(7, 2))) == {1: 30}


async def test_a_throttled_first_request_opens_no_session() -> None:
    broker = FakeBroker(1)
    broker.partitions[0].append(30)
    limit(broker, 1)
    assert throttled(broker.fetch((0, 0), session=(0, 0)))[1:] == (0, 0)
    assert len(broker.fetch_sessions) == 0
