"""Which of the partitions that a client fetches have changed since its last read. Pure.

A watch fires once and is then gone: the next read of the partition adds it again. So an append
costs nothing for clients that were notified and have not come back. A client of thousands of
partitions reads only those that have changed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

_Key = TypeVar("_Key")


class Watchable(Protocol):
    """A partition: its high watermark, leadership and log start change."""

    def watch(self, wake: Callable[[], None]) -> None: ...
    def unwatch(self, wake: Callable[[], None]) -> None: ...


class _Watch(Generic[_Key]):
    """The watch of one key. The watched partition calls it."""

    __slots__ = ("_key", "_watched", "_watches")

    def __init__(self, watches: Watches[_Key], key: _Key, watched: Watchable) -> None:
        self._watches = watches
        self._key = key
        self._watched = watched

    def __call__(self) -> None:
        self._watched.unwatch(self)
        self._watches.fire(self._key)

    def end(self) -> None:
        self._watched.unwatch(self)


class Watches(Generic[_Key]):
    """The watches of one client, by key."""

    __slots__ = ("_by_key", "_on_changed")

    def __init__(self, on_changed: Callable[[_Key], None]) -> None:
        self._by_key: dict[_Key, _Watch[_Key]] = {}
        self._on_changed = on_changed

    def __len__(self) -> int:
        return len(self._by_key)

    def add(self, key: _Key, watched: Watchable) -> None:
        """Watch for the next change, unless the key has a watch."""
        if key not in self._by_key:
            watch = self._by_key[key] = _Watch(self, key, watched)
            watched.watch(watch)

    def fire(self, key: _Key) -> None:
        """Remove the watch of a key, and report the change."""
        self._by_key.pop(key, None)
        self._on_changed(key)

    def drop(self, key: _Key) -> None:
        """End the watch of a key."""
        watch = self._by_key.pop(key, None)
        if watch is not None:
            watch.end()

    def close(self) -> None:
        """End every watch."""
        for watch in self._by_key.values():
            watch.end()
        self._by_key.clear()
