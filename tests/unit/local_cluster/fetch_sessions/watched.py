"""A double of the partitions that fetch sessions watch."""

from __future__ import annotations

from collections.abc import Callable


class Watched:
    """A partition that changes when the test says so."""

    def __init__(self) -> None:
        self.watchers: set[Callable[[], None]] = set()

    def watch(self, wake: Callable[[], None]) -> None:
        self.watchers.add(wake)

    def unwatch(self, wake: Callable[[], None]) -> None:
        self.watchers.discard(wake)

    def change(self) -> None:
        for wake in tuple(self.watchers):
            wake()
