"""The exact map between the offsets of one source partition and its copy.

A map is a list of runs: `records_count` records that lie side by side in both logs. Records that
the mirror does not copy (transaction markers, aborted records, compacted ones) separate runs on the
source side. Records that others write into the target separate them on the target side.

Guarantees:

- *Lossless*: every copied record below `source_next` is in exactly one run.
- *Monotonic*: runs ascend on both sides, so translation keeps the order.
- *Exact*: `translate(o)` is the smallest target offset, from the flow's first on, that divides the
  copied records. Those before `o` lie below it, those from `o` on lie at or above it.
- *Honest*: past the mirrored end, and where the target no longer has the copies, the answer is
  `pending`. Inside a *hole* it is `inexact` with a safe offset: no copied record from `o` on lies
  below it. In a part that others copied before a take-over, it is `inexact` without an offset.

A hole is a range of source offsets whose single places the map does not know. Either the source
lost records that a killed worker had copied and not mapped, or blocks of the map were lost. At both
ends of a hole, translation is exact.

Pure: no I/O, no clock.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from enum import StrEnum
from typing import NamedTuple


class Run(NamedTuple):
    """`records_count` records side by side in both logs."""

    source_offset: int
    target_offset: int
    records_count: int

    @property
    def source_next(self) -> int:
        """Return the source offset after the run's last record."""
        return self.source_offset + self.records_count

    @property
    def target_next(self) -> int:
        """Return the target offset after the run's last record."""
        return self.target_offset + self.records_count


class TranslationState(StrEnum):
    """Whether a translation is known."""

    EXACT = "exact"
    PENDING = "pending"
    INEXACT = "inexact"
    """The exact offset is unknown: a safe offset, or none where others copied."""


class Translation(NamedTuple):
    """The answer to `translate`.

    The target offset is present with EXACT, and with INEXACT if a safe one is known. A reader that
    continues at a safe offset misses nothing, and may read some records again.
    """

    state: TranslationState
    target_offset: int | None


_PENDING = Translation(TranslationState.PENDING, None)
_INEXACT = Translation(TranslationState.INEXACT, None)


class OffsetMap:
    """The map of one flow; it grows only at its end."""

    __slots__ = ("_counts", "_gone_to", "_holes", "_is_begun", "_sources", "_targets",
                 "has_older_copies", "source_next", "source_start", "target_start")  # fmt: skip

    def __init__(
        self, source_start: int, target_start: int, *, has_older_copies: bool = False
    ) -> None:
        self.has_older_copies = has_older_copies
        """Whether others copied the records before `source_start`."""
        self.source_start = source_start
        """Source offset from which the flow copies."""
        self.target_start = target_start
        """Target offset from which its copies lie."""
        self.source_next = source_start
        """The fate of every source offset below this one is known."""
        # Arrays take 24 bytes a run; a source with many transactions has one run for each.
        self._sources = array("q")
        self._targets = array("q")
        self._counts = array("q")
        # Holes as (start, end). A run of count 0 at the end of each holds the target offset from
        # which the copies of later records lie.
        self._holes: list[tuple[int, int]] = []
        self._gone_to = source_start
        """Copies of source offsets below this one were trimmed."""
        self._is_begun = False
        """Whether the first part of the map is present, so no hole before it was trimmed."""

    @property
    def target_next(self) -> int:
        """Return the target offset after the last mapped record."""
        return self._targets[-1] + self._counts[-1] if self._targets else self.target_start

    def append(self, run: Run) -> None:
        """Add a run at the end; one that continues the last run on both sides extends it."""
        assert run.records_count > 0, run
        assert run.source_offset >= self.source_next, (run, self.source_next)
        assert run.target_offset >= self.target_next, (run, self.target_next)
        self._is_begun = True
        if (
            self._counts
            and self._counts[-1]
            and self._sources[-1] + self._counts[-1] == run.source_offset
            and self._targets[-1] + self._counts[-1] == run.target_offset
        ):
            self._counts[-1] += run.records_count
        else:
            self._sources.append(run.source_offset)
            self._targets.append(run.target_offset)
            self._counts.append(run.records_count)
        self.source_next = run.source_next

    def begin(self) -> None:
        """Note that the first copies are in the map and were not trimmed."""
        self._is_begun = True

    def advance(self, source_next: int) -> None:
        """Note that nothing more was copied before `source_next`."""
        self.source_next = max(self.source_next, source_next)

    def skip_unknown(self, source_next: int, target_offset: int) -> None:
        """Make a hole from the end to `source_next`; later records lie at `target_offset` or above.

        Every copy of the hole lies between the last run and `target_offset`.
        """
        assert source_next > self.source_next, (source_next, self.source_next)
        assert target_offset >= self.target_next, (target_offset, self.target_next)
        self._holes.append((self.source_next, source_next))
        if not self._is_begun:
            self._gone_to = source_next
        self._sources.append(source_next)
        self._targets.append(target_offset)
        self._counts.append(0)
        self.source_next = source_next

    def truncate(self, source_next: int) -> None:
        """Forget what was copied from `source_next` on: the source has other records there.

        The copies of the old records stay on the target and belong to nothing. The next run lies
        behind them.
        """
        while self._sources and self._sources[-1] >= source_next:
            self._sources.pop(), self._targets.pop(), self._counts.pop()
        if self._sources:
            self._counts[-1] = min(self._counts[-1], source_next - self._sources[-1])
        self._holes = [
            (start, min(end, source_next)) for start, end in self._holes if start < source_next
        ]
        self.source_next = min(self.source_next, source_next)

    def trim(self, target_offset: int) -> None:
        """Forget the runs that lie wholly below a target offset, because their copies are gone.

        Their source offsets translate as `pending` from then on.
        """
        count = 0
        while count < len(self._targets) - 1 and (
            self._targets[count] + self._counts[count] <= target_offset
        ):
            count += 1
        if count == 0 or not self._counts[count]:
            return
        # The last of them becomes the marker at the end of the forgotten part.
        del self._sources[: count - 1], self._targets[: count - 1], self._counts[: count - 1]
        known_from, gone_to = self._sources[1], self._targets[0] + self._counts[0]
        self._sources[0], self._targets[0], self._counts[0] = known_from, gone_to, 0
        self._holes = [hole for hole in self._holes if hole[0] >= known_from]
        self._holes.insert(0, (self.source_start, known_from))
        self._gone_to = known_from

    def next_mapped(self, source_offset: int) -> tuple[int, int] | None:
        """Return (source offset, target offset) of the first copied record from an offset on."""
        index = max(0, bisect_right(self._sources, source_offset) - 1)
        for at in range(index, len(self._sources)):
            into = max(0, source_offset - self._sources[at])
            if into < self._counts[at]:
                return self._sources[at] + into, self._targets[at] + into
        return None

    def translate(self, source_offset: int) -> Translation:
        """Translate the position of a reader of the source into one on the target."""
        if source_offset > self.source_next:
            return _PENDING
        hole = self._hole_at(source_offset)
        if hole is not None:
            if hole[0] < self._gone_to:
                return _PENDING
            # Translate like the start of the hole: all its copies lie at or above that place.
            index = bisect_right(self._sources, hole[0]) - 1
            return Translation(TranslationState.INEXACT, self._end_of(index))
        if source_offset < self.source_start and self.has_older_copies:
            return _INEXACT
        index = bisect_right(self._sources, source_offset) - 1
        if index >= 0:
            into = min(source_offset - self._sources[index], self._counts[index])
            if into or not self._counts[index]:
                return Translation(TranslationState.EXACT, self._targets[index] + into)
        # At the first record of a run, or before all runs: right behind the copies before. Records
        # that others wrote in between come after that place, so its reader does not miss them.
        return Translation(TranslationState.EXACT, self._end_of(index - 1))

    def _end_of(self, index: int) -> int:
        """Return the target offset after a run, by its index; before the first run, the flow's
        first offset.
        """
        return self.target_start if index < 0 else self._targets[index] + self._counts[index]

    def place_from(self, source_offset: int) -> Translation:
        """Return the greatest target offset below which no copied record from `source_offset` on
        lies.

        `translate` returns the smallest such place; this one excludes what others wrote in between.
        """
        smallest = self.translate(source_offset)
        following = self.next_mapped(source_offset)
        if smallest.state is not TranslationState.EXACT or following is None:
            return smallest
        hole = bisect_left(self._holes, (following[0], -1)) - 1
        if hole >= 0 and self._holes[hole][1] > source_offset:
            return smallest
        return Translation(TranslationState.EXACT, following[1])

    def has_none_from(self, source_offset: int) -> bool:
        """Return whether it is certain that nothing of [source_offset, `source_next`) was
        copied.
        """
        is_known = not self._holes or self._holes[-1][1] <= source_offset
        if self.has_older_copies and source_offset < self.source_start:
            is_known = False
        return is_known and self.next_mapped(source_offset) is None

    def source_place(self, target_offset: int) -> int:
        """Return the greatest source offset before which every copied record lies below
        `target_offset`.

        A reader at that place of the target is at this place of the source. Records that the link
        did not copy hold no reader back; unknown ones do.
        """
        index = bisect_right(self._targets, target_offset) - 1
        if index < 0:
            if self.has_older_copies and target_offset < self.target_start:
                return 0
            known_to = self.source_start
        else:
            into = target_offset - self._targets[index]
            if into < self._counts[index]:
                return self._sources[index] + into
            known_to = self._sources[index] + self._counts[index]
        place = self.source_next
        if index + 1 < len(self._sources):
            place = self._sources[index + 1]
        hole = bisect_left(self._holes, (known_to, -1))
        return min(place, self._holes[hole][0]) if hole < len(self._holes) else place

    def covered_to(self, target_offset: int, *, runs_max: int) -> int:
        """Return the first offset from `target_offset` on that is not a known copy.

        Looks at `runs_max` runs at most.
        """
        if self.has_older_copies:
            target_offset = max(target_offset, self.target_start)
        first = max(0, bisect_right(self._targets, target_offset) - 1)
        for at in range(first, min(len(self._targets), first + runs_max)):
            if self._targets[at] > target_offset:
                break
            target_offset = max(target_offset, self._targets[at] + self._counts[at])
        return target_offset

    def count_sources(self, source_from: int, source_to: int, *, runs_max: int) -> int | None:
        """Return how many records of [source_from, source_to) are copied; None as in
        `count_copies`.
        """
        hole = bisect_left(self._holes, (source_to, -1)) - 1
        if hole >= 0 and self._holes[hole][1] > source_from:
            return None
        count = 0
        first = max(0, bisect_right(self._sources, source_from) - 1)
        for at in range(first, len(self._sources)):
            if self._sources[at] >= source_to:
                break
            if at - first >= runs_max:
                return None
            begin = max(self._sources[at], source_from)
            end = min(self._sources[at] + self._counts[at], source_to)
            count += max(0, end - begin)
        return count

    def count_copies(self, source_offset: int, target_offset: int, *, runs_max: int) -> int | None:
        """Return how many copies of records before `source_offset` lie at `target_offset` or above.

        None if that would take more than `runs_max` runs, or if some copies are unknown.
        """
        count = 0
        first = max(0, bisect_right(self._targets, target_offset) - 1)
        for at in range(first, len(self._targets)):
            if self._sources[at] >= source_offset and self._counts[at]:
                break
            if at - first >= runs_max or (not self._counts[at] and at > first):
                return None
            begin = max(0, target_offset - self._targets[at])
            end = min(self._counts[at], source_offset - self._sources[at])
            count += max(0, end - begin)
        return count

    def source_of(self, target_offset: int) -> int | None:
        """Return the source offset of the record at `target_offset`; None if it is no copy."""
        index = bisect_right(self._targets, target_offset) - 1
        if index < 0:
            return None
        into = target_offset - self._targets[index]
        return self._sources[index] + into if into < self._counts[index] else None

    def hole_of(self, target_offset: int) -> tuple[int, int] | None:
        """Return the hole, as source offsets [start, end), to which a copy at this offset may
        belong.
        """
        index = bisect_right(self._targets, target_offset)
        if index == len(self._targets) or self._counts[index]:
            return None  # no hole ends behind it
        if target_offset < self._end_of(index - 1):
            return None
        hole = self._hole_at(self._sources[index] - 1)
        return hole if hole is not None and hole[0] >= self._gone_to else None

    def runs(self) -> Iterator[Run]:
        """Yield every run, ascending on both sides; none is empty."""
        for run in map(Run, self._sources, self._targets, self._counts):
            if run.records_count:
                yield run

    def holes(self) -> Iterator[tuple[int, int]]:
        """Yield every hole that the target may still have copies of, as source offsets [start,
        end).
        """
        yield from (hole for hole in self._holes if hole[0] >= self._gone_to)

    def _hole_at(self, source_offset: int) -> tuple[int, int] | None:
        # Strictly inside: at its start everything before is known, and at its end the marker
        # applies.
        index = bisect_left(self._holes, (source_offset, -1)) - 1
        if index >= 0 and source_offset < self._holes[index][1]:
            return self._holes[index]
        return None
