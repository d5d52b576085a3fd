"""Incremental fetch sessions, after Kafka's FetchSessionTest."""

from __future__ import annotations

import itertools
import uuid

import pytest

from local_cluster.fetch_sessions.sessions import EVICTION_MS, FetchContext, FetchSessions
from local_cluster.wire.errors import ErrorCode, KafkaError
from local_cluster.wire.fetch import FetchPartition, ForgottenPartition, PartitionFetched
from tests.unit.local_cluster.fetch_sessions.watched_partition import WatchedPartition

FULL, FINAL = 0, -1


def asked(topic: str, index: int = 0, offset: int = 0) -> FetchPartition:
    return FetchPartition(topic, index, -1, offset, -1, -1, 100)


def told(
    topic: str,
    index: int = 0,
    *,
    high_watermark: int = 5,
    start: int = 0,
    records: bytes = b"",
    error: int = 0,
) -> PartitionFetched:
    return PartitionFetched(
        topic, index, error, high_watermark, high_watermark, start, None, -1, records
    )


class Client:
    """One fetching client and the cache, with the clock in the test's hand."""

    def __init__(self, slots_max: int = 2) -> None:
        ids = itertools.chain([0, 1, 1], itertools.count(2))
        self.sessions = FetchSessions(lambda: next(ids), slots_max=slots_max)
        self.now_ms = 0

    def open(
        self,
        session_id: int,
        epoch: int,
        *partitions: FetchPartition,
        gone: tuple[str, ...] = (),
        ids: bool = False,
    ) -> FetchContext:
        forgotten = [ForgottenPartition(topic, 0) for topic in gone]
        return self.sessions.open(
            session_id, epoch, partitions, forgotten, uses_topic_ids=ids, now_ms=self.now_ms
        )

    def answer(self, context: FetchContext, *results: PartitionFetched) -> tuple[int, list[str]]:
        error, session_id, news = context.answer(results, self.now_ms)
        assert error == ErrorCode.none
        return session_id, [result.topic for result in news]

    def begin(self, *topics: str) -> int:
        context = self.open(0, FULL, *(asked(topic) for topic in topics))
        session_id, news = self.answer(context, *(told(topic) for topic in topics))
        assert news == list(topics), "a full answer tells everything"
        return session_id

    def refusal(self, session_id: int, epoch: int, *, ids: bool = False) -> ErrorCode:
        with pytest.raises(KafkaError) as refused:
            self.open(session_id, epoch, ids=ids)
        return refused.value.code


def test_a_request_without_a_session_gets_none() -> None:
    client = Client()
    context = client.open(0, FINAL, asked("a"))
    assert client.answer(context, told("a")) == (0, ["a"])
    assert len(client.sessions) == 0


def test_only_news_is_told() -> None:
    client = Client()
    session = client.begin("a", "b", "c", "d")
    context = client.open(session, 1)
    assert [entry.topic for entry in context.partitions] == ["a", "b", "c", "d"]
    answer = client.answer(
        context,
        told("a"),
        told("b", high_watermark=6),
        told("c", start=1),
        told("d", records=b"r"),
    )
    assert answer == (session, ["b", "c", "d"])
    again = client.open(session, 2)
    results = [told("a"), told("b", high_watermark=6), told("c", start=1), told("d")]
    assert client.answer(again, *results) == (session, [])


def test_an_error_is_told_each_time_and_its_end_too() -> None:
    client = Client()
    session = client.begin("a")
    for epoch, error, news in ((1, 3, ["a"]), (2, 3, ["a"]), (3, 0, ["a"]), (4, 0, [])):
        context = client.open(session, epoch)
        assert client.answer(context, told("a", error=error)) == (session, news)


def test_a_high_watermark_that_came_with_a_diverging_epoch_is_told_again() -> None:
    client = Client()
    session = client.begin("a")
    context = client.open(session, 1)
    apart = told("a", high_watermark=6)._replace(diverging_epoch=(1, 4))
    assert client.answer(context, apart) == (session, ["a"])
    context = client.open(session, 2, asked("a", offset=4))
    assert client.answer(context, told("a", high_watermark=6)) == (session, ["a"])
    context = client.open(session, 3)
    assert client.answer(context, told("a", high_watermark=6)) == (session, [])


def test_who_asks_again_at_the_same_place_is_told_again() -> None:
    client = Client()
    session = client.begin("a", "b")
    context = client.open(session, 1, asked("a"), asked("b", offset=1))
    assert client.answer(context, told("a"), told("b")) == (session, ["a"])


def test_partitions_come_change_and_go() -> None:
    client = Client()
    session = client.begin("a", "b")
    context = client.open(session, 1, asked("b", offset=7), asked("c"), gone=("a",))
    assert [(e.topic, e.fetch_offset) for e in context.partitions] == [("b", 7), ("c", 0)]
    assert client.answer(context, told("b"), told("c")) == (session, ["c"]), "new: never told"


def test_a_session_without_partitions_ends() -> None:
    client = Client()
    session = client.begin("a")
    context = client.open(session, 1, gone=("a",))
    assert client.answer(context) == (0, [])
    assert client.refusal(session, 2) == ErrorCode.fetch_session_id_not_found


def test_whoever_had_records_comes_last_next_time() -> None:
    client = Client()
    session = client.begin("a", "b", "c")
    context = client.open(session, 1)
    client.answer(context, told("a", records=b"r"), told("b"), told("c"))
    assert [entry.topic for entry in client.open(session, 2).partitions] == ["b", "c", "a"]


def test_epochs_and_ids_are_checked() -> None:
    client = Client()
    session = client.begin("a")
    assert client.refusal(99, 1) == ErrorCode.fetch_session_id_not_found
    assert client.refusal(session, 2) == ErrorCode.invalid_fetch_session_epoch
    assert client.refusal(session, 1, ids=True) == ErrorCode.fetch_session_topic_id_error
    client.open(session, 1)
    assert client.refusal(session, 1) == ErrorCode.invalid_fetch_session_epoch, "a repetition"


def test_an_overtaken_request_tells_nothing() -> None:
    client = Client()
    session = client.begin("a")
    waiting = client.open(session, 1)
    client.open(session, 2)
    error, session_id, news = waiting.answer([told("a", records=b"r")], 0)
    assert (error, session_id, news) == (ErrorCode.invalid_fetch_session_epoch, session, ())


@pytest.mark.parametrize("epoch", [FULL, FINAL])
def test_a_full_request_ends_the_session_it_names(epoch: int) -> None:
    client = Client()
    session = client.begin("a")
    client.open(session, epoch, asked("a"))
    assert client.refusal(session, 1) == ErrorCode.fetch_session_id_not_found


def test_epochs_wrap_to_one() -> None:
    client = Client()
    session = client.begin("a")
    client.sessions._sessions[session].epoch = (1 << 31) - 1
    client.open(session, (1 << 31) - 1)
    client.open(session, 1)


def test_without_room_there_is_no_session() -> None:
    client = Client(slots_max=2)
    assert [client.begin("a"), client.begin("a"), client.begin("a")] == [1, 2, 0]
    assert Client(slots_max=0).begin("a") == 0


def test_the_idle_go_first_and_the_small_when_they_are_old() -> None:
    client = Client(slots_max=2)
    idle, used = client.begin("a", "b"), client.begin("a")
    client.now_ms = EVICTION_MS
    client.open(used, 1)
    assert client.begin("a", "b", "c") == 0, "both are safe"
    client.now_ms += 1
    third = client.begin("x", "y")
    assert third != 0, "the idle one made room"
    assert client.refusal(idle, 1) == ErrorCode.fetch_session_id_not_found
    client.open(used, 2)
    assert client.begin("a") == 0, "not smaller than this one"
    assert client.begin("a", "b") != 0, "old and smaller: it made room though it is in use"
    assert client.refusal(used, 3) == ErrorCode.fetch_session_id_not_found
    client.open(third, 1)


def test_topics_by_id_are_told_apart() -> None:
    client = Client()
    ids = [uuid.UUID(int=number) for number in (1, 2)]
    entries = [asked("")._replace(topic_id=topic_id) for topic_id in ids]
    context = client.open(0, FULL, *entries, ids=True)
    results = [told("")._replace(topic_id=topic_id) for topic_id in ids]
    _, session, _ = context.answer(results, 0)
    context = client.open(session, 1, ids=True)
    assert [entry.topic_id for entry in context.partitions] == ids
    results[1] = results[1]._replace(high_watermark=9)
    _, _, news = context.answer(results, 0)
    assert [result.topic_id for result in news] == [ids[1]]


def test_what_was_read_to_its_end_is_looked_at_again_when_it_moved() -> None:
    client = Client()
    names = ["a", "b", "c"]
    session = client.begin(*names)
    things = {name: WatchedPartition() for name in names}
    context = client.open(session, 1)
    assert context.session is not None
    for name in names:
        context.session.watches.add((name, 0), things[name])
    client.answer(context, *(told(name) for name in names))
    for name in names:
        context.session.settle((name, 0))
    assert client.open(session, 2).partitions == []
    things["b"].move()
    things["b"].move()
    context = client.open(session, 3, asked("c", offset=9))
    assert [(e.topic, e.fetch_offset) for e in context.partitions] == [("b", 0), ("c", 9)]
    waiting: list[object] = []
    assert context.session is not None
    context.session.on_moved = waiting.append
    things["a"].move()
    assert waiting == [("a", 0)]


@pytest.mark.parametrize("epoch", [FULL, FINAL])
def test_a_session_that_ends_watches_nothing(epoch: int) -> None:
    client = Client()
    session, thing = client.begin("a", "b"), WatchedPartition()
    context = client.open(session, 1)
    assert context.session is not None
    context.session.watches.add(("a", 0), thing)
    context.session.watches.add(("b", 0), WatchedPartition())
    client.open(session, 2, gone=("b",))
    assert len(context.session.watches) == 1
    client.open(session, epoch, asked("a"))
    assert not thing.watchers


def test_where_to_read_instead_is_told_though_nothing_else_is_new() -> None:
    client = Client()
    context = client.open(0, FULL, asked("a"))
    session_id, _ = client.answer(context, told("a"))
    context = client.open(session_id, 1)
    redirected = told("a")._replace(preferred_read_replica=2)
    assert client.answer(context, redirected) == (session_id, ["a"])
    context = client.open(session_id, 2)
    assert client.answer(context, told("a")) == (session_id, [])
