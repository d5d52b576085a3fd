"""What the requests of a client's fetch session name."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from uuid import UUID

import pytest

from local_cluster.client.fetch_session import FetchSession, SessionRequest, fetch_in_session
from local_cluster.client.model import (
    FetchedPartition,
    FetchPosition,
    SessionAnswer,
    TopicPartition,
)
from local_cluster.wire.errors import ErrorCode, KafkaError

A, B, C = (TopicPartition(name, 0) for name in "abc")
ID = 7


def answer(
    session_id: int = ID,
    ends: Iterable[tuple[TopicPartition, int]] = (),
    refused: ErrorCode | None = None,
) -> SessionAnswer:
    code = refused or ErrorCode.none
    return SessionAnswer(
        session_id,
        0,
        {at: FetchedPartition(code, end, end, 0, (), memoryview(b"")) for at, end in ends},
    )


def begun(*partitions: TopicPartition) -> FetchSession:
    session = FetchSession()
    for at in partitions:
        session.add(at, FetchPosition(0))
    assert session.next_request().is_full
    session.record_response(answer())
    return session


def test_the_first_request_names_everything_and_the_next_nothing() -> None:
    session = FetchSession()
    session.add(A, FetchPosition(5))
    session.add(B, FetchPosition(6))
    everything = {A: FetchPosition(5), B: FetchPosition(6)}
    assert session.next_request() == SessionRequest(0, 0, everything, ())
    session.record_response(answer())
    assert session.next_request() == SessionRequest(ID, 1, {}, [])
    session.record_response(answer())
    assert session.next_request().session_epoch == 2


def test_added_moved_and_removed_partitions_are_named_once() -> None:
    session = begun(A, B)
    session.add(A, FetchPosition(1))
    session.add(C, FetchPosition(0))
    session.remove(B)
    changed = {A: FetchPosition(1), C: FetchPosition(0)}
    assert session.next_request() == SessionRequest(ID, 1, changed, [(B, None)])
    session.record_response(answer())
    assert session.next_request() == SessionRequest(ID, 2, {}, [])


def test_another_last_fetched_epoch_is_another_position() -> None:
    session = begun(A)
    session.add(A, FetchPosition(0, last_fetched_epoch=3))
    assert session.next_request().named == {A: FetchPosition(0, last_fetched_epoch=3)}


def test_an_unchanged_position_is_not_named_again() -> None:
    session = begun(A, B)
    session.add(A, FetchPosition(1))
    session.add(A, FetchPosition(0))
    session.remove(B)
    session.add(B, FetchPosition(0))
    session.remove(C)
    assert session.next_request() == SessionRequest(ID, 1, {}, [])


def test_without_a_session_each_request_names_everything() -> None:
    session = begun(A)
    session.next_request()
    session.record_response(answer(0))
    assert session.next_request() == SessionRequest(0, 0, {A: FetchPosition(0)}, ())


def test_after_a_failure_everything_is_named_and_the_old_session_ends() -> None:
    session = begun(A)
    session.add(B, FetchPosition(0))
    session.next_request()
    session.fail()
    again = {A: FetchPosition(0), B: FetchPosition(0)}
    assert session.next_request() == SessionRequest(ID, 0, again, ())
    session.record_response(answer(8))
    assert session.next_request() == SessionRequest(8, 1, {}, [])


def test_a_session_is_closed_once_and_then_starts_over() -> None:
    assert FetchSession().closing_request() is None
    session = begun(A)
    assert session.closing_request() == SessionRequest(ID, -1, {}, ())
    assert session.closing_request() is None
    assert session.next_request() == SessionRequest(0, 0, {A: FetchPosition(0)}, ())


def test_a_session_whose_response_was_lost_can_be_closed() -> None:
    session = begun(A)
    session.next_request()
    session.fail()
    assert session.closing_request() == SessionRequest(ID, -1, {}, ())


def test_a_high_watermark_is_kept_until_its_partition_is_removed() -> None:
    session = FetchSession()
    for at in (A, B, C):
        session.add(at, FetchPosition(0))
    assert session.high_watermark(A) is None
    session.next_request()
    session.record_response(answer(ends=[(A, 5), (B, 6), (C, 7)]))
    session.remove(B)
    session.next_request()
    session.record_response(answer(ends=[(A, 8)]))
    assert [session.high_watermark(at) for at in (A, B, C)] == [8, None, 7]
    session.next_request()
    session.record_response(answer(ends=[(C, -1)], refused=ErrorCode.not_leader_or_follower))
    assert [session.high_watermark(at) for at in (A, C)] == [8, None]


def by_id(*topic_ids: tuple[TopicPartition, UUID]) -> FetchSession:
    session = FetchSession()
    session.knows_topic_ids = True
    for at, topic_id in topic_ids:
        session.add(at, FetchPosition(0, topic_id=topic_id))
    assert session.next_request().is_by_id
    session.record_response(answer())
    return session


def test_a_recreated_topic_is_forgotten_by_its_old_id() -> None:
    session = by_id((A, UUID(int=1)))
    again = FetchPosition(0, topic_id=UUID(int=2))
    session.add(A, again)
    request = session.next_request()
    assert request == SessionRequest(ID, 1, {A: again}, [(A, UUID(int=1))], True)
    assert session.topic_name(UUID(int=2)) == "a"


def test_one_position_without_an_id_makes_the_session_name_all_by_name() -> None:
    session = by_id((A, UUID(int=1)))
    session.add(B, FetchPosition(0))
    request = session.next_request()
    assert request.is_full and not request.is_by_id
    assert set(request.named) == {A, B}


def test_a_broker_that_no_longer_knows_ids_gets_names() -> None:
    session = by_id((A, UUID(int=1)))
    session.knows_topic_ids = False
    request = session.next_request()
    assert request.is_full and not request.is_by_id


def test_a_session_by_name_stays_one_until_it_starts_over() -> None:
    session = begun(A)
    session.knows_topic_ids = True
    session.add(A, FetchPosition(0, topic_id=UUID(int=1)))
    assert not session.next_request().is_by_id
    session.fail()
    assert session.next_request().is_by_id


class Broker:
    """Sends the given responses, in order."""

    def __init__(self, *answers: SessionAnswer | BaseException) -> None:
        self._answers = list(answers)
        self.requests: list[SessionRequest] = []

    async def __call__(self, request: SessionRequest) -> SessionAnswer:
        self.requests.append(request)
        given = self._answers.pop(0)
        if isinstance(given, BaseException):
            raise given
        return given


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.fetch_session_id_not_found,
        ErrorCode.invalid_fetch_session_epoch,
        ErrorCode.fetch_session_topic_id_error,
    ],
)
def test_a_lost_session_starts_over_within_the_call(code: ErrorCode) -> None:
    session = begun(A)
    broker = Broker(KafkaError(code), answer(9))
    given = asyncio.run(fetch_in_session(session, broker))
    assert given == answer(9)
    assert [request.is_full for request in broker.requests] == [False, True]
    assert broker.requests[1].named == {A: FetchPosition(0)}


def test_a_broker_that_loses_each_session_gets_two_requests() -> None:
    lost = KafkaError(ErrorCode.fetch_session_id_not_found)
    broker = Broker(lost, lost)
    with pytest.raises(KafkaError):
        asyncio.run(fetch_in_session(begun(A), broker))
    assert len(broker.requests) == 2


@pytest.mark.parametrize(
    "failure", [KafkaError(ErrorCode.network_exception), asyncio.CancelledError()]
)
def test_after_a_lost_response_everything_is_named(failure: BaseException) -> None:
    session = begun(A)
    with pytest.raises(type(failure)):
        asyncio.run(fetch_in_session(session, Broker(failure)))
    assert session.next_request().is_full
