"""Whatever is lost, and whatever the broker forgets: it fetches what the client wants, from there.

Against a plain model of a broker's fetch sessions, and against those of our own broker.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Sequence
from typing import Protocol
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from local_cluster.client.fetch_session import FetchSession, SessionRequest, fetch_in_session
from local_cluster.client.model import (
    FetchedPartition,
    FetchPosition,
    SessionAnswer,
    TopicPartition,
)
from local_cluster.fetch_sessions.session_cache import FetchSessionCache
from local_cluster.wire.errors import ErrorCode, KafkaError
from local_cluster.wire.fetch import FetchPartition, ForgottenPartition, PartitionFetchResponse

PARTITIONS = [TopicPartition(f"t{index // 2}", index % 2) for index in range(4)]

Key = tuple[UUID | str, int]
"""A partition as it is named: topic id or name, index."""
Fetched = dict[Key, int]


def key_of(at: TopicPartition, topic_id: UUID | None, is_by_id: bool) -> Key:
    return (topic_id if is_by_id and topic_id is not None else at.topic, at.partition)


class Broker(Protocol):
    """High watermarks by partition; None where the partition is refused."""

    ends: dict[TopicPartition, int | None]
    fetched: Fetched
    """What the last request read, and from where."""

    def serve(self, request: SessionRequest) -> SessionAnswer: ...

    def forget(self) -> None: ...


class ModelBroker:
    """KIP-227 in a few lines: a session is its epoch, its positions, and what it told of each."""

    def __init__(self, slots: int) -> None:
        self.ends: dict[TopicPartition, int | None] = dict.fromkeys(PARTITIONS, 0)
        self.fetched: Fetched = {}
        self._slots = slots
        self._ids = itertools.count(1)
        self._sessions: dict[int, tuple[int, Fetched, dict[Key, int | None]]] = {}
        self._names: dict[Key, TopicPartition] = {}

    def forget(self) -> None:
        self._sessions.clear()

    def serve(self, request: SessionRequest) -> SessionAnswer:
        asked: Fetched = {}
        for at, position in request.named.items():
            key = key_of(at, position.topic_id, request.is_by_id)
            asked[key] = position.offset
            self._names[key] = at
        if request.session_epoch <= 0:
            self._sessions.pop(request.session_id, None)
            session_id = 0
            self.fetched, told = asked, dict[Key, int | None]()
            if request.session_epoch == 0 and len(self._sessions) < self._slots:
                session_id = next(self._ids)
                self._sessions[session_id] = (1, asked, told)
            return self._answer(session_id, told)
        if request.session_id not in self._sessions:
            raise KafkaError(ErrorCode.fetch_session_id_not_found)
        epoch, positions, told = self._sessions[request.session_id]
        if epoch != request.session_epoch:
            raise KafkaError(ErrorCode.invalid_fetch_session_epoch)
        positions |= asked
        for at, topic_id in request.forgotten:
            key = key_of(at, topic_id, request.is_by_id)
            positions.pop(key, None)
            told.pop(key, None)
        self._sessions[request.session_id] = (epoch + 1, positions, told)
        self.fetched = dict(positions)
        return self._answer(request.session_id, told)

    def _answer(self, session_id: int, told: dict[Key, int | None]) -> SessionAnswer:
        news = {}
        for key in self.fetched:
            at = self._names[key]
            end = self.ends[at]
            if end is None or key not in told or told[key] != end:
                told[key] = end
                code = ErrorCode.not_leader_or_follower if end is None else ErrorCode.none
                news[at] = FetchedPartition(
                    code, -1 if end is None else end, 0, 0, (), memoryview(b"")
                )
        return SessionAnswer(session_id, 0, news)


class OurBroker:
    """`FetchSessionCache` as the broker's fetch handler uses them."""

    def __init__(self, slots: int) -> None:
        self.ends: dict[TopicPartition, int | None] = dict.fromkeys(PARTITIONS, 0)
        self.fetched: Fetched = {}
        ids = itertools.count(1)
        self._names: dict[Key, TopicPartition] = {}
        self._sessions = FetchSessionCache(lambda: next(ids), slots_max=slots)

    def forget(self) -> None:
        self._sessions.close()

    def serve(self, request: SessionRequest) -> SessionAnswer:
        by_id = request.is_by_id
        for at, to in request.named.items():
            self._names[key_of(at, to.topic_id, by_id)] = at
        context = self._sessions.open(
            request.session_id,
            request.session_epoch,
            [
                FetchPartition(
                    *("" if by_id else at.topic, at.partition, -1, to.offset, -1, -1, 1),
                    to.topic_id if by_id else None,
                )
                for at, to in request.named.items()
            ],
            [
                ForgottenPartition("" if by_id else at.topic, at.partition, topic_id)
                if by_id
                else ForgottenPartition(*at)
                for at, topic_id in request.forgotten
            ],
            uses_topic_ids=by_id,
            now_ms=0,
        )
        entries = context.partitions
        self.fetched = {(e.topic_id or e.topic, e.partition): e.fetch_offset for e in entries}
        error, session_id, told = context.answer([self._read(entry) for entry in entries], 0)
        assert not error
        return SessionAnswer(
            session_id,
            0,
            {
                self._names[each.topic_id or each.topic, each.partition]: FetchedPartition(
                    ErrorCode(each.error_code), each.high_watermark, 0, 0, (), memoryview(b"")
                )
                for each in told
            },
        )

    def _read(self, entry: FetchPartition) -> PartitionFetchResponse:
        end = self.ends[self._names[entry.topic_id or entry.topic, entry.partition]]
        read = PartitionFetchResponse(entry.topic, entry.partition, 0, topic_id=entry.topic_id)
        if end is None:
            return read._replace(error_code=ErrorCode.not_leader_or_follower)
        return read._replace(high_watermark=end, last_stable_offset=end, log_start_offset=0)


partitions = st.sampled_from(PARTITIONS)
fates = st.sampled_from(["served", "served", "served", "lost request", "lost answer"])
steps = st.one_of(
    st.tuples(st.just("ask"), partitions, st.integers(0, 3)),
    st.tuples(st.just("leave out"), partitions, st.just(0)),
    st.tuples(st.just("moves"), partitions, st.integers(0, 3)),
    st.tuples(st.just("is refused"), partitions, st.just(0)),
    st.tuples(st.just("forgets"), partitions, st.just(0)),
    st.tuples(st.just("is re-created"), partitions, st.integers(1, 3)),
    st.tuples(st.just("broker changes"), partitions, st.integers(0, 1)),
    *(2 * [st.tuples(st.just("poll"), fates, st.just(0))]),
)


@pytest.mark.parametrize("broker_of", [ModelBroker, OurBroker])
@given(slots=st.integers(0, 2), steps=st.lists(steps, max_size=40))
def test_a_broker_fetches_what_is_wanted(
    broker_of: Callable[[int], Broker], slots: int, steps: Sequence[tuple[str, object, int]]
) -> None:
    asyncio.run(_run(broker_of(slots), steps))


async def _run(broker: Broker, steps: Sequence[tuple[str, object, int]]) -> None:
    session = FetchSession()
    ids: dict[str, UUID] = {}
    for step, what, number in steps:
        if isinstance(what, TopicPartition):
            match step:
                case "ask":
                    session.add(what, FetchPosition(number, topic_id=ids.get(what.topic)))
                case "is re-created":
                    ids[what.topic] = UUID(int=PARTITIONS.index(what) // 2 * 10 + number)
                    for at in [at for at in session.wanted if at.topic == what.topic]:
                        session.add(at, FetchPosition(number, topic_id=ids[what.topic]))
                case "broker changes":
                    session.knows_topic_ids = bool(number)
                case "leave out":
                    session.remove(what)
                case "moves":
                    broker.ends[what] = number
                case "is refused":
                    broker.ends[what] = None
                case "forgets":
                    broker.forget()
        elif session.wanted:
            await _poll(session, broker, str(what))
    if session.wanted:
        # Whatever happened: the next answer that comes is about all that is wanted.
        await _poll(session, broker, "served")


async def _poll(session: FetchSession, broker: Broker, fate: str) -> None:
    requests: list[SessionRequest] = []

    async def send(request: SessionRequest) -> SessionAnswer:
        requests.append(request)
        if fate == "lost request":
            raise KafkaError(ErrorCode.network_exception)
        answer = broker.serve(request)
        if fate == "lost answer":
            raise KafkaError(ErrorCode.network_exception)
        return answer

    try:
        await fetch_in_session(session, send)
    except KafkaError as error:
        assert fate != "served", error
        return
    asked = requests[-1]
    wanted = {
        key_of(at, position.topic_id, asked.is_by_id): position.offset
        for at, position in session.wanted.items()
    }
    assert broker.fetched == wanted
    assert {at: session.high_watermark(at) for at in session.wanted} == {
        at: broker.ends[at] for at in session.wanted
    }
