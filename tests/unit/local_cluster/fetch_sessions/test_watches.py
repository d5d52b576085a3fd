"""Watches that fire once."""

from __future__ import annotations

from local_cluster.fetch_sessions.watches import Watches
from tests.unit.local_cluster.fetch_sessions.watched import Watched


def test_a_watch_fires_once_until_it_is_added_again() -> None:
    moved: list[str] = []
    watches, partition = Watches(moved.append), Watched()
    watches.add("a", partition)
    watches.add("a", partition)
    partition.change()
    partition.change()
    assert moved == ["a"]
    assert not partition.watchers, "a watch that has fired costs nothing"
    watches.add("a", partition)
    partition.change()
    assert moved == ["a", "a"]


def test_dropped_and_closed_watches_do_not_fire() -> None:
    moved: list[str] = []
    watches = Watches(moved.append)
    partitions = {name: Watched() for name in "abc"}
    for name, partition in partitions.items():
        watches.add(name, partition)
    watches.drop("a")
    watches.drop("never")
    assert not partitions["a"].watchers
    watches.close()
    for partition in partitions.values():
        partition.change()
    assert moved == []
    assert len(watches) == 0
