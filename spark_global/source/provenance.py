"""The offset map as three arrays, which translates whole columns of offsets. Pure.

A run (source, target, count) states that `count` consecutive source offsets, from `source` on, were
copied. They have as many consecutive target offsets, from `target` on. Both offsets ascend from run
to run. So a translation is one binary search per offset, in either direction, and keeps order.

Not here: reading the map's topic (`maps.py`), the format (`mirror_maker.formats`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Self

import numpy as np
import numpy.typing as npt

from spark_global.source.columns import Int64s

UNKNOWN_OFFSET: Final = -1
"""Null in integer arrays; Kafka's offsets are never negative."""


@dataclass(frozen=True, slots=True)
class MapRuns:
    """The offset map of one partition: arrays of equal length, strictly ascending."""

    sources: Int64s
    targets: Int64s
    counts: Int64s
    source_next: int
    """The map accounts for every source offset below this one."""
    target_next: int
    """The origin of every record at a target offset below this one is known."""

    @classmethod
    def of(
        cls,
        runs: Iterable[tuple[int, int, int]],
        *,
        source_next: int = 0,
        target_next: int = 0,
    ) -> Self:
        """Build a map from (source offset, target offset, count).

        Raises ValueError unless both offsets ascend.
        """
        table = np.array(list(runs), dtype=np.int64).reshape(-1, 3)
        sources, targets, counts = (np.ascontiguousarray(table[:, at]) for at in range(3))
        if (counts < 1).any():
            raise ValueError("a run of the offset map is empty")
        for starts in (sources, targets):
            if (starts[1:] < starts[:-1] + counts[:-1]).any():
                raise ValueError("runs of the offset map overlap or go backwards")
        if len(counts):
            source_next = max(source_next, int(sources[-1] + counts[-1]))
            target_next = max(target_next, int(targets[-1] + counts[-1]))
        return cls(sources, targets, counts, source_next, target_next)

    def __len__(self) -> int:
        return len(self.counts)

    @classmethod
    def union(cls, maps: Iterable[MapRuns]) -> Self:
        """Return a map with the target offsets of all maps; its source offsets have no meaning.

        No two maps share a target offset, because a record is a copy of one record.
        """
        parts = list(maps)
        targets = np.concatenate([part.targets for part in parts])
        order = np.argsort(targets, kind="stable")
        counts = np.concatenate([part.counts for part in parts])[order]
        sources = np.cumsum(counts) - counts
        end = max(part.target_next for part in parts)
        return cls(sources, targets[order], counts, int(counts.sum()), end)

    def sources_of(self, targets: Int64s) -> Int64s:
        """Return the source offset of each target offset, UNKNOWN_OFFSET outside of every run."""
        return _translate(targets, self.targets, self.sources, self.counts)

    def targets_of(self, sources: Int64s) -> Int64s:
        """Return the target offset of each source offset, UNKNOWN_OFFSET outside of every run."""
        return _translate(sources, self.sources, self.targets, self.counts)

    def unmapped_span(self, start: int, end: int) -> tuple[int, int]:
        """Return the least span that has all target offsets of [start, end) without a run."""
        within = self.covering_targets(start, end)
        before = np.concatenate([[start], within.targets + within.counts])
        behind = np.concatenate([within.targets, [end]])
        gaps = np.flatnonzero(before < behind)
        if not len(gaps):
            return end, end
        return int(before[gaps[0]]), int(behind[gaps[-1]])

    def cut_at_target(self, end: int) -> MapRuns:
        """Return the map as it was when the target ended at `end`."""
        if end >= self.target_next:
            return self
        first = int(np.searchsorted(self.targets + self.counts, end, side="right"))
        source_next = self.source_next
        if first < len(self):
            source_next = int(self.sources[first] + max(0, end - int(self.targets[first])))
        keep = self.targets < end
        targets = self.targets[keep]
        counts = np.minimum(self.counts[keep], end - targets)
        return MapRuns(self.sources[keep], targets, counts, source_next, end)

    def covering_targets(self, start: int, end: int) -> MapRuns:
        """Return the map without runs outside of target offsets [start, end)."""
        return self._keep((self.targets < end) & (self.targets + self.counts > start))

    def covering_sources(self, start: int, end: int) -> MapRuns:
        """Return the map without runs outside of source offsets [start, end)."""
        return self._keep((self.sources < end) & (self.sources + self.counts > start))

    def _keep(self, keep: npt.NDArray[np.bool_]) -> MapRuns:
        return MapRuns(
            self.sources[keep],
            self.targets[keep],
            self.counts[keep],
            self.source_next,
            self.target_next,
        )

    def targets_before(self, source: int) -> int:
        """Return the target offset right behind the mapped records with source offsets < `source`.

        Without such a record it is 0.
        """
        at = int(np.searchsorted(self.sources, source, side="left")) - 1
        if at < 0:
            return 0
        return int(self.targets[at] + min(int(self.counts[at]), source - int(self.sources[at])))

    def targets_from(self, source: int) -> int:
        """Return the smallest target offset of a mapped record with a source offset >= `source`.

        Without such a record it is the end of the mapped target offsets.
        """
        at = int(np.searchsorted(self.sources + self.counts, source, side="right"))
        if at == len(self):
            return self.target_next
        return int(self.targets[at] + max(0, source - int(self.sources[at])))


@dataclass(frozen=True, slots=True, kw_only=True)
class FormerCopies:
    """The copies of a source topic that was deleted and re-created since."""

    topic_id: str | None
    """Id of that topic at the source; None if its cluster has no ids."""
    runs: MapRuns
    end: int
    """The copies of the topic after it begin at this offset of the aggregate."""


def _translate(offsets: Int64s, starts: Int64s, others: Int64s, counts: Int64s) -> Int64s:
    if not len(starts):
        return np.full(len(offsets), UNKNOWN_OFFSET, dtype=np.int64)
    at = np.maximum(np.searchsorted(starts, offsets, side="right") - 1, 0)
    into = offsets - starts[at]
    covered = (into >= 0) & (into < counts[at])
    return np.where(covered, others[at] + into, UNKNOWN_OFFSET)
