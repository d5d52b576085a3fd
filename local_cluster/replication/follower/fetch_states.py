"""The states of the replicas that follow one leader, for its next fetch. Pure.

    changed    the leader may not know its position: the next fetch checks it
    idle       the leader knows its position, and has nothing new: it costs nothing
    delayed    it failed or is throttled: not fetched before a time, then changed
    failed     fenced, or its log has failed: not fetched until it is followed again

Times are seconds of a monotonic clock.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable
from typing import Generic, TypeVar

Replica = TypeVar("Replica", bound=Hashable)


class FetchStates(Generic[Replica]):
    """The replicas that this broker follows from one leader."""

    def __init__(self) -> None:
        self._followed: dict[Replica, None] = {}
        self._changed: dict[Replica, None] = {}
        self._delayed_until: dict[Replica, float] = {}
        self._failed: set[Replica] = set()

    def __contains__(self, replica: Replica) -> bool:
        return replica in self._followed

    @property
    def followed(self) -> Collection[Replica]:
        """All replicas, in the order of their addition."""
        return self._followed.keys()

    @property
    def changed(self) -> Collection[Replica]:
        """The changed replicas, in the order of their changes."""
        return self._changed.keys()

    def add(self, replica: Replica) -> None:
        """Follow a replica, or follow it again in another epoch."""
        self._followed[replica] = None
        self._changed[replica] = None
        self._delayed_until.pop(replica, None)
        self._failed.discard(replica)

    def remove(self, replica: Replica) -> None:
        """Stop following a replica."""
        self._followed.pop(replica, None)
        self._changed.pop(replica, None)
        self._delayed_until.pop(replica, None)
        self._failed.discard(replica)

    def mark_changed(self, replicas: Iterable[Replica]) -> None:
        """Have the next fetch check these replicas."""
        self._changed.update(dict.fromkeys(replicas))

    def clear_changed(self) -> None:
        """Unmark all: the fetch handles everything that was changed."""
        self._changed.clear()

    def delay(self, replica: Replica, until: float) -> None:
        """Do not fetch for a replica before this time."""
        self._delayed_until[replica] = until

    def mark_failed(self, replica: Replica) -> None:
        """Do not fetch for a replica until it is added again."""
        self._failed.add(replica)

    def is_ready(self, replica: Replica) -> bool:
        """Whether a replica is followed, and neither delayed nor failed."""
        return (
            replica in self._followed
            and replica not in self._delayed_until
            and replica not in self._failed
        )

    def end_delays(self, now: float) -> None:
        """Mark the replicas changed whose delay has ended."""
        for replica in [each for each, until in self._delayed_until.items() if until <= now]:
            del self._delayed_until[replica]
            self._changed[replica] = None

    def next_end_of_delay(self) -> float | None:
        """Return when the first delay ends, None if there is none."""
        return min(self._delayed_until.values(), default=None)
