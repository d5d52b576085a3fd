"""Whose turn it is in a follower's next fetch."""

from __future__ import annotations

from typing import cast

from local_cluster.replication.follower.fetch_states import FetchStates
from local_cluster.replication.partition import Partition


def replica() -> Partition:
    return cast(Partition, object())


def followed(*partitions: Partition) -> FetchStates:
    turns = FetchStates()
    for partition in partitions:
        turns.add(partition)
    return turns


def test_what_is_followed_is_unsure_until_it_was_looked_at() -> None:
    one, two = replica(), replica()
    turns = followed(one, two)
    assert list(turns.unsure) == [one, two]
    turns.looked()
    assert list(turns.unsure) == []
    assert list(turns.followed) == [one, two]
    assert turns.may_ask(one), "at rest, it is asked for when everything is"
    turns.look_at([two])
    assert list(turns.unsure) == [two]


def test_what_waits_comes_due_in_its_time() -> None:
    one, two = replica(), replica()
    turns = followed(one, two)
    turns.looked()
    turns.later(one, 5.0)
    turns.later(two, 3.0)
    assert (turns.may_ask(one), turns.next_at()) == (False, 3.0)
    turns.come_due(3.0)
    assert (turns.may_ask(one), turns.may_ask(two), turns.next_at()) == (False, True, 5.0)
    assert list(turns.unsure) == [two]
    turns.come_due(6.0)
    assert (turns.may_ask(one), turns.next_at()) == (True, None)


def test_what_is_stalled_is_asked_for_when_it_is_followed_anew() -> None:
    one = replica()
    turns = followed(one)
    turns.stall(one)
    turns.come_due(1e9)
    assert not turns.may_ask(one)
    assert turns.next_at() is None
    turns.add(one)
    assert turns.may_ask(one)


def test_what_is_left_is_forgotten_whatever_it_waited_for() -> None:
    one = replica()
    turns = followed(one)
    turns.later(one, 5.0)
    turns.remove(one)
    assert one not in turns
    assert (list(turns.followed), list(turns.unsure), turns.next_at()) == ([], [], None)
    turns.add(one)
    assert turns.may_ask(one)
