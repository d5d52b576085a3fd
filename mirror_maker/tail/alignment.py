"""Aligns the target's tail with a source that lost records after they were copied. Pure.

The target may have lost copies too: the first of the tail to retention, any to compaction. Their
content is unknown, and so they may be copies of any record; sequences say how many there are.

The tail holds the copies of the first copyable records behind the map: all of them, in order. The
source may have lost any of these records meanwhile: its retention took the first, or compaction
took some. What it still has are the *survivors*.

    source     100  .   .  103  .  105 106 ...      a dot is an offset without a record
    tail        t0  t1  t2  t3  t4  t5              copies, in order

An alignment gives every copy either a survivor with the same content or a place among the absent
offsets. It fits if

- the copies of survivors are in the survivors' order;
- between the copies of two survivors lie at most as many others as offsets are absent between them;
- no survivor before the last copied one is left out.

A survivor and a copy are taken for the same record where their content (key, value, headers,
timestamp) occurs once in the tail and once among the survivors. This is an assumption: a record
that the source lost may have been equal to one that it still has.

Where no alignment fits, or where they differ in which survivor was copied last, nobody can tell
where to go on: PairingError. Where they agree on that but differ in the place of a survivor, or
where fewer copies than absent offsets lie between two of them, that part is a `Hole`: its copies
are known, and which source offset each of them had is not.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from heapq import merge
from typing import Final, NamedTuple

from mirror_maker.formats import Run
from mirror_maker.model import PairingError
from mirror_maker.rules.gap_ranges import Range

STEPS_MAX: Final = 5_000_000
"""Comparisons of spans in one alignment; beyond it, too many records are equal."""

_BEFORE_ALL: Final = (-1, -1)
"""The span of what precedes the tail."""

Content = tuple[object, ...]
"""A record without its offset."""


class Copy(NamedTuple):
    """One record of the tail whose target offset is known."""

    target_offset: int
    content: Content | None
    """None where the target no longer has it."""
    ordinal: int
    """Copies of the tail before it."""


class Hole(NamedTuple):
    """Copies whose source is gone, or that the target lost from among others' records.

    `records_count` records of the source offsets [source_from, source_to) lie at target offsets
    [target_from, target_to). Other records may lie there too where others write into the target.
    """

    source_from: int
    source_to: int
    target_from: int
    target_to: int
    records_count: int
    runs: tuple[Run, ...] = ()
    """Where each of them is, if there are as many as source offsets; else nobody knows."""

    is_open: bool = False
    """Whether the last copy may lie anywhere before `target_to`, among others' records."""

    def joined(self, other: Hole) -> Hole:
        """This hole and the next one as one."""
        return Hole(
            self.source_from,
            other.source_to,
            self.target_from,
            other.target_to,
            self.records_count + other.records_count,
            is_open=other.is_open,
        )


Piece = Run | Hole


def add_piece(pieces: list[Piece], piece: Piece) -> None:
    """Add what follows. An open hole takes in the next copy: what comes after that one lies behind
    a known place, so that readers who stand there miss nothing of the others'."""
    last = pieces[-1] if pieces else None
    if isinstance(last, Hole) and last.is_open and isinstance(piece, Run):
        source, target, count = piece
        pieces[-1] = last.joined(Hole(source, source + 1, target, target + 1, 1))
        if count > 1:
            pieces.append(Run(source + 1, target + 1, count - 1))
    elif (
        isinstance(last, Hole)
        and isinstance(piece, Hole)
        and (last.is_open or not (last.runs or piece.runs))
    ):
        pieces[-1] = last.joined(piece)
    elif (
        isinstance(last, Run)
        and isinstance(piece, Run)
        and (last.source_next, last.target_next) == piece[:2]
    ):
        pieces[-1] = last._replace(records_count=last.records_count + piece.records_count)
    else:
        pieces.append(piece)


class Place(NamedTuple):
    """Where copies at target offsets [target_from, target_to) come from.

    The first is of source offset `source_from`; without `is_exact` each is of some offset below
    `source_to`.
    """

    target_from: int
    target_to: int
    source_from: int
    source_to: int
    is_exact: bool

    def sources(self, target_offset: int) -> tuple[int, int]:
        """Source offsets [from, to) that the copy at this offset may have."""
        if not self.is_exact:
            return self.source_from, self.source_to
        offset = self.source_from + target_offset - self.target_from
        return offset, offset + 1


class Aligned(NamedTuple):
    """The one alignment that fits, in order."""

    pieces: tuple[Piece, ...]
    source_next: int
    """The source offset behind the last copied record, and behind the hole that ends the tail."""
    lost: Range | None = None
    """Source offsets that the source's retention took and that were not all copied. The records
    among them that were copied are those of the last piece."""
    last_epoch: int = -1
    """Leader epoch of the source's last batch before `source_next`; -1 where it is not known."""

    @property
    def holes(self) -> list[Hole]:
        """Copies whose source is gone."""
        return [piece for piece in self.pieces if isinstance(piece, Hole)]

    def places(self) -> list[Place]:
        """Where every copy comes from, ascending."""
        places: list[Place] = []
        for piece in self.pieces:
            if isinstance(piece, Hole) and not piece.runs:
                places.append(
                    Place(
                        piece.target_from,
                        piece.target_to,
                        piece.source_from,
                        piece.source_to,
                        False,
                    )
                )
                continue
            for run in piece.runs if isinstance(piece, Hole) else (piece,):
                places.append(
                    Place(
                        run.target_offset, run.target_next, run.source_offset, run.source_next, True
                    )
                )
        return places

    @property
    def runs(self) -> list[Run]:
        """Copies whose source offsets are known."""
        known = (piece.runs if isinstance(piece, Hole) else (piece,) for piece in self.pieces)
        return [run for runs in known for run in runs]


class _Survivor(NamedTuple):
    offset: int
    content: Content
    timestamp_ms: int
    absent: tuple[Range, ...]
    """Source offsets without a record between the survivor before and this one."""


class Alignment:
    """Feed what the source still has, in order, until `is_settled`; then ask for the `result`."""

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
        """`source_from` and `target_from` are where the map ends.

        `copies` ascend. `length` counts the whole tail, also copies without a known target offset;
        by default there are none. The first `trimmed_count` copies lie before the target's log
        start. `last_timestamp_ms` is the largest timestamp of the tail's last batch where no copy
        is left and the target still tells it.
        """
        self.is_settled = False
        """Whether no further survivor can have been copied."""
        self._target_from = target_from
        self._copies = copies
        self._indexes = [copy.ordinal for copy in copies]
        self._trimmed = trimmed_count
        self._length = len(copies) if length is None else length
        self._last_timestamp_ms = last_timestamp_ms
        self._spans_of: defaultdict[Content, list[Range]] = defaultdict(list)
        self._unknown: list[Range] = []
        """Where the tail has copies of which the target no longer has the content."""
        behind = 0
        for copy in copies:
            if copy.content is None:
                continue
            if copy.ordinal > behind:
                self._unknown.append((behind, copy.ordinal - 1))
            behind = copy.ordinal + 1
            spans = self._spans_of[copy.content]
            if spans and spans[-1][1] == copy.ordinal - 1:
                spans[-1] = (spans[-1][0], copy.ordinal)
            else:
                spans.append((copy.ordinal, copy.ordinal))
        if behind < self._length:
            self._unknown.append((behind, self._length - 1))
        self._source_from = self._position = source_from
        self._absent: list[Range] = []
        """Since the survivor that was fed last."""
        self._survivors: list[_Survivor] = []
        """All that were fed. Where the last one has no place in the tail this is settled."""
        self._front: list[Range] = [_BEFORE_ALL]
        self._steps = 0

    def feed(self, offset: int, content: Content, timestamp_ms: int) -> None:
        """The source has this record, which is to be copied. Raises PairingError."""
        if self.is_settled:
            return
        self._reach(offset)
        survivor = _Survivor(offset, content, timestamp_ms, tuple(self._absent))
        self._survivors.append(survivor)
        self._front = self._next_spans(self._front, survivor, is_anchor=False)
        self.is_settled = not self._front
        self._position, self._absent = offset + 1, []

    def present(self, source_from: int, source_to: int) -> None:
        """These offsets are there, and have nothing that is copied: markers, aborted records."""
        if not self.is_settled:
            self._reach(source_from)
            self._position = max(self._position, source_to)

    def end(self, source_end: int) -> None:
        """The source ends here."""
        if not self.is_settled:
            self._reach(source_end)
            self.is_settled = True

    def result(self, log_start_offset: int) -> Aligned:
        """The alignment, for a source whose log begins there. Raises PairingError."""
        anchors = self._anchors()
        fronts = self._fronts(anchors)
        count = self._copied_count(fronts, anchors)
        behind = self._absent_behind(count)
        places = self._places(fronts[1 : count + 1], behind)
        first, last = (places[-1][0][0], places[-1][-1][1]) if count else _BEFORE_ALL
        end = self._length - 1
        source_next = self._survivors[count - 1].offset + 1 if count else self._source_from
        if first < end:
            # Copies lie behind the last survivor, or may: those of the first absent offsets there.
            source_next = behind[-1][1]
        pieces: list[Piece] = []
        for piece in self._pieces(self._survivors[:count], places, behind, source_next):
            add_piece(pieces, piece)
        lost = _lost(behind, end - last, log_start_offset) if first < end else None
        return Aligned(tuple(pieces), source_next, lost)

    # -- which alignments fit -------------------------------------------------------------------

    def _reach(self, offset: int) -> None:
        if offset > self._position:
            self._absent.append((self._position, offset))
            self._position = offset

    def _next_spans(
        self, front: Sequence[Range], survivor: _Survivor, *, is_anchor: bool
    ) -> list[Range]:
        """Where a survivor's copy may be, if that of the one before is within `front`."""
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
        """Of every survivor whether its content is once in the tail and once among survivors."""
        counts = Counter(survivor.content for survivor in self._survivors)
        copies = Counter(copy.content for copy in self._copies if copy.content is not None)
        return [
            counts[survivor.content] == copies[survivor.content] == 1
            for survivor in self._survivors
        ]

    def _fronts(self, anchors: Sequence[bool]) -> list[list[Range]]:
        """Where the copy of each survivor may be, from what lies before it; the first is nobody's.

        It ends with the last survivor that can have been copied.
        """
        fronts = [[_BEFORE_ALL]]
        for survivor, is_anchor in zip(self._survivors, anchors, strict=True):
            spans = self._next_spans(fronts[-1], survivor, is_anchor=is_anchor)
            if not spans:
                break
            fronts.append(spans)
        return fronts

    def _copied_count(self, fronts: Sequence[list[Range]], anchors: Sequence[bool]) -> int:
        """How many survivors were copied. Raises PairingError where that cannot be told."""
        least = max((n for n in range(len(fronts)) if n and anchors[n - 1]), default=0)
        ends = [n for n in range(least, len(fronts)) if self._may_end(n, fronts[n])]
        if len(ends) == 1:
            return ends[0]
        if ends:
            raise PairingError(
                "the source lost records that were copied and not mapped, and nothing tells "
                f"whether offset {self._survivors[ends[0]].offset} was copied as well"
            )
        place = bisect_right(self._indexes, fronts[-1][-1][1] + 1)
        at = self._copies[max(0, place - 1)].target_offset if self._copies else self._target_from
        raise PairingError(
            f"target offset {at} is not a copy of source offset "
            f"{self._offset_behind(len(fronts))}, nor of a record that the source lost before it"
        )

    def _may_end(self, count: int, front: Sequence[Range]) -> bool:
        """Whether the tail may end with that many survivors and the absent offsets behind them."""
        if front[-1][1] < self._length - 1 - _count(self._absent_behind(count)):
            return False
        if self._copies or not count or self._last_timestamp_ms is None:
            return True
        # The tail's last batch is gone, and the target tells the largest timestamp that it had.
        return self._survivors[count - 1].timestamp_ms <= self._last_timestamp_ms

    def _absent_behind(self, count: int) -> Sequence[Range]:
        if count < len(self._survivors):
            return self._survivors[count].absent
        return self._absent

    def _offset_behind(self, count: int) -> int:
        if count <= len(self._survivors):
            return self._survivors[count - 1].offset
        return self._position

    # -- telling --------------------------------------------------------------------------------

    def _places(self, fronts: Sequence[list[Range]], behind: Sequence[Range]) -> list[list[Range]]:
        """Of each copied survivor the spans that some whole alignment uses."""
        places: list[list[Range]] = []
        reachable = [(self._length - 1 - _count(behind), self._length - 1)]
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
        behind: Sequence[Range],
        source_next: int,
    ) -> Iterator[Piece]:
        """What became of every copy, from one survivor whose place is certain to the next."""
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
                yield from self._hole(source_from, survivor.offset, index, place - index)
            if self._are_placed(place, 1):
                yield from self._runs([(survivor.offset, survivor.offset + 1)], place)
            else:
                yield from self._hole(survivor.offset, survivor.offset + 1, place, 1)
            source_from, index, absent, is_certain = survivor.offset + 1, place + 1, [], True
        if is_certain:
            yield from self._orphans(index, self._length - index, behind)
        else:
            yield from self._hole(source_from, source_next, index, self._length - index)

    def _orphans(self, index: int, count: int, absent: Sequence[Range]) -> Iterator[Piece]:
        """Copies whose records were at absent offsets: exact if there are as many of both."""
        if not count:
            return
        runs: tuple[Run, ...] = ()
        if count == _count(absent) and self._are_placed(index, count):
            runs = tuple(self._runs(absent, index))
        yield from self._hole(absent[0][0], absent[-1][1], index, count, runs)

    def _hole(
        self, source_from: int, source_to: int, index: int, count: int, runs: tuple[Run, ...] = ()
    ) -> Iterator[Hole]:
        last = index + count - 1
        if last < self._trimmed:
            return  # nobody asks for the places of these copies any more
        target_from = self._target_from
        if index >= self._trimmed:
            before = bisect_right(self._indexes, index)
            if before:
                copy = self._copies[before - 1]
                target_from = copy.target_offset + (copy.ordinal < index)
        behind = bisect_left(self._indexes, last)
        assert behind < len(self._copies), "the tail ends with a batch that the target has"
        following = self._copies[behind]
        is_open = following.ordinal > last
        target_to = following.target_offset + (not is_open)
        yield Hole(source_from, source_to, target_from, target_to, count, runs, is_open)

    def _are_placed(self, index: int, count: int) -> bool:
        """Whether each of these copies has a known target offset, or nobody asks for it."""
        first = max(index, self._trimmed)
        known = bisect_left(self._indexes, index + count) - bisect_left(self._indexes, first)
        return known == max(0, index + count - first)

    def _runs(self, sources: Sequence[Range], index: int) -> Iterator[Run]:
        """Offsets and copies, one by one; nothing is told of copies before the log start."""
        at = bisect_left(self._indexes, index)
        for start, end in sources:
            for offset in range(start, end):
                if index >= self._trimmed:
                    yield Run(offset, self._copies[at].target_offset, 1)
                    at += 1
                index += 1


def _lost(absent: Sequence[Range], orphans_count: int, log_start_offset: int) -> Range | None:
    """What the source's retention took behind the last copied record, or together with it.

    Copying goes in order: of the records that were below the log start the first ones were copied.
    So the lowest offset that can be lost has as many absent offsets before it as copies lie there.
    """
    left = orphans_count
    for start, end in absent:
        end = min(end, log_start_offset)
        if start + left < end:
            return start + left, end
        left -= max(0, end - start)
    return None


def _count(ranges: Sequence[Range]) -> int:
    return sum(end - start for start, end in ranges)


def _merged(spans: Iterable[Range]) -> list[Range]:
    """Ascending inclusive spans, with those that touch or overlap made one."""
    merged: list[Range] = []
    for first, last in spans:
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(last, merged[-1][1]))
        else:
            merged.append((first, last))
    return merged


def _intersected(left: Sequence[Range], right: Sequence[Range]) -> Iterator[Range]:
    """What two lists of ascending inclusive spans have in common."""
    for first, last in left:
        at = max(0, bisect_left(right, (first, first)) - 1)
        while at < len(right) and right[at][0] <= last:
            low, high = max(first, right[at][0]), min(last, right[at][1])
            if low <= high:
                yield low, high
            at += 1
