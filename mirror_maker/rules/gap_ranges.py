"""Offsets that are not copied, as sorted ranges. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator

Range = tuple[int, int]
"""[from, to)"""


class GapRanges:
    """The gaps of one flow; empty for almost every flow."""

    def __init__(self, ranges: Iterable[Range] = ()) -> None:
        """Accept ranges in any order; they may touch or overlap."""
        merged: list[Range] = []
        for start, end in sorted(ranges):
            if merged and start <= merged[-1][1]:
                merged[-1] = (merged[-1][0], max(merged[-1][1], end))
            elif start < end:
                merged.append((start, end))
        self._ranges = merged
        self._starts = [start for start, _ in merged]

    def __bool__(self) -> bool:
        return bool(self._ranges)

    def __iter__(self) -> Iterator[Range]:
        """Yield disjoint ranges that do not touch, ascending."""
        return iter(self._ranges)

    def with_range(self, start: int, end: int) -> GapRanges:
        """Return these ranges and one more."""
        return GapRanges((*self._ranges, (start, end)))

    def first_outside(self, offset: int) -> int:
        """Return the first offset at or after `offset` that lies in no gap."""
        found = self._at(offset)
        return found[1] if found is not None else offset

    def contains(self, offset: int) -> bool:
        return self._at(offset) is not None

    def covers(self, start: int, end: int) -> bool:
        """Return whether a single gap contains all of [start, end)."""
        found = self._at(start)
        return found is not None and end <= found[1]

    def overlaps(self, start: int, end: int) -> bool:
        """Return whether any part of [start, end) lies in a gap."""
        if not self._ranges:
            return False
        index = bisect_right(self._starts, end - 1) - 1
        return index >= 0 and self._ranges[index][1] > start

    def uncovered(self, start: int, end: int) -> Iterator[Range]:
        """Yield the parts of [start, end) that lie in no gap, ascending."""
        while start < end:
            found = self._at(start)
            if found is not None:
                start = found[1]
                continue
            index = bisect_right(self._starts, start)
            gap_start = self._starts[index] if index < len(self._starts) else end
            yield start, min(gap_start, end)
            start = gap_start

    def _at(self, offset: int) -> Range | None:
        index = bisect_right(self._starts, offset) - 1
        if index >= 0 and offset < self._ranges[index][1]:
            return self._ranges[index]
        return None


NO_GAPS = GapRanges()
