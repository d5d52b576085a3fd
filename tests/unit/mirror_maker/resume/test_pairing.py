"""Pairing the target's tail with the source."""

from __future__ import annotations

import pytest

from local_cluster.records import header as h
from local_cluster.records.batch import NewRecord, encode_batch
from local_cluster.wire.errors import KafkaError
from mirror_maker.copy.batch_selection import select_batches
from mirror_maker.formats import Run
from mirror_maker.model import DescribedProducer, PairingError
from mirror_maker.resume.pairing import Pairing, is_same_content
from mirror_maker.tail.alignment import Alignment
from mirror_maker.tail.places import Hole, PlacedTail
from mirror_maker.tail.target_tail import ResumeBase, TargetTail, tail_copies
from tests.support.compacted_batches import without_records

PID, EPOCH = 4000, 3


def records(first: int, count: int) -> list[NewRecord]:
    return [NewRecord(first + i, b"k%d" % (first + i), b"v") for i in range(count)]


def source(*spans: tuple[int, int], codec: int = 0) -> memoryview:
    """Source batches of (first offset, count); record contents follow the offsets."""
    batches = (
        encode_batch(records(first, n), base_offset=first, codec=codec) for first, n in spans
    )
    return memoryview(b"".join(map(bytes, batches)))


def own(offset: int, content: list[NewRecord], sequence: int, **options: int) -> bytes:
    fields = {"producer_id": PID, "producer_epoch": EPOCH, **options}
    return bytes(encode_batch(content, base_offset=offset, base_sequence=sequence, **fields))


def base(**changes: object) -> ResumeBase:
    start = ResumeBase(PID, EPOCH, 0, 0, 0, has_records=False)
    return start._replace(**changes)  # type: ignore[arg-type]


def read_tail(start: ResumeBase, *batches: bytes, log_start_offset: int = 0) -> TargetTail:
    tail = TargetTail(start, log_start_offset)
    tail.feed(memoryview(b"".join(batches)))
    return tail


def pair(start: ResumeBase, tail: TargetTail, log: memoryview) -> Pairing:
    pairing = Pairing(start, tail)
    for batch in select_batches(log, start.source_next, ()).batches:
        if not pairing.is_done:
            pairing.feed(batch)
    return pairing


def test_an_empty_tail_continues_where_the_map_ends() -> None:
    start = base(source_next=5, next_sequence=5)
    tail = read_tail(start)
    pairing = pair(start, tail, source((5, 3)))
    assert pairing.is_done
    assert (pairing.source_next, tail.next_sequence, pairing.pieces) == (5, 5, [])


def test_whole_batches_pair_with_foreign_ones_between() -> None:
    tail = read_tail(
        base(),
        own(0, records(0, 3), 0),
        own(3, records(0, 2), -1, producer_id=-1, producer_epoch=-1),
        own(5, records(3, 2), 3),
    )
    pairing = pair(base(), tail, source((0, 3), (3, 2), (5, 4)))
    assert pairing.is_done
    assert pairing.pieces == [Run(0, 0, 3), Run(3, 5, 2)]
    assert (pairing.source_next, tail.next_sequence) == (5, 5)


def test_gaps_in_the_source_are_found_again() -> None:
    tail = read_tail(base(), own(0, records(0, 3), 0), own(3, records(9, 2), 3))
    pairing = pair(base(), tail, source((0, 3), (9, 2), (11, 1)))
    assert pairing.pieces == [Run(0, 0, 3), Run(9, 3, 2)]
    assert pairing.source_next == 11


def test_other_boundaries_are_compared_record_by_record() -> None:
    tail = read_tail(base(), own(0, records(0, 4), 0), own(4, records(4, 3), 4))
    pairing = pair(base(), tail, source((0, 3), (3, 3), (6, 3)))
    assert pairing.is_done
    assert pairing.pieces == [Run(0, 0, 7)]
    assert (pairing.source_next, tail.next_sequence) == (7, 7)


def test_another_codec_is_compared_record_by_record() -> None:
    tail = read_tail(base(), own(0, records(0, 3), 0, codec=3))
    pairing = pair(base(), tail, source((0, 3), codec=1))
    assert (pairing.is_done, pairing.pieces) == (True, [Run(0, 0, 3)])


def test_records_that_differ_are_no_copy() -> None:
    tail = read_tail(base(), own(0, records(1, 3), 0))
    with pytest.raises(PairingError, match="not a copy"):
        pair(base(), tail, source((0, 3)))


def test_a_tail_longer_than_the_source_is_not_done() -> None:
    tail = read_tail(base(), own(0, records(0, 3), 0), own(3, records(3, 2), 3))
    assert not pair(base(), tail, source((0, 3))).is_done


def test_sequences_wrap() -> None:
    start = base(source_next=0, next_sequence=0x7FFF_FFFE)
    tail = read_tail(
        start,
        own(0, records(0, 4), 0x7FFF_FFFE),
        own(4, records(4, 2), 2),
        own(6, records(6, 1), 4),
    )
    pairing = pair(start, tail, source((0, 4), (4, 2), (6, 1)))
    assert (pairing.is_done, tail.next_sequence) == (True, 5)


@pytest.mark.parametrize("sequence", [4, 2, 0x7FFF_FFFF])
def test_a_tail_that_does_not_continue_the_sequence(sequence: int) -> None:
    with pytest.raises(PairingError, match="3 was expected"):
        read_tail(base(), own(0, records(0, 3), 0), own(3, records(3, 1), sequence))


@pytest.mark.parametrize("epoch", [EPOCH - 1, EPOCH + 1])
def test_our_id_at_another_epoch(epoch: int) -> None:
    with pytest.raises(PairingError, match=f"epoch {epoch}"):
        read_tail(base(), own(0, records(0, 3), 0, producer_epoch=epoch))


MAPPED = base(source_next=6, target_next=6, next_sequence=6, has_records=True)


def test_the_last_mapped_batch_is_read_again() -> None:
    tail = TargetTail(MAPPED, 0)
    assert tail.position == 5
    tail.feed(memoryview(own(3, records(3, 3), 3) + own(6, records(6, 1), 6)))
    assert [batch.header.base_offset for batch in tail.batches] == [6]


def test_a_target_that_was_truncated_and_written_by_others() -> None:
    with pytest.raises(PairingError, match="has others in their place"):
        read_tail(MAPPED, own(3, records(3, 3), 3, producer_id=99))
    with pytest.raises(PairingError, match="has others in their place"):
        read_tail(MAPPED, own(3, records(3, 3), 4))


def test_a_target_that_ends_before_the_map() -> None:
    with pytest.raises(PairingError, match="lost records"):
        TargetTail(MAPPED, 0).check_end(5)
    TargetTail(MAPPED, 0).check_end(6)


def test_copies_that_retention_took_are_counted_by_the_sequence() -> None:
    start = base()
    tail = read_tail(start, own(7, records(7, 2), 7), log_start_offset=7)
    assert tail.missing_count == 7
    pairing = pair(start, tail, source((0, 3), (3, 3), (6, 2), (8, 1)))
    assert pairing.is_done
    assert pairing.pieces == [Run(7, 7, 2)]
    assert (pairing.source_next, tail.next_sequence) == (9, 9)


def test_without_retention_only_compaction_explains_missing_copies() -> None:
    tail = read_tail(base(), own(7, records(7, 2), 7), log_start_offset=0)
    assert "0 was expected" in (tail.unexplained or "")
    assert read_tail(base(), own(0, records(0, 2), 0)).unexplained is None


def cleaned(batch: bytes, *gone: int) -> bytes:
    """Return the batch without these offsets; an empty batch as Kafka keeps it for its producer."""
    left = without_records(batch, set(gone))
    if left is not None:
        return left
    header = h.read_header(batch)
    empty = bytearray(
        h.pack_header(header._replace(batch_length=h.HEADER_BYTES - 12, records_count=0))
    )
    h.patch_crc(empty, 0)
    return bytes(empty)


def test_compacted_copies_are_counted_by_sequences_and_keep_their_places() -> None:
    start = base()
    tail = read_tail(
        start,
        cleaned(own(0, records(0, 4), 0), 1, 3),
        own(7, records(7, 2), 7),
        cleaned(own(9, records(9, 2), 9), 9, 10),
    )
    assert (tail.missing_count, tail.length, tail.next_sequence) == (3, 11, 11)
    assert tail.unexplained is not None
    assert not tail.is_whole
    whole = source((0, 3), (3, 3), (6, 2), (8, 5))
    pairing = pair(start, tail, whole)
    assert (pairing.is_done, pairing.pieces, pairing.source_next) == (True, [Run(0, 0, 11)], 11)
    found = aligned(start, tail, whole)
    assert (places(found), found.holes) == ([(n, n) for n in range(11)], [])


def test_copies_compacted_among_foreign_records_are_a_hole() -> None:
    start = base()
    tail = read_tail(start, own(0, records(0, 2), 0), own(9, records(5, 2), 5))
    whole = source((0, 3), (3, 3), (6, 2))
    hole = Hole(2, 6, 2, 10, 4)  # with the next copy: from there on the places are known
    pairing = pair(start, tail, whole)
    assert (pairing.pieces, pairing.source_next) == ([Run(0, 0, 2), hole, Run(6, 10, 1)], 7)
    assert aligned(start, tail, whole).holes == [hole]


def test_more_missing_sequences_than_offsets_are_no_compaction() -> None:
    with pytest.raises(PairingError, match="2 was expected"):
        read_tail(base(), own(0, records(0, 2), 0), own(4, records(5, 2), 5))


def test_the_rest_of_a_compacted_batch_must_match_the_source() -> None:
    tail = read_tail(base(), cleaned(own(0, records(1, 4), 0), 1))
    with pytest.raises(PairingError, match="target offset 0 is not a copy of source offset 0"):
        pair(base(), tail, source((0, 5)))


def test_same_content_looks_through_headers_and_codecs() -> None:
    one = memoryview(encode_batch(records(0, 3), codec=1, base_sequence=5))
    other = memoryview(encode_batch(records(0, 3), codec=3, base_offset=77))
    different = memoryview(encode_batch(records(1, 3), codec=3))
    assert is_same_content(one, other)
    assert not is_same_content(one, different)
    shuffled = bytearray(one)
    h.patch_base_offset(shuffled, 0, 8)
    assert is_same_content(one, memoryview(shuffled))


def aligned(start: ResumeBase, tail: TargetTail, log: memoryview, end: int = 99) -> PlacedTail:
    """Align a tail with a source that has only this log."""
    alignment = Alignment(
        start.source_next,
        start.target_next,
        tail_copies(tail, 1_000),
        length=tail.length,
        trimmed_count=tail.trimmed_count,
        last_timestamp_ms=tail.last_timestamp_ms,
    )
    for batch in select_batches(log, start.source_next, ()).batches:
        for record in batch.records():
            alignment.feed(record.offset, record[1:], record.timestamp_ms)
    alignment.end(end)
    return alignment.result(select_batches(log, start.source_next, ()).batches[0].source_first)


def places(found: PlacedTail) -> list[tuple[int, int]]:
    """Return (source offset, target offset) of every copy with a known place."""
    return [
        (run.source_offset + n, run.target_offset + n)
        for run in found.runs
        for n in range(run.records_count)
    ]


def test_copies_of_records_that_the_source_lost_keep_their_places() -> None:
    tail = read_tail(base(), own(0, records(0, 4), 0), own(4, records(4, 4), 4))
    log = source((0, 1), (3, 2), (7, 1), (8, 2))  # 1, 2, 5 and 6 are gone
    found = aligned(base(), tail, log)
    assert places(found) == [(n, n) for n in range(8)]
    assert (found.source_next, found.lost) == (8, None)
    with pytest.raises(PairingError, match="not a copy"):
        pair(base(), tail, log)


def test_a_tail_whose_end_the_source_lost() -> None:
    tail = read_tail(base(), own(0, records(0, 4), 0), own(4, records(4, 4), 4))
    found = aligned(base(), tail, source((0, 3), (8, 2)))
    assert places(found) == [(n, n) for n in range(8)]
    assert found.source_next == 8
    # With more offsets than copies nobody knows which of them were records.
    found = aligned(base(), tail, source((0, 3), (9, 2)))
    assert found.pieces[-1] == Hole(3, 9, 3, 8, 5)
    assert found.source_next == 9


def test_without_absent_offsets_nothing_was_lost() -> None:
    tail = read_tail(base(), own(0, records(0, 2), 0), own(2, records(50, 2), 2))
    with pytest.raises(PairingError, match="target offset 2 is not a copy of source offset 2"):
        aligned(base(), tail, source((0, 2), (2, 3)))
    with pytest.raises(PairingError, match="not a copy"):
        aligned(base(), tail, source((0, 2)), end=3)
    assert aligned(base(), tail, source((0, 2)), end=4).source_next == 4


# -- retention took the target's tail, or the front of both sides --------------------------------


def told(
    start: ResumeBase, log_start_offset: int, last_sequence: int, last_timestamp_ms: int = -1
) -> TargetTail:
    """Return the tail of a target without records after the map, which knows our last sequence."""
    tail = TargetTail(start, log_start_offset)
    tail.check_end(log_start_offset)
    tail.count_missing(DescribedProducer(EPOCH, last_sequence, last_timestamp_ms))
    return tail


def test_a_lost_tail_is_counted_by_the_last_sequence_at_the_target() -> None:
    start = MAPPED
    tail = told(start, 11, 10)
    assert (tail.missing_count, tail.next_sequence) == (5, 11)
    assert not tail.is_sequence_unknown
    pairing = pair(start, tail, source((6, 3), (9, 3), (12, 4)))
    assert pairing.is_done
    assert (pairing.source_next, pairing.pieces) == (11, [])
    assert not pair(start, told(start, 11, 10), source((6, 3))).is_done


def test_only_foreign_records_were_lost() -> None:
    tail = told(MAPPED, 50, 5)
    assert (tail.missing_count, tail.next_sequence) == (0, 6)


def test_a_producer_that_the_target_forgot_leaves_the_sequence_unknown() -> None:
    for forgotten in (None, DescribedProducer(EPOCH, -1), DescribedProducer(EPOCH - 1, 3)):
        tail = TargetTail(MAPPED, 11)
        tail.count_missing(forgotten)
        assert tail.is_sequence_unknown
    opened = TargetTail(base(target_next=6), 11)
    opened.count_missing(DescribedProducer(EPOCH - 1, 3))
    assert not opened.is_sequence_unknown, "nothing was written since the epoch was raised"


def test_the_last_sequence_at_the_target_must_agree_with_the_map() -> None:
    with pytest.raises(PairingError, match="lost records"):
        TargetTail(MAPPED, 11).count_missing(DescribedProducer(EPOCH, 4))
    with pytest.raises(PairingError, match="epoch 4"):
        TargetTail(MAPPED, 11).count_missing(DescribedProducer(EPOCH + 1, 4))
    with pytest.raises(KafkaError, match="not committed on the target yet"):
        TargetTail(MAPPED, 11).count_missing(DescribedProducer(EPOCH, 11))


def test_without_retention_the_target_is_not_asked() -> None:
    assert not TargetTail(MAPPED, 6).is_sequence_unknown
    assert not read_tail(
        MAPPED, own(11, records(11, 1), 11), log_start_offset=11
    ).is_sequence_unknown


@pytest.mark.parametrize("source_first", [3, 5, 7, 9])
def test_both_sides_lost_the_front_of_an_unmapped_tail(source_first: int) -> None:
    """Ten copies 0..9. The target has those from 5 on, the source its records from 3, 5, ..."""
    tail = read_tail(base(), own(5, records(5, 2), 5), own(7, records(7, 3), 7), log_start_offset=5)
    log = source((source_first, 12 - source_first), (12, 2))
    found = aligned(base(), tail, log)
    assert places(found) == [(n, n) for n in range(5, 10)]
    assert (found.source_next, found.lost) == (10, None)


def test_holes_that_never_were_records_do_not_count_as_missing() -> None:
    """The source lost 0..3, of which 1 and 2 were no records. The tail shows the next one."""
    content = [*records(6, 1), *records(7, 3)]  # 0, 3, 4 and 5 are missing
    tail = read_tail(base(), own(4, content, 4), log_start_offset=4)
    found = aligned(base(), tail, source((4, 4), (8, 4)))
    assert places(found) == [(6, 4), (7, 5), (8, 6), (9, 7)]
    assert found.source_next == 10


def test_both_sides_lost_an_unmapped_tail() -> None:
    """The timestamp of the target's last batch shows that the source's records came later."""
    found = aligned(MAPPED, told(MAPPED, 11, 10, last_timestamp_ms=10), source((11, 3)), end=14)
    assert found == PlacedTail((), 11)
    # The further lost records were not copied.
    found = aligned(MAPPED, told(MAPPED, 11, 10, last_timestamp_ms=10), source((20, 3)), end=23)
    assert found == PlacedTail((), 20, (11, 20))


@pytest.mark.parametrize(
    ("first", "last_timestamp_ms", "doubtful"), [(8, 13, 11), (11, -1, 11), (20, -1, 20)]
)
def test_an_unknown_number_of_lost_records_is_not_guessed(
    first: int, last_timestamp_ms: int, doubtful: int
) -> None:
    tail = told(MAPPED, 11, 10, last_timestamp_ms=last_timestamp_ms)
    with pytest.raises(PairingError, match=f"whether offset {doubtful}"):
        aligned(MAPPED, tail, source((first, 6)))
