"""Source offsets that are not to be copied, as ranges. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator

Range = tuple[int, int]
"""[from, to)"""


class GapRanges:
    """The gaps of one flow; empty for almost every flow."""

    def __init__(self, ranges: Iterable[Range] = ()) -> None:
        """Ranges may touch or overlap."""
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
        """Ascending; none of them touches another."""
        return iter(self._ranges)

    def plus(self, start: int, end: int) -> GapRanges:
        """With one range more."""
        return GapRanges((*self._ranges, (start, end)))

    def behind(self, offset: int) -> int:
        """The first offset from this one on that lies in no gap."""
        found = self._at(offset)
        return found[1] if found is not None else offset

    def contains(self, offset: int) -> bool:
        return self._at(offset) is not None

    def covers(self, start: int, end: int) -> bool:
        """Whether one gap has all of [start, end)."""
        found = self._at(start)
        return found is not None and end <= found[1]

    def touches(self, start: int, end: int) -> bool:
        """Whether some of [start, end) lies in a gap."""
        if not self._ranges:
            return False
        index = bisect_right(self._starts, end - 1) - 1
        return index >= 0 and self._ranges[index][1] > start

    def uncovered(self, start: int, end: int) -> Iterator[Range]:
        """The parts of [start, end) that lie in no gap, ascending."""
        while start < end:
            found = self._at(start)
            if found is not None:
                start = found[1]
                continue
            index = bisect_right(self._starts, start)
            behind = self._starts[index] if index < len(self._starts) else end
            yield start, min(behind, end)
            start = behind

    def _at(self, offset: int) -> Range | None:
        index = bisect_right(self._starts, offset) - 1
        if index >= 0 and offset < self._ranges[index][1]:
            return self._ranges[index]
        return None


NO_GAPS = GapRanges()
