"""Watches that fire once."""

from __future__ import annotations

from local_cluster.fetch_sessions.watches import Watches
from tests.unit.local_cluster.moving import Thing


def test_a_watch_fires_once_until_it_is_added_again() -> None:
    moved: list[str] = []
    watches, thing = Watches(moved.append), Thing()
    watches.add("a", thing)
    watches.add("a", thing)
    thing.move()
    thing.move()
    assert moved == ["a"]
    assert not thing.watchers, "a watch that has fired costs nothing"
    watches.add("a", thing)
    thing.move()
    assert moved == ["a", "a"]


def test_dropped_and_closed_watches_do_not_fire() -> None:
    moved: list[str] = []
    watches = Watches(moved.append)
    things = {name: Thing() for name in "abc"}
    for name, thing in things.items():
        watches.add(name, thing)
    watches.drop("a")
    watches.drop("never")
    assert not things["a"].watchers
    watches.close()
    for thing in things.values():
        thing.move()
    assert moved == []
    assert len(watches) == 0
