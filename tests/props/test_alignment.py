"""A tail aligned with the rest of its source, against a model that knows every record."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mirror_maker.formats import Run
from mirror_maker.model import PairingError
from mirror_maker.tail.alignment import Alignment
from mirror_maker.tail.places import Copy, Hole, PlacedTail

TARGET_FROM = 1_000


@dataclass(frozen=True)
class Entry:
    """A source offset: a record with content, or a marker without."""

    offset: int
    content: str | None
    timestamp_ms: int = 0


@dataclass
class Story:
    """What the source had, where it was copied to, and what both sides still have."""

    entries: list[Entry]
    copied: dict[int, int]
    """Source offset -> target offset, of the whole tail."""
    missing_count: int
    """Copies that the target's retention took."""
    compacted: set[int]
    """Target offsets of copies whose content compaction took."""
    unplaced: set[int]
    """Target offsets among them whose batch is gone from among foreign records."""
    last_batch: list[int]
    """Source offsets of the tail's last batch."""
    survivors: list[Entry]
    log_start_offset: int
    source_end: int

    def align(self) -> PlacedTail:
        contents = {entry.offset: entry.content for entry in self.entries}
        timestamps = {entry.offset: entry.timestamp_ms for entry in self.entries}
        tail = [
            Copy(target, None if target in self.compacted else (contents[at],), index)
            for index, (at, target) in enumerate(self.copied.items())
        ]
        alignment = Alignment(
            0,
            TARGET_FROM,
            [
                copy
                for copy in tail[self.missing_count :]
                if copy.target_offset not in self.unplaced
            ],
            length=len(tail),
            trimmed_count=self.missing_count,
            last_timestamp_ms=max((timestamps[at] for at in self.last_batch), default=None),
        )
        for entry in self.survivors:
            if entry.content is None:
                alignment.present(entry.offset, entry.offset + 1)
            else:
                alignment.feed(entry.offset, (entry.content,), entry.timestamp_ms)
        alignment.end(self.source_end)
        return alignment.result(self.log_start_offset)

    @property
    def is_deceptive(self) -> bool:
        """Whether the source lost a copied record and still has an equal one."""
        there = {entry.offset for entry in self.survivors}
        gone = {e.content for e in self.entries if e.offset in self.copied.keys() - there}
        return not gone.isdisjoint(entry.content for entry in self.survivors)

    @property
    def lost(self) -> list[int]:
        """Records that retention took from the source before they were copied."""
        return [
            entry.offset
            for entry in self.entries
            if entry.content is not None
            and entry.offset < self.log_start_offset
            and entry.offset not in self.copied
        ]


def told(
    random: Random,
    *,
    contents: str | None,
    is_compacted: bool,
    is_shared: bool,
    is_copy_compacted: bool = False,
    is_tail_lost: bool = False,
) -> Story:
    """`contents`: the letters that records are made of; None makes each its own."""
    entries = []
    for offset in range(random.randint(1, 24)):
        is_record = random.random() < 0.85
        content = random.choice(contents) if contents else str(offset)
        timestamp_ms = offset // 3 + random.choice([0, 0, random.randint(-4, 4)])
        entries.append(Entry(offset, content if is_record else None, timestamp_ms))
    records = [entry.offset for entry in entries if entry.content is not None]
    count = random.randint(min(1, len(records)), len(records))
    copied, target = {}, TARGET_FROM
    for offset in records[:count]:
        target += random.choice([0, 0, 2]) if is_shared else 0
        copied[offset] = target
        target += 1
    last_batch = [*copied][-random.randint(1, 4) :]
    missing_count = random.choice([0, 0, random.randint(0, count)])
    if is_tail_lost:
        missing_count = count
    log_start_offset = random.choice([0, random.randint(0, len(entries))])
    survivors = [
        entry
        for entry in entries
        if entry.offset >= log_start_offset and not (is_compacted and random.random() < 0.3)
    ]
    compacted, unplaced = set(), set()
    if is_copy_compacted:
        # Compaction never takes the newest record of a log.
        compacted = {at for at in [*copied.values()][:-1] if random.random() < 0.4}
        if is_shared:
            unplaced = {at for at in compacted if random.random() < 0.5}
    return Story(
        entries,
        copied,
        missing_count,
        compacted,
        unplaced,
        last_batch,
        survivors,
        log_start_offset,
        len(entries),
    )


def check(story: Story, aligned: PlacedTail) -> None:
    """Check that every piece is true, and that together they cover every copy on the target."""
    there = dict(list(story.copied.items())[story.missing_count :])
    told_of: dict[int, int] = {}
    for piece in aligned.pieces:
        for run in (piece,) if isinstance(piece, Run) else piece.runs:
            for index in range(run.records_count):
                at = run.source_offset + index
                assert there[at] == run.target_offset + index, piece
                told_of[at] = there[at]
        if isinstance(piece, Hole):
            check_hole(story, piece)
            told_of |= {
                at: t for at, t in there.items() if piece.source_from <= at < piece.source_to
            }
    assert told_of == there
    assert all(at < aligned.source_next for at in story.copied)
    uncopied = [
        entry.offset
        for entry in story.survivors
        if entry.content is not None and entry.offset not in story.copied
    ]
    assert all(offset >= aligned.source_next for offset in uncopied)
    before = [offset for offset in story.lost if offset < aligned.source_next]
    if aligned.lost is None:
        assert not before
    else:
        assert all(aligned.lost[0] <= offset < aligned.lost[1] for offset in before)


def check_hole(story: Story, hole: Hole) -> None:
    inside = {
        at: target for at, target in story.copied.items() if hole.source_from <= at < hole.source_to
    }
    assert len(inside) == hole.records_count
    assert all(hole.target_from <= target < hole.target_to for target in inside.values())
    for at, target in story.copied.items():
        assert at not in inside or target in range(hole.target_from, hole.target_to)
        if at < hole.source_from:
            assert target < hole.target_from or story.missing_count
        if at >= hole.source_to:
            assert target >= hole.target_to


stories = st.builds(
    told,
    st.randoms(use_true_random=False),
    contents=st.sampled_from([None, None, "ab", "a"]),
    is_compacted=st.booleans(),
    is_shared=st.booleans(),
    is_copy_compacted=st.booleans(),
)


@settings(deadline=None, max_examples=800)
@given(stories)
def test_every_answer_is_true(story: Story) -> None:
    if story.is_deceptive:
        return
    try:
        aligned = story.align()
    except PairingError:
        return
    check(story, aligned)


@settings(deadline=None, max_examples=800)
@given(st.randoms(use_true_random=False), st.booleans())
def test_every_answer_about_a_lost_tail_is_true(random: Random, is_compacted: bool) -> None:
    """The target has no copy any more, and tells the largest timestamp of the last batch."""
    story = told(
        random, contents=None, is_compacted=is_compacted, is_shared=False, is_tail_lost=True
    )
    try:
        aligned = story.align()
    except PairingError:
        return
    check(story, aligned)


@settings(deadline=None, max_examples=600)
@given(st.randoms(use_true_random=False), st.booleans(), st.booleans())
def test_different_records_are_always_told_apart(
    random: Random, is_compacted: bool, is_shared: bool
) -> None:
    story = told(random, contents=None, is_compacted=is_compacted, is_shared=is_shared)
    if not story.missing_count:
        check(story, story.align())


@settings(deadline=None, max_examples=600)
@given(st.randoms(use_true_random=False), st.booleans())
def test_copies_that_only_the_target_compacted_are_always_placed(
    random: Random, is_shared: bool
) -> None:
    """The source still has everything: each copy has its place, or its bounds among others."""
    story = told(
        random, contents=None, is_compacted=False, is_shared=is_shared, is_copy_compacted=True
    )
    if story.missing_count or story.log_start_offset:
        return
    aligned = story.align()
    check(story, aligned)
    assert aligned.lost is None
    known = {at for run in aligned.runs for at in range(run.target_offset, run.target_next)}
    assert not known & story.unplaced
    assert len(known) + sum(hole.records_count for hole in aligned.holes) == len(story.copied)
    assert len(story.copied) - len(known) <= 2 * len(story.unplaced), "each with the next copy"


def aligned_with(copies: str, survivors: dict[int, str], end: int, **options: int) -> PlacedTail:
    """`?` is a copy without content, `-` one whose target offset is not known either."""
    tail = [
        Copy(TARGET_FROM + at, None if content == "?" else (content,), at)
        for at, content in enumerate(copies)
        if content != "-"
    ]
    alignment = Alignment(0, TARGET_FROM, tail, length=len(copies))
    for offset, content in survivors.items():
        alignment.feed(offset, (content,), 0)
    alignment.end(end)
    return alignment.result(options.get("log_start_offset", 0))


def test_as_many_copies_as_absent_offsets_are_exact() -> None:
    aligned = aligned_with("abcd", {3: "d", 4: "e"}, 5, log_start_offset=3)
    gone = Hole(0, 3, 1_000, 1_003, 3, tuple(Run(at, 1_000 + at, 1) for at in range(3)))
    assert aligned == PlacedTail((gone, Run(3, 1_003, 1)), 4)


def test_fewer_copies_than_absent_offsets_are_a_hole() -> None:
    aligned = aligned_with("abd", {3: "d"}, 4, log_start_offset=3)
    assert aligned.pieces == (Hole(0, 3, 1_000, 1_002, 2), Run(3, 1_002, 1))
    assert aligned.lost is None, "the next record was copied, so nothing before it was left out"


def test_a_tail_without_a_source_bounds_what_was_lost() -> None:
    aligned = aligned_with("abc", {5: "f"}, 6, log_start_offset=5)
    assert aligned == PlacedTail((Hole(0, 5, 1_000, 1_003, 3),), 5, (3, 5))
    compacted = aligned_with("abc", {5: "f"}, 6)
    assert compacted == PlacedTail((Hole(0, 5, 1_000, 1_003, 3),), 5)


def test_equal_records_without_a_clue_are_not_guessed() -> None:
    with pytest.raises(PairingError, match="whether offset 2 was copied as well"):
        aligned_with("aa", {2: "a", 3: "a"}, 4)


def test_equal_records_whose_places_alone_differ_are_in_a_hole() -> None:
    aligned = aligned_with("aab", {1: "a", 3: "b"}, 4)
    assert aligned.pieces == (Hole(0, 3, 1_000, 1_002, 2), Run(3, 1_002, 1))


def test_records_that_are_no_copies_are_named() -> None:
    with pytest.raises(PairingError, match="target offset 1001 is not a copy of source offset 1"):
        aligned_with("ab", {0: "a", 1: "x"}, 2)


def test_missing_copies_are_those_of_as_many_survivors() -> None:
    aligned = aligned_with("a??d", {0: "a", 1: "b", 4: "c", 5: "d"}, 6)
    assert aligned.pieces == (Run(0, 1_000, 2), Run(4, 1_002, 2))


def test_missing_copies_and_as_many_absent_offsets_are_exact() -> None:
    aligned = aligned_with("a??d", {0: "a", 2: "c", 3: "d"}, 4)
    assert aligned.holes == [Hole(1, 2, 1_001, 1_002, 1, (Run(1, 1_001, 1),))]
    assert aligned.pieces[2] == Run(2, 1_002, 2)


def test_a_missing_copy_that_may_be_of_several_offsets_is_a_hole() -> None:
    aligned = aligned_with("a??d", {0: "a", 2: "c", 4: "d"}, 5)
    assert aligned.pieces == (Run(0, 1_000, 1), Hole(1, 4, 1_001, 1_003, 2), Run(4, 1_003, 1))


def test_missing_copies_among_foreign_records_are_one_hole() -> None:
    aligned = aligned_with("a--de", {0: "a", 1: "b", 2: "c", 3: "d", 4: "e"}, 5)
    # It takes in the next copy: only from there on the places are known.
    assert aligned.pieces == (Run(0, 1_000, 1), Hole(1, 4, 1_001, 1_004, 3), Run(4, 1_004, 1))


def test_a_missing_end_without_a_clue_is_not_guessed() -> None:
    with pytest.raises(PairingError, match="whether offset 2 was copied as well"):
        aligned_with("a?", {0: "a", 2: "c"}, 3)


def lost_tail(last_timestamp_ms: int, survivors: dict[int, int], end: int) -> PlacedTail:
    """Align two copies that the target has lost with survivors of these timestamps."""
    alignment = Alignment(
        0, TARGET_FROM, [], length=2, trimmed_count=2, last_timestamp_ms=last_timestamp_ms
    )
    for offset, timestamp_ms in survivors.items():
        alignment.feed(offset, (str(offset),), timestamp_ms)
    alignment.end(end)
    return alignment.result(0)


def test_the_last_copy_of_a_lost_tail_is_no_record_with_a_larger_timestamp() -> None:
    assert lost_tail(10, {2: 11, 3: 12}, 4).source_next == 2
    with pytest.raises(PairingError, match="whether offset 2 was copied as well"):
        lost_tail(11, {2: 11, 3: 12}, 4)


def test_an_earlier_batch_of_a_lost_tail_may_have_had_larger_timestamps() -> None:
    """Offset 2 may be the last copy but one: 3 is absent, and may have been the last one."""
    with pytest.raises(PairingError, match="whether offset 2 was copied as well"):
        lost_tail(10, {2: 100, 4: 200}, 5)
