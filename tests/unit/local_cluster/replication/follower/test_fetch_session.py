"""What the requests of a follower name to its leader."""

from __future__ import annotations

import uuid

from local_cluster.replication.follower.apply_response import Position
from local_cluster.replication.follower.fetch_session import FollowerFetchSession
from local_cluster.wire.fetch import SESSION_EPOCH_MAX

TOPIC_ID = uuid.UUID(int=1)


class Replica:
    """A replica. Two of the same partition are not equal."""

    def __init__(self, partition: int) -> None:
        self.topic_id = TOPIC_ID
        self.partition = partition


def at(offset: int) -> Position:
    return Position(offset, 1, 0, 1)


def new_session() -> FollowerFetchSession[Replica]:
    return FollowerFetchSession()


def begun(*partitions: Replica) -> FollowerFetchSession[Replica]:
    session = new_session()
    session.set_broker_epoch(11)
    session.name({partition: at(0) for partition in partitions})
    session.record_response(7)
    return session


def test_only_what_differs_is_named_again() -> None:
    one, two = Replica(1), Replica(2)
    session = begun(one, two)
    assert (session.id, session.epoch, session.is_full) == (7, 1, False)
    assert session.name({one: at(0), two: at(5)}) == ({two: at(5)}, [])
    assert session.find(TOPIC_ID, 2) == (two, at(5))
    assert session.find(TOPIC_ID, 1) == (one, at(0)), "idle, and still known"
    session.record_response(7)
    assert session.epoch == 2


def test_without_a_session_each_request_names_everything() -> None:
    one, two = Replica(1), Replica(2)
    session = new_session()
    wanted = {one: at(0), two: at(5)}
    for _ in range(2):
        assert session.name(wanted) == (wanted, [])
        session.record_response(0)
        assert session.find(TOPIC_ID, 2) == (two, at(5))


def test_a_dropped_replica_is_forgotten_once() -> None:
    one, two = Replica(1), Replica(2)
    session = begun(one, two)
    session.drop(one)
    assert session.find(TOPIC_ID, 1) is None
    assert session.name({}) == ({}, [(TOPIC_ID, 1)])
    session.drop(one)
    assert session.name({}) == ({}, [])


def test_a_dropped_replica_that_is_wanted_again_is_named() -> None:
    one = Replica(1)
    session = begun(one)
    session.drop(one)
    assert session.name({one: at(0)}) == ({one: at(0)}, [])
    # Another replica of the same partition: it was moved away and came back.
    again = Replica(1)
    session.drop(one)
    named, forgotten = session.name({again: at(0)})
    assert (list(named), forgotten) == ([again], [])
    session.drop(one)
    assert session.find(TOPIC_ID, 1) == (again, at(0))


def test_a_new_broker_epoch_names_everything_again() -> None:
    one, two = Replica(1), Replica(2)
    session = begun(one, two)
    session.set_broker_epoch(11)
    assert not session.is_full
    session.set_broker_epoch(12)
    assert (session.is_full, session.epoch, session.id) == (True, 0, 7)
    assert session.name({one: at(0), two: at(0)}) == ({one: at(0), two: at(0)}, [])


def test_after_a_failure_everything_is_named() -> None:
    one = Replica(1)
    session = begun(one)
    session.start_over()
    assert session.is_full
    assert session.find(TOPIC_ID, 1) is None
    session.name({one: at(0)})
    session.record_response(0)
    assert (session.is_full, session.id) == (True, 0)


def test_session_epochs_wrap_to_one() -> None:
    session = begun(Replica(1))
    session.epoch = SESSION_EPOCH_MAX
    session.record_response(7)
    assert session.epoch == 1
