"""Deadlines as data: which timer is due, without a clock and without callbacks.

Heartbeats move a deadline far more often than a timer fires. So moving it later only stores the new
deadline; the heap entry is corrected when it reaches the head. The heap is rebuilt when stale
entries outnumber the live ones, so its size stays proportional to the number of timers.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

_STALE_ENTRIES_MIN: Final = 64


class TimerKey(NamedTuple):
    """The purpose of a timer; one timer per key. Timers of a whole group have "" as member."""

    kind: str
    group_id: str
    member_id: str = ""


class TimerQueue:
    """Deadlines in monotonic milliseconds by key."""

    __slots__ = ("_deadlines_ms", "_heap")

    def __init__(self) -> None:
        self._deadlines_ms: dict[TimerKey, int] = {}
        self._heap: list[tuple[int, TimerKey]] = []

    def __len__(self) -> int:
        return len(self._deadlines_ms)

    def __iter__(self) -> Iterator[TimerKey]:
        return iter(self._deadlines_ms)

    def schedule(self, key: TimerKey, deadline_ms: int) -> None:
        """Set the key's only deadline."""
        previous = self._deadlines_ms.get(key)
        self._deadlines_ms[key] = deadline_ms
        if previous is None or deadline_ms < previous:
            heapq.heappush(self._heap, (deadline_ms, key))
            if len(self._heap) > _STALE_ENTRIES_MIN + 2 * len(self._deadlines_ms):
                self._rebuild()

    def bring_forward(self, key: TimerKey, deadline_ms: int | None) -> None:
        """Move the key's deadline to an earlier one; None or a later one changes nothing."""
        if deadline_ms is not None and deadline_ms < self._deadlines_ms[key]:
            self.schedule(key, deadline_ms)

    def cancel(self, key: TimerKey) -> None:
        """Remove the key's deadline, if it has one."""
        self._deadlines_ms.pop(key, None)

    def deadline_ms(self, key: TimerKey) -> int | None:
        return self._deadlines_ms.get(key)

    def next_deadline_ms(self) -> int | None:
        """Return the earliest deadline, or None."""
        self._settle()
        return self._heap[0][0] if self._heap else None

    def pop_due(self, now_ms: int) -> TimerKey | None:
        """Remove and return the earliest timer whose deadline has passed, or None."""
        self._settle()
        if not self._heap or self._heap[0][0] > now_ms:
            return None
        _, key = heapq.heappop(self._heap)
        del self._deadlines_ms[key]
        return key

    def defer(self, until_ms: int, *, stays: Callable[[TimerKey], bool]) -> None:
        """Move every earlier deadline to `until_ms`, unless it `stays`."""
        for key, deadline_ms in tuple(self._deadlines_ms.items()):
            if deadline_ms < until_ms and not stays(key):
                self.schedule(key, until_ms)

    def _settle(self) -> None:
        """Drop or correct stale entries until the head of the heap is a live deadline."""
        heap = self._heap
        while heap:
            entry_ms, key = heap[0]
            deadline_ms = self._deadlines_ms.get(key)
            if deadline_ms == entry_ms:
                return
            if deadline_ms is None or deadline_ms < entry_ms:
                heapq.heappop(heap)
            else:
                heapq.heapreplace(heap, (deadline_ms, key))

    def _rebuild(self) -> None:
        self._heap = [(deadline_ms, key) for key, deadline_ms in self._deadlines_ms.items()]
        heapq.heapify(self._heap)
