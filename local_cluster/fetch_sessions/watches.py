"""Which of the partitions that a reader knows have moved since it looked. Pure.

A watch is told once and is gone then: whoever reads a partition again watches it again. So an
append costs nothing for readers that were told and have not come back, and a reader of thousands
of partitions looks only at those that moved.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

_Key = TypeVar("_Key")


class Watchable(Protocol):
    """What moves: a partition whose high watermark, leadership or log start changes."""

    def watch(self, wake: Callable[[], None]) -> None: ...
    def unwatch(self, wake: Callable[[], None]) -> None: ...


class _Watch(Generic[_Key]):
    """One key's watch; called by what is watched."""

    __slots__ = ("_key", "_watched", "_watches")

    def __init__(self, watches: Watches[_Key], key: _Key, watched: Watchable) -> None:
        self._watches = watches
        self._key = key
        self._watched = watched

    def __call__(self) -> None:
        self._watched.unwatch(self)
        self._watches.moved(self._key)

    def end(self) -> None:
        self._watched.unwatch(self)


class Watches(Generic[_Key]):
    """The watches of one reader, by key."""

    __slots__ = ("_by_key", "_on_moved")

    def __init__(self, on_moved: Callable[[_Key], None]) -> None:
        self._by_key: dict[_Key, _Watch[_Key]] = {}
        self._on_moved = on_moved

    def __len__(self) -> int:
        return len(self._by_key)

    def add(self, key: _Key, watched: Watchable) -> None:
        """Be told when this moves next."""
        if key not in self._by_key:
            watch = self._by_key[key] = _Watch(self, key, watched)
            watched.watch(watch)

    def moved(self, key: _Key) -> None:
        """What is watched under this key has moved."""
        self._by_key.pop(key, None)
        self._on_moved(key)

    def drop(self, key: _Key) -> None:
        """Be told no more."""
        watch = self._by_key.pop(key, None)
        if watch is not None:
            watch.end()

    def close(self) -> None:
        """Be told nothing any more."""
        for watch in self._by_key.values():
            watch.end()
        self._by_key.clear()
