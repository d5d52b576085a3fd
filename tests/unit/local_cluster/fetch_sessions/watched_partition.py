"""A double of the partitions that fetches watch."""

from __future__ import annotations

from collections.abc import Callable


class WatchedPartition:
    """A partition that wakes its watchers when the test calls `move`."""

    def __init__(self) -> None:
        self.watchers: set[Callable[[], None]] = set()

    def watch(self, wake: Callable[[], None]) -> None:
        self.watchers.add(wake)

    def unwatch(self, wake: Callable[[], None]) -> None:
        self.watchers.discard(wake)

    def move(self) -> None:
        for wake in tuple(self.watchers):
            wake()
