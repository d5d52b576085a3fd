"""Where the copies of a tail come from: exact runs, and holes where nobody knows. Pure."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from mirror_maker.formats import Run
from mirror_maker.rules.gap_ranges import Range

Content = tuple[object, ...]
"""A record without its offset."""


class Copy(NamedTuple):
    """One record of the tail with a known target offset."""

    target_offset: int
    content: Content | None
    """None if the target no longer has it."""
    ordinal: int
    """Copies of the tail before it."""


class Hole(NamedTuple):
    """Copies without a known source offset: the source lost the records, or the target the copies.

    `records_count` records of the source offsets [source_from, source_to) lie at target offsets
    [target_from, target_to). If others write into the target, their records may lie there too.
    """

    source_from: int
    source_to: int
    target_from: int
    target_to: int
    records_count: int
    runs: tuple[Run, ...] = ()
    """The place of each copy, if there are as many copies as source offsets; else empty."""

    is_open: bool = False
    """Whether the last copy may lie anywhere before `target_to`, among foreign records."""

    def joined(self, other: Hole) -> Hole:
        """Return this hole and the next one as one."""
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
    """Append the next piece, and join it with the last one if possible.

    An open hole takes in the next copy. What follows that copy lies after a known place, so readers
    who stand there miss no foreign record.
    """
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
    """The source offsets of the copies at target offsets [target_from, target_to).

    The first copy has source offset `source_from`. Without `is_exact`, each copy has some offset in
    [source_from, source_to).
    """

    target_from: int
    target_to: int
    source_from: int
    source_to: int
    is_exact: bool

    def sources(self, target_offset: int) -> tuple[int, int]:
        """Return the source offsets [from, to) that the copy at this offset may have."""
        if not self.is_exact:
            return self.source_from, self.source_to
        offset = self.source_from + target_offset - self.target_from
        return offset, offset + 1


class PlacedTail(NamedTuple):
    """A tail whose copies have their places in the source."""

    pieces: tuple[Piece, ...]
    """In order."""
    source_next: int
    """The source offset after the last copied record, and after a hole that ends the tail."""
    lost: Range | None = None
    """Source offsets that the source's retention took and that were not all copied. Those that were
    copied are in the last piece."""
    last_epoch: int = -1
    """Leader epoch of the source's last batch before `source_next`; -1 if unknown."""

    @property
    def holes(self) -> list[Hole]:
        """Copies without a known source offset."""
        return [piece for piece in self.pieces if isinstance(piece, Hole)]

    def places(self) -> list[Place]:
        """Return the source offsets of every copy, ascending."""
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
        """Copies with a known source offset."""
        known = [piece.runs if isinstance(piece, Hole) else (piece,) for piece in self.pieces]
        return [run for runs in known for run in runs]


class TailCopies:
    """The copies of a tail by ordinal, also those without a known target offset."""

    def __init__(
        self, copies: Sequence[Copy], length: int, *, trimmed_count: int, target_from: int
    ) -> None:
        """`copies` ascend and have known target offsets; `length` counts all copies.

        The first `trimmed_count` copies lie before the target's log start. `target_from` is the
        target offset at which the map ends.
        """
        self.copies = copies
        self.length = length
        self._ordinals = [copy.ordinal for copy in copies]
        self._trimmed = trimmed_count
        self._target_from = target_from

    def unknown(self) -> list[Range]:
        """Return spans [first, last] of ordinals whose content the target no longer has."""
        spans: list[Range] = []
        following = 0
        for copy in self.copies:
            if copy.content is None:
                continue
            if copy.ordinal > following:
                spans.append((following, copy.ordinal - 1))
            following = copy.ordinal + 1
        if following < self.length:
            spans.append((following, self.length - 1))
        return spans

    def target_offset(self, ordinal: int) -> int:
        """Return the target offset of the copy, or of the last known one before it."""
        place = bisect_right(self._ordinals, ordinal)
        if not self.copies:
            return self._target_from
        return self.copies[max(0, place - 1)].target_offset

    def are_placed(self, ordinal: int, count: int) -> bool:
        """Return whether each of these copies has a known target offset, or is trimmed."""
        first = max(ordinal, self._trimmed)
        known = bisect_left(self._ordinals, ordinal + count) - bisect_left(self._ordinals, first)
        return known == max(0, ordinal + count - first)

    def runs(self, sources: Sequence[Range], ordinal: int) -> Iterator[Run]:
        """Yield a run per source offset and copy; copies before the log start are left out."""
        at = bisect_left(self._ordinals, ordinal)
        for start, end in sources:
            for offset in range(start, end):
                if ordinal >= self._trimmed:
                    yield Run(offset, self.copies[at].target_offset, 1)
                    at += 1
                ordinal += 1

    def hole(
        self,
        source_from: int,
        source_to: int,
        ordinal: int,
        count: int,
        runs: tuple[Run, ...] = (),
    ) -> Iterator[Hole]:
        """Yield the hole of these copies; nothing if all of them lie before the log start."""
        last = ordinal + count - 1
        if last < self._trimmed:
            return
        target_from = self._target_from
        if ordinal >= self._trimmed:
            before = bisect_right(self._ordinals, ordinal)
            if before:
                copy = self.copies[before - 1]
                target_from = copy.target_offset + (copy.ordinal < ordinal)
        index = bisect_left(self._ordinals, last)
        assert index < len(self.copies), "the tail ends with a batch that the target has"
        following = self.copies[index]
        is_open = following.ordinal > last
        target_to = following.target_offset + (not is_open)
        yield Hole(source_from, source_to, target_from, target_to, count, runs, is_open)
