"""From fetched bytes to batches for the target."""

from __future__ import annotations

import struct

import pytest

from local_cluster.records import header as h
from local_cluster.records.batch import NewRecord, Record, decode_batch, encode_batch
from local_cluster.records.compress import Codec
from mirror_maker.copy.batch_selection import CopyPath, SourceBatch, select_batches
from mirror_maker.copy.passthrough import PreparedBatch, prepare, stamp
from mirror_maker.formats import Run
from mirror_maker.model import SourceGap, UncopyableBatchError
from mirror_maker.rules.gap_ranges import GapRanges
from tests.support.compacted_batches import encode_cleaned

UNKNOWN_BIT = 0x80
RECORDS = [NewRecord(1_000 + i, b"k%d" % i, b"value-%d" % i, (("h", b"x"),)) for i in range(6)]


def batch_at(offset: int, **options: object) -> bytearray:
    return encode_batch(RECORDS, base_offset=offset, **options)  # type: ignore[arg-type]


def fetched(*batches: bytearray) -> memoryview:
    return memoryview(bytearray(b"".join(batches)))


def marker(offset: int, producer_id: int, kind: int) -> bytearray:
    return encode_batch(
        [NewRecord(5, struct.pack(">hh", 0, kind), b"\0" * 6)],
        base_offset=offset,
        attributes=h.CONTROL_BIT | h.TRANSACTIONAL_BIT,
        producer_id=producer_id,
        producer_epoch=0,
    )


def transactional(offset: int, producer_id: int) -> bytearray:
    return batch_at(
        offset, attributes=h.TRANSACTIONAL_BIT, producer_id=producer_id, producer_epoch=0
    )


def prepared(batch: SourceBatch) -> PreparedBatch:
    result = prepare(batch)
    assert result is not None
    return result


def contents(data: memoryview) -> list[Record]:
    return decode_batch(data, 0, h.read_header(data))


@pytest.mark.parametrize("codec", list(Codec))
def test_bytes_pass_unchanged_except_the_header(codec: Codec) -> None:
    original = batch_at(
        700, codec=codec, attributes=h.TRANSACTIONAL_BIT | UNKNOWN_BIT, leader_epoch=9,
        producer_id=3, producer_epoch=1, base_sequence=44,
    )  # fmt: skip
    selection = select_batches(fetched(original), 700, ())
    assert selection.source_next == 706
    result = prepared(selection.batches[0])
    assert result.path is CopyPath.PASSTHROUGH
    stamp(result, 4000, 2, 17)
    header = h.read_header(result.data)
    assert result.data[h.HEADER_BYTES :] == original[h.HEADER_BYTES :]
    assert header.attributes == codec
    assert (header.base_offset, header.partition_leader_epoch) == (0, -1)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (4000, 2, 17)
    assert h.crc_is_valid(result.data, 0, header)
    assert result.runs(50) == [Run(700, 50, 6)]


def test_read_only_bytes_are_copied_first() -> None:
    original = bytes(batch_at(0))
    stamp(prepared(select_batches(memoryview(original), 0, ()).batches[0]), 1, 0, 0)
    assert original == bytes(batch_at(0))


def test_aborted_data_and_markers_are_left_out() -> None:
    log = fetched(
        transactional(0, 1),  # aborted
        transactional(6, 2),  # committed
        marker(12, 1, 0),
        transactional(13, 1),  # the producer's next transaction, committed
        marker(19, 2, 1),
        marker(20, 1, 1),
        batch_at(21),
    )
    selection = select_batches(log, 0, [(1, 0)])
    assert [batch.source_first for batch in selection.batches] == [6, 13, 21]
    assert (selection.source_next, selection.left_out_count) == (27, 4)


def test_a_second_aborted_transaction_of_the_same_producer() -> None:
    log = fetched(
        transactional(0, 1), marker(6, 1, 0), batch_at(7), transactional(13, 1), marker(19, 1, 0)
    )
    selection = select_batches(log, 0, [(1, 13), (1, 0)])
    assert [batch.source_first for batch in selection.batches] == [7]
    assert selection.source_next == 20


def test_an_empty_batch_is_left_out() -> None:
    header = h.read_header(batch_at(3))._replace(records_count=0, batch_length=49)
    empty = bytearray(h.pack_header(header))
    h.patch_crc(empty, 0)
    selection = select_batches(fetched(empty), 3, ())
    assert (selection.batches, selection.source_next, selection.left_out_count) == ([], 9, 1)


def test_the_batch_that_straddles_the_start_is_trimmed() -> None:
    selection = select_batches(fetched(batch_at(10, codec=3), batch_at(16)), 14, ())
    first, second = (prepared(batch) for batch in selection.batches)
    assert (first.path, second.path) == (CopyPath.STRADDLES_START, CopyPath.PASSTHROUGH)
    assert h.read_header(first.data).codec == 3
    assert [record[1:] for record in contents(first.data)] == [
        tuple(record) for record in RECORDS[4:]
    ]
    assert first.runs(0) == [Run(14, 0, 2)]


def test_log_append_time_becomes_the_timestamp_that_readers_saw() -> None:
    batch = batch_at(0, attributes=h.TIMESTAMP_TYPE_BIT)
    h.patch_max_timestamp(batch, 0, 9_999)
    h.patch_crc(batch, 0)
    result = prepared(select_batches(fetched(batch), 0, ()).batches[0])
    assert result.path is CopyPath.LOG_APPEND_TIME
    assert {record.timestamp_ms for record in contents(result.data)} == {9_999}
    assert not h.read_header(result.data).is_log_append_time


@pytest.mark.parametrize("codec", list(Codec))
@pytest.mark.parametrize("horizon_ms", [0, 1_002, 5_000], ids=["early", "between", "late"])
@pytest.mark.parametrize("has_bit", [True, False], ids=["bit", "bit cleared"])
def test_a_delete_horizon_is_not_copied_as_a_timestamp(
    codec: Codec, horizon_ms: int, has_bit: bool
) -> None:
    batch = encode_cleaned(
        RECORDS, horizon_ms=horizon_ms, has_bit=has_bit, codec=codec, base_offset=100
    )
    assert [record[1:] for record in contents(memoryview(batch))] == [tuple(r) for r in RECORDS]
    result = prepared(select_batches(fetched(batch), 100, ()).batches[0])
    if not has_bit and horizon_ms <= RECORDS[-1].timestamp_ms:
        assert result.path is CopyPath.PASSTHROUGH, (
            "nothing distinguishes it from a record's timestamp"
        )
        return
    header = h.read_header(result.data)
    assert result.path is CopyPath.DELETE_HORIZON
    assert (header.base_timestamp, header.max_timestamp) == (
        RECORDS[0].timestamp_ms, RECORDS[-1].timestamp_ms,
    )  # fmt: skip
    assert header.attributes == codec
    assert [record[1:] for record in contents(result.data)] == [tuple(r) for r in RECORDS]
    assert result.runs(7) == [Run(100, 7, len(RECORDS))]


def test_holes_are_closed_and_mapped() -> None:
    batch = encode_cleaned(RECORDS, [0, 1, 4])
    h.patch_base_offset(batch, 0, 100)
    result = prepared(select_batches(fetched(batch), 100, ()).batches[0])
    header = h.read_header(result.data)
    assert result.path is CopyPath.HOLES
    assert header.records_count == header.last_offset_delta + 1 == 3
    assert result.runs(7) == [Run(100, 7, 2), Run(104, 9, 1)]
    assert result.source_next == 106


def test_a_trimmed_batch_without_records_is_left_out() -> None:
    batch = encode_cleaned(RECORDS, [0, 1, 2])
    assert prepare(select_batches(fetched(batch), 4, ()).batches[0]) is None


def test_a_partial_last_batch_waits_for_the_next_fetch() -> None:
    log = fetched(batch_at(0), batch_at(6))
    selection = select_batches(log[:-1], 0, ())
    assert (len(selection.batches), selection.source_next) == (1, 6)


def test_records_before_the_position_are_skipped() -> None:
    selection = select_batches(fetched(batch_at(0), batch_at(6)), 6, ())
    assert [batch.source_first for batch in selection.batches] == [6]


def broken(batch: bytearray) -> bytearray:
    batch[-1] ^= 1
    return batch


def old_format(batch: bytearray) -> bytearray:
    batch[16] = 1
    return batch


def seeming_to_end_early(batch: bytearray) -> bytearray:
    """Flip a bit in the header: the batch ends before it begins."""
    batch[h.CRC_START + 2] ^= 0x80
    return batch


def old_format_seeming_to_end_early(batch: bytearray) -> bytearray:
    """Formats v0 and v1 have a part of the timestamp in that place."""
    return old_format(seeming_to_end_early(batch))


def codec_five(batch: bytearray) -> bytearray:
    h.patch_attributes(batch, 0, 5)
    h.patch_crc(batch, 0)
    return batch


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (broken, "CRC"),
        (old_format, "format v1"),
        (codec_five, "codec 5"),
        (seeming_to_end_early, "CRC"),
        (old_format_seeming_to_end_early, "format v1"),
    ],
)
def test_a_batch_that_cannot_be_copied_ends_the_walk(spoil: object, reason: str) -> None:
    bad = spoil(batch_at(6))  # type: ignore[operator]
    selection = select_batches(fetched(batch_at(0), bad, batch_at(12)), 0, ())
    assert [batch.source_first for batch in selection.batches] == [0]
    assert selection.source_next == 6
    assert selection.refusal is not None
    assert (selection.refusal.offset, reason in selection.refusal.reason) == (6, True)


@pytest.mark.parametrize("spoil", [broken, seeming_to_end_early])
def test_broken_batches_in_a_gap_are_passed_over(spoil: object) -> None:
    bad = [spoil(batch_at(offset)) for offset in (6, 12)]  # type: ignore[operator]
    gaps = GapRanges([(6, 18)])
    before = select_batches(fetched(batch_at(0), *bad, batch_at(18)), 0, (), gaps=gaps)
    assert [batch.source_first for batch in before.batches] == [0]
    assert (before.source_next, before.refusal) == (18, None)
    behind = select_batches(fetched(batch_at(18)), 18, (), gaps=gaps)
    assert [batch.source_first for batch in behind.batches] == [18]
    assert (behind.source_next, behind.refusal) == (24, None)
    at_end = select_batches(fetched(batch_at(0), *bad), 0, (), gaps=gaps)
    assert [batch.source_first for batch in at_end.batches] == [0]
    assert (at_end.source_next, at_end.refusal) == (18, None)


@pytest.mark.parametrize("gap", [(6, 7), (6, 19)])
def test_batches_after_a_passed_over_marker_do_not_count_as_aborted(gap: tuple[int, int]) -> None:
    """A batch in a gap may have ended a transaction; the next response has the aborted list."""
    log = [
        transactional(0, 1),  # aborted
        broken(marker(6, 1, 0)),
        batch_at(7),
        transactional(13, 1),  # the producer's next transactions, committed
        transactional(19, 1),
        marker(25, 1, 1),
    ]
    gaps = GapRanges([gap])
    first = select_batches(fetched(*log), 0, [(1, 0)], gaps=gaps)
    assert (first.batches, first.source_next, first.refusal) == ([], gap[1], None)
    second = select_batches(fetched(*log[2:]), gap[1], (), gaps=gaps)
    expected = [offset for offset in (7, 13, 19) if offset >= gap[1]]
    assert [batch.source_first for batch in second.batches] == expected
    assert (second.source_next, second.refusal) == (26, None)


def test_a_broken_batch_that_a_gap_does_not_cover_is_refused() -> None:
    log = fetched(batch_at(0), seeming_to_end_early(batch_at(6)), batch_at(12))
    selection = select_batches(log, 0, (), gaps=GapRanges([(6, 9)]))
    assert selection.source_next == 6
    assert selection.refusal is not None
    assert selection.refusal.gap == SourceGap(6, 12, None)


def test_records_that_cannot_be_opened_are_refused() -> None:
    batch = batch_at(0, codec=3)
    batch[h.HEADER_BYTES :] = b"\xff" * (len(batch) - h.HEADER_BYTES)
    h.patch_crc(batch, 0)
    with pytest.raises(UncopyableBatchError):
        prepare(select_batches(fetched(batch), 3, ()).batches[0])
