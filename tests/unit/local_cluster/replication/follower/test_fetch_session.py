"""What a follower names to its leader."""

from __future__ import annotations

import uuid
from types import SimpleNamespace
from typing import cast

from local_cluster.replication.follower.apply_response import Position
from local_cluster.replication.follower.fetch_session import FollowerFetchSession
from local_cluster.replication.partition import Partition
from local_cluster.wire.fetch import SESSION_EPOCH_MAX

TOPIC_ID = uuid.UUID(int=1)


class Named(SimpleNamespace):
    __hash__ = object.__hash__  # type: ignore[assignment]
    __eq__ = object.__eq__


def replica(index: int) -> Partition:
    return cast(Partition, Named(topic_id=TOPIC_ID, partition=index))


def at(offset: int) -> Position:
    return Position(offset, 1, 0, 1)


def begun(*partitions: Partition) -> FollowerFetchSession:
    session = FollowerFetchSession()
    session.registered_as(11)
    session.name({partition: at(0) for partition in partitions})
    session.answered(7)
    return session


def test_only_what_differs_is_named_again() -> None:
    one, two = replica(1), replica(2)
    session = begun(one, two)
    assert (session.id, session.epoch, session.is_full) == (7, 1, False)
    assert session.name({one: at(0), two: at(5)}) == ({two: at(5)}, [])
    assert session.find(TOPIC_ID, 2) == (two, at(5))
    assert session.find(TOPIC_ID, 1) == (one, at(0)), "at rest, and still known"
    session.answered(7)
    assert session.epoch == 2


def test_a_leader_that_keeps_no_session_is_told_everything_each_time() -> None:
    one, two = replica(1), replica(2)
    session = FollowerFetchSession()
    wanted = {one: at(0), two: at(5)}
    for _ in range(2):
        assert session.name(wanted) == (wanted, [])
        session.answered(0)
        assert session.find(TOPIC_ID, 2) == (two, at(5))


def test_what_is_dropped_is_forgotten_once() -> None:
    one, two = replica(1), replica(2)
    session = begun(one, two)
    session.drop(one)
    assert session.find(TOPIC_ID, 1) is None
    assert session.name({}) == ({}, [(TOPIC_ID, 1)])
    session.drop(one)
    assert session.name({}) == ({}, [])


def test_what_is_dropped_and_wanted_again_is_named_and_not_forgotten() -> None:
    one = replica(1)
    session = begun(one)
    session.drop(one)
    assert session.name({one: at(0)}) == ({one: at(0)}, [])
    # Another replica of the same partition: it was moved away and came back.
    again = replica(1)
    session.drop(one)
    asked, forgotten = session.name({again: at(0)})
    assert (list(asked), forgotten) == ([again], [])
    session.drop(one)
    assert session.find(TOPIC_ID, 1) == (again, at(0))


def test_a_broker_that_registered_anew_names_everything_again() -> None:
    one, two = replica(1), replica(2)
    session = begun(one, two)
    session.registered_as(11)
    assert not session.is_full
    session.registered_as(12)
    assert (session.is_full, session.epoch, session.id) == (True, 0, 7)
    assert session.name({one: at(0), two: at(0)}) == ({one: at(0), two: at(0)}, [])


def test_after_trouble_and_without_a_session_everything_is_named() -> None:
    one = replica(1)
    session = begun(one)
    session.begin_anew()
    assert session.is_full
    assert session.find(TOPIC_ID, 1) is None
    session.name({one: at(0)})
    session.answered(0)
    assert (session.is_full, session.id) == (True, 0)


def test_epochs_begin_again_at_one() -> None:
    session = begun(replica(1))
    session.epoch = SESSION_EPOCH_MAX
    session.answered(7)
    assert session.epoch == 1
