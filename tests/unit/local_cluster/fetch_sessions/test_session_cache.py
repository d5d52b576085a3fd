"""Incremental fetch sessions, as in Kafka's FetchSessionTest."""

from __future__ import annotations

import itertools
import uuid

import pytest

from local_cluster.fetch_sessions.session_cache import (
    EVICTION_MS,
    PARTITIONS_PER_SESSION_MAX,
    FetchContext,
    FetchSessionCache,
)
from local_cluster.wire.errors import ErrorCode, KafkaError
from local_cluster.wire.fetch import FetchPartition, ForgottenPartition, PartitionFetchResponse
from tests.unit.local_cluster.fetch_sessions.watched import Watched

FULL, FINAL = 0, -1


def requested(topic: str, index: int = 0, offset: int = 0) -> FetchPartition:
    return FetchPartition(topic, index, -1, offset, -1, -1, 100)


def result(
    topic: str,
    index: int = 0,
    *,
    high_watermark: int = 5,
    start: int = 0,
    records: bytes = b"",
    error: int = 0,
) -> PartitionFetchResponse:
    return PartitionFetchResponse(
        topic, index, error, high_watermark, high_watermark, start, None, -1, records
    )


class Client:
    """A client and the cache. The test sets the time."""

    def __init__(
        self, slots_max: int = 2, partitions_max: int = PARTITIONS_PER_SESSION_MAX
    ) -> None:
        ids = itertools.chain([0, 1, 1], itertools.count(2))
        self.sessions = FetchSessionCache(
            lambda: next(ids), slots_max=slots_max, partitions_max=partitions_max
        )
        self.now_ms = 0

    def open(
        self,
        session_id: int,
        epoch: int,
        *partitions: FetchPartition,
        forget: tuple[str, ...] = (),
        ids: bool = False,
    ) -> FetchContext:
        forgotten = [ForgottenPartition(topic, 0) for topic in forget]
        return self.sessions.open(
            session_id, epoch, partitions, forgotten, uses_topic_ids=ids, now_ms=self.now_ms
        )

    def answer(
        self, context: FetchContext, *results: PartitionFetchResponse
    ) -> tuple[int, list[str]]:
        error, session_id, included = context.answer(results, self.now_ms)
        assert error == ErrorCode.none
        return session_id, [each.topic for each in included]

    def begin(self, *topics: str) -> int:
        context = self.open(0, FULL, *(requested(topic) for topic in topics))
        session_id, included = self.answer(context, *(result(topic) for topic in topics))
        assert included == list(topics), "a full response has everything"
        return session_id

    def refusal(self, session_id: int, epoch: int, *, ids: bool = False) -> ErrorCode:
        with pytest.raises(KafkaError) as refused:
            self.open(session_id, epoch, ids=ids)
        return refused.value.code


def test_a_request_without_a_session_gets_none() -> None:
    client = Client()
    context = client.open(0, FINAL, requested("a"))
    assert client.answer(context, result("a")) == (0, ["a"])
    assert len(client.sessions) == 0


def test_only_changed_partitions_are_included() -> None:
    client = Client()
    session = client.begin("a", "b", "c", "d")
    context = client.open(session, 1)
    assert [entry.topic for entry in context.partitions] == ["a", "b", "c", "d"]
    answer = client.answer(
        context,
        result("a"),
        result("b", high_watermark=6),
        result("c", start=1),
        result("d", records=b"r"),
    )
    assert answer == (session, ["b", "c", "d"])
    again = client.open(session, 2)
    results = [result("a"), result("b", high_watermark=6), result("c", start=1), result("d")]
    assert client.answer(again, *results) == (session, [])


def test_an_error_is_included_each_time_and_its_end_too() -> None:
    client = Client()
    session = client.begin("a")
    for epoch, error, included in ((1, 3, ["a"]), (2, 3, ["a"]), (3, 0, ["a"]), (4, 0, [])):
        context = client.open(session, epoch)
        assert client.answer(context, result("a", error=error)) == (session, included)


def test_a_high_watermark_beside_a_diverging_epoch_is_included_again() -> None:
    client = Client()
    session = client.begin("a")
    context = client.open(session, 1)
    apart = result("a", high_watermark=6)._replace(diverging_epoch=(1, 4))
    assert client.answer(context, apart) == (session, ["a"])
    context = client.open(session, 2, requested("a", offset=4))
    assert client.answer(context, result("a", high_watermark=6)) == (session, ["a"])
    context = client.open(session, 3)
    assert client.answer(context, result("a", high_watermark=6)) == (session, [])


def test_a_request_at_the_same_offset_gets_the_high_watermark_again() -> None:
    client = Client()
    session = client.begin("a", "b")
    context = client.open(session, 1, requested("a"), requested("b", offset=1))
    assert client.answer(context, result("a"), result("b")) == (session, ["a"])


def test_partitions_are_added_changed_and_forgotten() -> None:
    client = Client()
    session = client.begin("a", "b")
    context = client.open(session, 1, requested("b", offset=7), requested("c"), forget=("a",))
    assert [(e.topic, e.fetch_offset) for e in context.partitions] == [("b", 7), ("c", 0)]
    assert client.answer(context, result("b"), result("c")) == (session, ["c"]), "it is new"


def test_a_session_without_partitions_ends() -> None:
    client = Client()
    session = client.begin("a")
    context = client.open(session, 1, forget=("a",))
    assert client.answer(context) == (0, [])
    assert client.refusal(session, 2) == ErrorCode.fetch_session_id_not_found


def test_a_partition_with_records_comes_last_next_time() -> None:
    client = Client()
    session = client.begin("a", "b", "c")
    context = client.open(session, 1)
    client.answer(context, result("a", records=b"r"), result("b"), result("c"))
    assert [entry.topic for entry in client.open(session, 2).partitions] == ["b", "c", "a"]


def test_epochs_and_ids_are_checked() -> None:
    client = Client()
    session = client.begin("a")
    assert client.refusal(99, 1) == ErrorCode.fetch_session_id_not_found
    assert client.refusal(session, 2) == ErrorCode.invalid_fetch_session_epoch
    assert client.refusal(session, 1, ids=True) == ErrorCode.fetch_session_topic_id_error
    client.open(session, 1)
    assert client.refusal(session, 1) == ErrorCode.invalid_fetch_session_epoch, "a repeated request"


def test_an_overtaken_request_is_refused() -> None:
    client = Client()
    session = client.begin("a")
    waiting = client.open(session, 1)
    client.open(session, 2)
    error, session_id, included = waiting.answer([result("a", records=b"r")], 0)
    assert (error, session_id, included) == (ErrorCode.invalid_fetch_session_epoch, session, ())


@pytest.mark.parametrize("epoch", [FULL, FINAL])
def test_a_full_request_ends_the_session_it_names(epoch: int) -> None:
    client = Client()
    session = client.begin("a")
    client.open(session, epoch, requested("a"))
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


def test_idle_sessions_are_evicted_first_and_small_ones_when_they_are_old() -> None:
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


def test_a_session_has_so_many_partitions_and_no_more() -> None:
    client = Client(partitions_max=2)
    assert client.begin("a", "b", "c") == 0, "the request is served without a session"
    session = client.begin("a", "b")
    assert session != 0
    client.open(session, 1, requested("a", offset=5), requested("b", offset=5))  # none is new
    with pytest.raises(KafkaError, match="at most 2 partitions") as refused:
        client.open(session, 2, requested("c"))
    assert refused.value.code == ErrorCode.invalid_request
    assert client.refusal(session, 1) == ErrorCode.fetch_session_id_not_found


def test_topics_by_id_are_distinguished() -> None:
    client = Client()
    ids = [uuid.UUID(int=number) for number in (1, 2)]
    entries = [requested("")._replace(topic_id=topic_id) for topic_id in ids]
    context = client.open(0, FULL, *entries, ids=True)
    results = [result("")._replace(topic_id=topic_id) for topic_id in ids]
    _, session, _ = context.answer(results, 0)
    context = client.open(session, 1, ids=True)
    assert [entry.topic_id for entry in context.partitions] == ids
    results[1] = results[1]._replace(high_watermark=9)
    _, _, included = context.answer(results, 0)
    assert [each.topic_id for each in included] == [ids[1]]


def test_a_partition_read_to_its_end_is_read_again_when_it_has_changed() -> None:
    client = Client()
    names = ["a", "b", "c"]
    session = client.begin(*names)
    partitions = {name: Watched() for name in names}
    context = client.open(session, 1)
    assert context.session is not None
    for name in names:
        context.session.watches.add((name, 0), partitions[name])
    client.answer(context, *(result(name) for name in names))
    for name in names:
        context.session.settle((name, 0))
    assert client.open(session, 2).partitions == []
    partitions["b"].change()
    partitions["b"].change()
    context = client.open(session, 3, requested("c", offset=9))
    assert [(e.topic, e.fetch_offset) for e in context.partitions] == [("b", 0), ("c", 9)]
    waiting: list[object] = []
    assert context.session is not None
    context.session.on_changed = waiting.append
    partitions["a"].change()
    assert waiting == [("a", 0)]


@pytest.mark.parametrize("epoch", [FULL, FINAL])
def test_a_session_that_ends_watches_nothing(epoch: int) -> None:
    client = Client()
    session, partition = client.begin("a", "b"), Watched()
    context = client.open(session, 1)
    assert context.session is not None
    context.session.watches.add(("a", 0), partition)
    context.session.watches.add(("b", 0), Watched())
    client.open(session, 2, forget=("b",))
    assert len(context.session.watches) == 1
    client.open(session, epoch, requested("a"))
    assert not partition.watchers


def test_a_preferred_replica_is_included_without_any_other_change() -> None:
    client = Client()
    context = client.open(0, FULL, requested("a"))
    session_id, _ = client.answer(context, result("a"))
    context = client.open(session_id, 1)
    redirected = result("a")._replace(preferred_read_replica=2)
    assert client.answer(context, redirected) == (session_id, ["a"])
    context = client.open(session_id, 2)
    assert client.answer(context, result("a")) == (session_id, [])
