"""Which replicas a follower asks one leader for in its next fetch, and when. Pure.

    unsure    the session may not know it as it is now: it is looked at in the next round
    at rest   asked for, and nothing new since: the session knows, it costs nothing
    later     it failed, or is held back: not before a time, then it is unsure again
    stalled   fenced, or its log is over: not before it is followed anew

Times are those of a monotonic clock, in seconds.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from local_cluster.replication.partition import Partition


class FetchStates:
    """Of everything that is followed from one broker."""

    def __init__(self) -> None:
        self._followed: dict[Partition, None] = {}
        self._unsure: dict[Partition, None] = {}
        self._not_before: dict[Partition, float] = {}
        self._stalled: set[Partition] = set()

    def __contains__(self, partition: Partition) -> bool:
        return partition in self._followed

    @property
    def followed(self) -> Collection[Partition]:
        """In the order of their coming."""
        return self._followed.keys()

    @property
    def unsure(self) -> Collection[Partition]:
        """What has to be looked at before the next request, in the order that it came up."""
        return self._unsure.keys()

    def add(self, partition: Partition) -> None:
        """Follow it, from now on or anew."""
        self._followed[partition] = None
        self._unsure[partition] = None
        self._not_before.pop(partition, None)
        self._stalled.discard(partition)

    def remove(self, partition: Partition) -> None:
        """Follow it no more."""
        self._followed.pop(partition, None)
        self._unsure.pop(partition, None)
        self._not_before.pop(partition, None)
        self._stalled.discard(partition)

    def look_at(self, partitions: Iterable[Partition]) -> None:
        """They may have changed."""
        self._unsure.update(dict.fromkeys(partitions))

    def looked(self) -> None:
        """All that was unsure was looked at."""
        self._unsure.clear()

    def later(self, partition: Partition, at: float) -> None:
        """Leave it alone until then."""
        self._not_before[partition] = at

    def stall(self, partition: Partition) -> None:
        """Leave it alone until it is followed anew."""
        self._stalled.add(partition)

    def may_ask(self, partition: Partition) -> bool:
        """Whether it is followed, and its time has come."""
        return (
            partition in self._followed
            and partition not in self._not_before
            and partition not in self._stalled
        )

    def come_due(self, now: float) -> None:
        """The time of some may have come."""
        for partition in [each for each, at in self._not_before.items() if at <= now]:
            del self._not_before[partition]
            self._unsure[partition] = None

    def next_at(self) -> float | None:
        """When the first of those that wait comes due; None where none waits."""
        return min(self._not_before.values(), default=None)
