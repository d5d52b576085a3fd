"""Batches in pieces: the same records in the same places, however they are split."""

from __future__ import annotations

from itertools import pairwise

from local_cluster.records import header as h
from local_cluster.records.batch import NewRecord, Record, decode_batch, encode_batch
from mirror_maker.copy.batch_selection import CopyPath, SourceBatch, select_batches
from mirror_maker.copy.batch_splitting import BatchSplitter
from mirror_maker.copy.passthrough import PreparedBatch
from mirror_maker.rules.gap_ranges import GapRanges
from mirror_maker.rules.trouble import Trouble

COUNT = 40
FIRST = 1_000


def source_batch(gaps: GapRanges | None = None, codec: int = 0) -> SourceBatch:
    records = [NewRecord(5_000 + n, b"k%d" % n, b"%03d" % n * 50) for n in range(COUNT)]
    batch = encode_batch(records, codec=codec)
    h.patch_base_offset(batch, 0, FIRST)
    selection = select_batches(memoryview(batch), FIRST, (), gaps=gaps or GapRanges())
    (selected,) = selection.batches
    return selected


def copied(pieces: list[PreparedBatch]) -> list[Record]:
    """Return the records of the pieces with their source offsets; check that the pieces join."""
    found = []
    for piece in pieces:
        header = h.read_header(piece.data)
        offsets = [o for first, count in piece.segments for o in range(first, first + count)]
        records = decode_batch(piece.data, 0, header)
        assert len(records) == len(offsets) == piece.records_count == header.records_count
        assert piece.source_first <= offsets[0]
        assert offsets[-1] < piece.source_next
        found += [r._replace(offset=o) for r, o in zip(records, offsets, strict=True)]
    for piece, following in pairwise(pieces):
        assert piece.source_next == following.source_first
    return found


def test_without_refusals_nothing_is_split() -> None:
    (piece,) = BatchSplitter().prepare(source_batch())
    assert (piece.path, piece.records_count) == (CopyPath.PASSTHROUGH, COUNT)


def test_pieces_fit_the_limit() -> None:
    whole = source_batch()
    expected = whole.records()
    splitter = BatchSplitter()
    splitter.limit(5_000)
    splitter.limit(1_000)
    splitter.limit(9_000)
    assert splitter.bytes_max == 1_000
    for codec in (0, 1, 4):
        pieces = splitter.prepare(source_batch(codec=codec))
        assert all(len(piece.data) <= 1_000 for piece in pieces)
        assert all(h.read_header(piece.data).codec == codec for piece in pieces)
        assert copied(pieces) == expected
    assert (pieces[0].source_first, pieces[-1].source_next) == (FIRST, FIRST + COUNT)


def test_a_single_record_is_never_split() -> None:
    splitter = BatchSplitter()
    splitter.limit(10)
    pieces = splitter.prepare(source_batch())
    assert [piece.records_count for piece in pieces] == [1] * COUNT
    assert {piece.path for piece in pieces} == {CopyPath.SPLIT}


def test_suspects_are_halved_down_to_one_record() -> None:
    splitter = BatchSplitter()
    bad = FIRST + 23
    expected = source_batch().records()
    rounds = 0
    while True:
        pieces = splitter.prepare(source_batch())
        assert copied(pieces) == expected
        refused = next(p for p in pieces if p.source_first <= bad < p.source_next)
        if refused.records_count == 1:
            break
        splitter.suspect(refused)
        rounds += 1
    assert (refused.source_first, refused.source_next) == (bad, bad + 1)
    assert rounds <= 6, "40 records are halved at most six times"


def test_records_in_a_gap_are_in_no_piece() -> None:
    gaps = GapRanges([(FIRST, FIRST + 2), (FIRST + 10, FIRST + 11), (FIRST + 38, FIRST + 50)])
    expected = [r for r in source_batch().records() if not gaps.contains(r.offset)]
    (whole,) = BatchSplitter().prepare(source_batch(gaps))
    assert whole.path is CopyPath.GAP
    assert copied([whole]) == expected
    splitter = BatchSplitter()
    splitter.limit(700)
    assert copied(splitter.prepare(source_batch(gaps))) == expected


def test_a_refused_coalesced_batch_is_sent_as_the_source_has_it() -> None:
    splitter = BatchSplitter()
    assert splitter.may_coalesce(0)
    refused = PreparedBatch(memoryview(b""), 9, 100, 109, ((100, 9),), CopyPath.COALESCED, 9)
    splitter.separate(refused, Trouble.TIMESTAMP)
    assert not splitter.may_coalesce(108), "until the bad record is passed"
    assert splitter.may_coalesce(109)
    splitter.separate(refused, Trouble.TOO_LARGE)
    assert not splitter.may_coalesce(1 << 60), "it accepts only tiny batches"
