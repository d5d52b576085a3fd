"""Pairing the target's tail with the source."""

from __future__ import annotations

import pytest

from local_cluster.records import header as h
from local_cluster.records.batch import NewRecord, encode_batch
from mirror_maker.formats import Run
from mirror_maker.model import PairingError
from mirror_maker.passthrough import select_batches
from mirror_maker.resume import Pairing, ResumeBase, TailReader, is_same_content

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


def read_tail(start: ResumeBase, *batches: bytes, log_start_offset: int = 0) -> TailReader:
    tail = TailReader(start, log_start_offset)
    tail.feed(memoryview(b"".join(batches)))
    return tail


def pair(start: ResumeBase, tail: TailReader, log: memoryview) -> Pairing:
    pairing = Pairing(start, tail)
    for batch in select_batches(log, start.source_next, ()).batches:
        if not pairing.is_done:
            pairing.feed(batch)
    return pairing


def test_an_empty_tail_goes_on_where_the_map_ends() -> None:
    start = base(source_next=5, next_sequence=5)
    pairing = pair(start, read_tail(start), source((5, 3)))
    assert pairing.is_done
    assert (pairing.source_next, pairing.next_sequence, pairing.runs) == (5, 5, [])


def test_whole_batches_pair_with_foreign_ones_between() -> None:
    tail = read_tail(
        base(),
        own(0, records(0, 3), 0),
        own(3, records(0, 2), -1, producer_id=-1, producer_epoch=-1),
        own(5, records(3, 2), 3),
    )
    pairing = pair(base(), tail, source((0, 3), (3, 2), (5, 4)))
    assert pairing.is_done
    assert pairing.runs == [Run(0, 0, 3), Run(3, 5, 2)]
    assert (pairing.source_next, pairing.target_next, pairing.next_sequence) == (5, 7, 5)


def test_gaps_in_the_source_are_found_again() -> None:
    tail = read_tail(base(), own(0, records(0, 3), 0), own(3, records(9, 2), 3))
    pairing = pair(base(), tail, source((0, 3), (9, 2), (11, 1)))
    assert pairing.runs == [Run(0, 0, 3), Run(9, 3, 2)]
    assert pairing.source_next == 11


def test_other_boundaries_are_compared_record_by_record() -> None:
    tail = read_tail(base(), own(0, records(0, 4), 0), own(4, records(4, 3), 4))
    pairing = pair(base(), tail, source((0, 3), (3, 3), (6, 3)))
    assert pairing.is_done
    assert pairing.runs == [Run(0, 0, 7)]
    assert (pairing.source_next, pairing.next_sequence) == (7, 7)


def test_another_codec_is_compared_record_by_record() -> None:
    tail = read_tail(base(), own(0, records(0, 3), 0, codec=3))
    pairing = pair(base(), tail, source((0, 3), codec=1))
    assert (pairing.is_done, pairing.runs) == (True, [Run(0, 0, 3)])


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
    assert (pairing.is_done, pairing.next_sequence) == (True, 5)


@pytest.mark.parametrize("sequence", [4, 2, 0x7FFF_FFFF])
def test_a_tail_that_does_not_continue_the_sequence(sequence: int) -> None:
    with pytest.raises(PairingError, match="3 was expected"):
        read_tail(base(), own(0, records(0, 3), 0), own(3, records(3, 1), sequence))


@pytest.mark.parametrize("epoch", [EPOCH - 1, EPOCH + 1])
def test_our_id_at_another_epoch(epoch: int) -> None:
    with pytest.raises(PairingError, match=f"epoch {epoch}"):
        read_tail(base(), own(0, records(0, 3), 0, producer_epoch=epoch))


MAPPED = base(source_next=6, target_next=6, next_sequence=6, has_records=True)


def test_the_last_mapped_batch_is_looked_at_again() -> None:
    tail = TailReader(MAPPED, 0)
    assert tail.position == 5
    tail.feed(memoryview(own(3, records(3, 3), 3) + own(6, records(6, 1), 6)))
    assert [batch.header.base_offset for batch in tail.batches] == [6]


def test_a_target_that_was_cut_back_and_written_by_others() -> None:
    with pytest.raises(PairingError, match="got others"):
        read_tail(MAPPED, own(3, records(3, 3), 3, producer_id=99))
    with pytest.raises(PairingError, match="got others"):
        read_tail(MAPPED, own(3, records(3, 3), 4))


def test_a_target_that_ends_before_the_map() -> None:
    with pytest.raises(PairingError, match="lost records"):
        TailReader(MAPPED, 0).check_end(5)
    TailReader(MAPPED, 0).check_end(6)


def test_what_retention_took_is_counted_by_the_sequence() -> None:
    start = base()
    tail = read_tail(start, own(7, records(7, 2), 7), log_start_offset=7)
    assert tail.missing_count == 7
    pairing = pair(start, tail, source((0, 3), (3, 3), (6, 2), (8, 1)))
    assert pairing.is_done
    assert pairing.runs == [Run(7, 7, 2)]
    assert (pairing.source_next, pairing.next_sequence) == (9, 9)


def test_without_retention_nothing_may_be_missing() -> None:
    with pytest.raises(PairingError, match="0 was expected"):
        read_tail(base(), own(7, records(7, 2), 7), log_start_offset=0)


def test_same_content_looks_through_headers_and_codecs() -> None:
    one = memoryview(encode_batch(records(0, 3), codec=1, base_sequence=5))
    other = memoryview(encode_batch(records(0, 3), codec=3, base_offset=77))
    different = memoryview(encode_batch(records(1, 3), codec=3))
    assert is_same_content(one, other)
    assert not is_same_content(one, different)
    shuffled = bytearray(one)
    h.patch_base_offset(shuffled, 0, 8)
    assert is_same_content(one, memoryview(shuffled))


def lossy(start: ResumeBase, tail: TailReader, log: memoryview) -> Pairing:
    pairing = Pairing(start, tail, may_lose=True)
    for batch in select_batches(log, start.source_next, ()).batches:
        if not pairing.is_done:
            pairing.feed(batch)
    return pairing


def test_copies_of_records_that_the_source_lost_are_passed_over() -> None:
    tail = read_tail(base(), own(0, records(0, 4), 0), own(4, records(4, 4), 4))
    log = source((0, 1), (3, 2), (7, 1), (8, 2))  # 1, 2, 5 and 6 are gone
    pairing = lossy(base(), tail, log)
    assert pairing.runs == [Run(0, 0, 1), Run(3, 3, 2), Run(7, 7, 1)]
    assert (pairing.source_next, pairing.next_sequence, pairing.lost_at_end) == (8, 8, 0)
    with pytest.raises(PairingError, match="not a copy"):
        pair(base(), tail, log)


def test_a_tail_whose_end_the_source_lost() -> None:
    tail = read_tail(base(), own(0, records(0, 4), 0), own(4, records(4, 4), 4))
    pairing = lossy(base(), tail, source((0, 3), (8, 2)))
    assert pairing.is_done
    assert pairing.lost_at_end == 5
    # The place behind the last pair is what explains the rest of the tail the next time.
    assert (pairing.source_next, pairing.next_sequence, pairing.mapped_sequence) == (3, 8, 3)


def test_without_holes_nothing_was_lost() -> None:
    tail = read_tail(base(), own(0, records(0, 2), 0), own(2, records(50, 2), 2))
    with pytest.raises(PairingError, match="not a copy"):
        lossy(base(), tail, source((0, 2), (2, 3)))
    pairing = lossy(base(), tail, source((0, 2)))
    assert not pairing.end(3), "one hole cannot have held two records"
    assert pairing.end(4)
    assert (pairing.source_next, pairing.lost_at_end) == (2, 2)
