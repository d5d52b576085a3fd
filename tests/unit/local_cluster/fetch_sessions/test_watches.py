"""One-shot watches over things that move."""

from __future__ import annotations

from local_cluster.fetch_sessions.watches import Watches
from tests.unit.local_cluster.fetch_sessions.watched_partition import WatchedPartition


def test_a_move_is_told_once_until_it_is_watched_again() -> None:
    moved: list[str] = []
    watches, thing = Watches(moved.append), WatchedPartition()
    watches.add("a", thing)
    watches.add("a", thing)
    thing.move()
    thing.move()
    assert moved == ["a"]
    assert not thing.watchers, "who was told costs nothing"
    watches.add("a", thing)
    thing.move()
    assert moved == ["a", "a"]


def test_what_is_dropped_or_closed_is_told_no_more() -> None:
    moved: list[str] = []
    watches = Watches(moved.append)
    things = {name: WatchedPartition() for name in "abc"}
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
