"""Aligns a tail with a source that lost records after they were copied. Pure.

The tail holds the copies of the first copyable records after the map: all of them, in order. Since
then the source may have lost some of these records, to retention (the first) or to compaction
(any). The records that are left are the *survivors*. The target may have lost copies too. Their
content is unknown, so they may be copies of any record; sequences say how many there are.

    source     100  .   .  103  .  105 106 ...      a dot is an offset without a record
    tail        t0  t1  t2  t3  t4  t5              copies, in order

An alignment gives every copy either a survivor with the same content or a place among the absent
offsets. It fits if

- the copies of survivors are in the survivors' order;
- between the copies of two survivors lie at most as many other copies as offsets are absent there;
- no survivor before the last copied one is left out.

A survivor and a copy count as the same record if their content (key, value, headers, timestamp)
occurs once in the tail and once among the survivors. This is an assumption: the source may have
lost a record that was equal to one that it still has.

- No alignment fits, or two differ in the last copied survivor: PairingError, as nobody can tell
  where to continue.
- They agree on that, but differ in the place of a survivor: that part is a `Hole`.
- Fewer copies than absent offsets lie between two survivors: these copies are a `Hole` too.

A hole's copies are known, but not which source offset each of them had.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from heapq import merge
from typing import Final, NamedTuple

from mirror_maker.formats import Run
from mirror_maker.model import PairingError
from mirror_maker.rules.gap_ranges import Range
from mirror_maker.tail.places import Content, Copy, Piece, PlacedTail, TailCopies, add_piece

STEPS_MAX: Final = 5_000_000
"""Comparisons of spans in one alignment; beyond it, too many records are equal."""

_BEFORE_ALL: Final = (-1, -1)
"""The span before the tail."""


class _Survivor(NamedTuple):
    offset: int
    content: Content
    timestamp_ms: int
    absent: tuple[Range, ...]
    """Source offsets without a record between the survivor before and this one."""


class Alignment:
    """Takes the survivors in order until `is_settled`; then `result` returns the placed tail."""

    def __init__(
        self,
        source_from: int,
        target_from: int,
        copies: Sequence[Copy],
        *,
        length: int | None = None,
        trimmed_count: int = 0,
        last_timestamp_ms: int | None = None,
    ) -> None:
        """The map ends at `source_from` and `target_from`.

        `copies` ascend. `length` counts the whole tail, also copies without a known target offset;
        by default there are none. The first `trimmed_count` copies lie before the target's log
        start. If no copy is left, `last_timestamp_ms` is the largest timestamp of the tail's last
        batch, as far as the target still reports it.
        """
        self.is_settled = False
        """Whether no further survivor can have been copied."""
        self._length = len(copies) if length is None else length
        self._tail = TailCopies(
            copies, self._length, trimmed_count=trimmed_count, target_from=target_from
        )
        self._last_timestamp_ms = last_timestamp_ms
        self._unknown = self._tail.unknown()
        self._spans_of = _spans_by_content(copies)
        self._source_from = self._position = source_from
        self._absent: list[Range] = []
        """Absent offsets after the last survivor."""
        self._survivors: list[_Survivor] = []
        """All survivors so far. If the last one has no place in the tail, this is settled."""
        self._front: list[Range] = [_BEFORE_ALL]
        self._steps = 0

    def feed(self, offset: int, content: Content, timestamp_ms: int) -> None:
        """Take the next survivor, a copyable record of the source. Raises PairingError."""
        if self.is_settled:
            return
        self._reach(offset)
        survivor = _Survivor(offset, content, timestamp_ms, tuple(self._absent))
        self._survivors.append(survivor)
        self._front = self._next_spans(self._front, survivor, is_anchor=False)
        self.is_settled = not self._front
        self._position, self._absent = offset + 1, []

    def present(self, source_from: int, source_to: int) -> None:
        """Take offsets that exist and are not copied: markers, aborted records."""
        if not self.is_settled:
            self._reach(source_from)
            self._position = max(self._position, source_to)

    def end(self, source_end: int) -> None:
        """Settle: the source ends here."""
        if not self.is_settled:
            self._reach(source_end)
            self.is_settled = True

    def result(self, log_start_offset: int) -> PlacedTail:
        """Return the placed tail, for a source with this log start. Raises PairingError."""
        anchors = self._anchors()
        fronts = self._fronts(anchors)
        count = self._copied_count(fronts, anchors)
        absent = self._absent_after(count)
        places = self._places(fronts[1 : count + 1], absent)
        first, last = (places[-1][0][0], places[-1][-1][1]) if count else _BEFORE_ALL
        end = self._length - 1
        source_next = self._survivors[count - 1].offset + 1 if count else self._source_from
        if first < end:
            # Copies follow the last survivor, or may: those of the first absent offsets there.
            source_next = absent[-1][1]
        pieces: list[Piece] = []
        for piece in self._pieces(self._survivors[:count], places, absent, source_next):
            add_piece(pieces, piece)
        lost = _lost(absent, end - last, log_start_offset) if first < end else None
        return PlacedTail(tuple(pieces), source_next, lost)

    # -- which alignments fit -------------------------------------------------------------------

    def _reach(self, offset: int) -> None:
        if offset > self._position:
            self._absent.append((self._position, offset))
            self._position = offset

    def _next_spans(
        self, front: Sequence[Range], survivor: _Survivor, *, is_anchor: bool
    ) -> list[Range]:
        """Return where a survivor's copy may be, given the places `front` of the one before."""
        absent_count = _count(survivor.absent)
        reached = _merged((first + 1, last + 1 + absent_count) for first, last in front)
        spans = list(_intersected(reached, self._spans_of.get(survivor.content, [])))
        if not is_anchor:
            spans = _merged(merge(spans, _intersected(reached, self._unknown)))
        self._steps += len(reached) + len(spans)
        if self._steps > STEPS_MAX:
            raise PairingError(
                "too many records of the source are equal to tell which of them were copied"
            )
        return spans

    def _anchors(self) -> list[bool]:
        """Return per survivor whether its content is once in the tail and once among survivors."""
        counts = Counter(survivor.content for survivor in self._survivors)
        copies = Counter(copy.content for copy in self._tail.copies if copy.content is not None)
        return [
            counts[survivor.content] == copies[survivor.content] == 1
            for survivor in self._survivors
        ]

    def _fronts(self, anchors: Sequence[bool]) -> list[list[Range]]:
        """Return where each survivor's copy may be, judged by what precedes it.

        The first entry is the place before the tail. The list ends with the last survivor that can
        have been copied.
        """
        fronts = [[_BEFORE_ALL]]
        for survivor, is_anchor in zip(self._survivors, anchors, strict=True):
            spans = self._next_spans(fronts[-1], survivor, is_anchor=is_anchor)
            if not spans:
                break
            fronts.append(spans)
        return fronts

    def _copied_count(self, fronts: Sequence[list[Range]], anchors: Sequence[bool]) -> int:
        """Return how many survivors were copied. Raises PairingError if nobody can tell."""
        least = max((n for n in range(len(fronts)) if n and anchors[n - 1]), default=0)
        ends = [n for n in range(least, len(fronts)) if self._may_end(n, fronts[n])]
        if len(ends) == 1:
            return ends[0]
        if ends:
            raise PairingError(
                "the source lost records that were copied and not mapped, and nothing tells "
                f"whether offset {self._survivors[ends[0]].offset} was copied as well"
            )
        at = self._tail.target_offset(fronts[-1][-1][1] + 1)
        raise PairingError(
            f"target offset {at} is not a copy of source offset "
            f"{self._offset_after(len(fronts))}, nor of a record that the source lost before it"
        )

    def _may_end(self, count: int, front: Sequence[Range]) -> bool:
        """Return whether the tail may end after so many survivors and the absent offsets there."""
        if front[-1][1] < self._length - 1 - _count(self._absent_after(count)):
            return False
        if self._tail.copies or not count or self._last_timestamp_ms is None:
            return True
        if self._absent_after(count):
            return (
                True  # absent records may be the last batch, and earlier ones may be later in time
            )
        # The survivor's copy would be the last one of the tail, so in the last batch. That is gone,
        # and the target reports the largest timestamp that it had.
        return self._survivors[count - 1].timestamp_ms <= self._last_timestamp_ms

    def _absent_after(self, count: int) -> Sequence[Range]:
        if count < len(self._survivors):
            return self._survivors[count].absent
        return self._absent

    def _offset_after(self, count: int) -> int:
        if count <= len(self._survivors):
            return self._survivors[count - 1].offset
        return self._position

    # -- the places -----------------------------------------------------------------------------

    def _places(self, fronts: Sequence[list[Range]], absent: Sequence[Range]) -> list[list[Range]]:
        """Return per copied survivor the spans that some whole alignment uses."""
        places: list[list[Range]] = []
        reachable = [(self._length - 1 - _count(absent), self._length - 1)]
        survivors = self._survivors[: len(fronts)]
        for survivor, front in zip(reversed(survivors), reversed(fronts), strict=True):
            places.append(list(_intersected(front, reachable)))
            before = 1 + _count(survivor.absent)
            reachable = _merged((first - before, last - 1) for first, last in places[-1])
        return places[::-1]

    def _pieces(
        self,
        survivors: Sequence[_Survivor],
        places: Sequence[list[Range]],
        absent_after: Sequence[Range],
        source_next: int,
    ) -> Iterator[Piece]:
        """Yield the pieces of the tail, from one survivor with a certain place to the next."""
        source_from, index = self._source_from, 0
        absent: list[Range] = []
        is_certain = True
        for survivor, spans in zip(survivors, places, strict=True):
            absent += survivor.absent
            place = spans[0][0]
            is_certain = is_certain and place == spans[-1][1]
            if place != spans[-1][1]:
                continue
            if is_certain:
                yield from self._orphans(index, place - index, absent)
            else:
                yield from self._tail.hole(source_from, survivor.offset, index, place - index)
            if self._tail.are_placed(place, 1):
                yield from self._tail.runs([(survivor.offset, survivor.offset + 1)], place)
            else:
                yield from self._tail.hole(survivor.offset, survivor.offset + 1, place, 1)
            source_from, index, absent, is_certain = survivor.offset + 1, place + 1, [], True
        if is_certain:
            yield from self._orphans(index, self._length - index, absent_after)
        else:
            yield from self._tail.hole(source_from, source_next, index, self._length - index)

    def _orphans(self, index: int, count: int, absent: Sequence[Range]) -> Iterator[Piece]:
        """Yield the copies of absent offsets: exact if there are as many of both."""
        if not count:
            return
        runs: tuple[Run, ...] = ()
        if count == _count(absent) and self._tail.are_placed(index, count):
            runs = tuple(self._tail.runs(absent, index))
        yield from self._tail.hole(absent[0][0], absent[-1][1], index, count, runs)


def _lost(absent: Sequence[Range], orphans_count: int, log_start_offset: int) -> Range | None:
    """Return what the source's retention took after the last copied record, or together with it.

    Copying goes in order: of the records below the log start, the first ones were copied. So the
    lowest offset that can be lost has as many absent offsets before it as there are such copies.
    """
    left = orphans_count
    for start, end in absent:
        end = min(end, log_start_offset)
        if start + left < end:
            return start + left, end
        left -= max(0, end - start)
    return None


def _spans_by_content(copies: Sequence[Copy]) -> defaultdict[Content, list[Range]]:
    """Return per content the ascending inclusive spans of its ordinals."""
    found: defaultdict[Content, list[Range]] = defaultdict(list)
    for copy in copies:
        if copy.content is None:
            continue
        spans = found[copy.content]
        if spans and spans[-1][1] == copy.ordinal - 1:
            spans[-1] = (spans[-1][0], copy.ordinal)
        else:
            spans.append((copy.ordinal, copy.ordinal))
    return found


def _count(ranges: Sequence[Range]) -> int:
    return sum(end - start for start, end in ranges)


def _merged(spans: Iterable[Range]) -> list[Range]:
    """Return ascending inclusive spans, with touching and overlapping ones joined."""
    merged: list[Range] = []
    for first, last in spans:
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(last, merged[-1][1]))
        else:
            merged.append((first, last))
    return merged


def _intersected(left: Sequence[Range], right: Sequence[Range]) -> Iterator[Range]:
    """Yield the intersection of two lists of ascending inclusive spans."""
    for first, last in left:
        at = max(0, bisect_left(right, (first, first)) - 1)
        while at < len(right) and right[at][0] <= last:
            low, high = max(first, right[at][0]), min(last, right[at][1])
            if low <= high:
                yield low, high
            at += 1
