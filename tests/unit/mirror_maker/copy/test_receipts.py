"""Receipts of one flow, collected and written."""

from __future__ import annotations

from local_cluster.records import header as h
from local_cluster.records.batch import NewRecord, encode_batch
from mirror_maker.copy.receipts import RECEIPTS_KEPT_MAX, FlowReceipts
from mirror_maker.formats.receipts import Receipt
from mirror_maker.tail.places import Place
from mirror_maker.tail.target_tail import Missing, TargetBatch
from tests.support.compacted_batches import without_records

LAST_SEQUENCE = 2**31 - 1


def batch(offset: int, count: int) -> bytearray:
    made = encode_batch([NewRecord(1_000 + index, b"k", b"v") for index in range(count)])
    h.patch_base_offset(made, 0, offset)
    return made


def on_target(data: bytes | bytearray) -> TargetBatch:
    return TargetBatch(h.read_header(data), memoryview(data), 0)


def test_acknowledged_batches_are_taken_in_order_with_sequences_that_wrap() -> None:
    receipts = FlowReceipts(9, 1, LAST_SEQUENCE - 1)
    assert receipts.take() == []
    receipts.acknowledged(10, 13, 100, batch(0, 3))
    (first,) = receipts.take()
    assert (first.flow_id, first.producer_epoch, first.sequence) == (9, 1, LAST_SEQUENCE - 1)
    header = h.read_header(batch(0, 3))
    assert first.receipts == (Receipt(10, 13, 100, 3, header.crc, 1_002),)
    receipts.acknowledged(13, 15, 103, batch(0, 2))
    (second,) = receipts.take()
    assert second.sequence == 1, "0 follows the last sequence"
    assert not receipts.has_unwritten


def test_receipts_that_were_not_written_come_first() -> None:
    receipts = FlowReceipts(9, 1, 0)
    receipts.acknowledged(10, 13, 100, batch(0, 3))
    taken = receipts.take()
    receipts.acknowledged(13, 15, 103, batch(0, 2))
    receipts.put_back(taken)
    (again,) = receipts.take()
    assert again.sequence == 0
    assert [each.target_offset for each in again.receipts] == [100, 103]


def test_the_oldest_receipts_are_dropped_if_nothing_can_be_written() -> None:
    receipts, data = FlowReceipts(9, 1, 0), batch(0, 2)
    for index in range(RECEIPTS_KEPT_MAX + 1):
        receipts.acknowledged(2 * index, 2 * index + 2, 2 * index, data)
    taken = receipts.take()
    kept = [each for entry in taken for each in entry.receipts]
    assert len(kept) <= RECEIPTS_KEPT_MAX
    assert kept[-1].target_offset == 2 * RECEIPTS_KEPT_MAX
    assert taken[0].sequence == kept[0].target_offset, "as many sequences were dropped"


def test_batches_found_on_the_target_have_the_source_offsets_of_their_places() -> None:
    receipts = FlowReceipts(9, 1, 56)
    found = [on_target(batch(100, 2)), on_target(batch(102, 3)), on_target(batch(110, 1))]
    places = [
        Place(100, 102, 10, 12, True),
        Place(102, 105, 20, 30, False),  # single offsets are not known
        Place(110, 111, 40, 41, True),
    ]
    receipts.paired(found, 50, places)
    (entry,) = receipts.take()
    assert entry.sequence == 50
    assert [each[:4] for each in entry.receipts] == [
        (10, 12, 100, 2),
        (20, 30, 102, 3),
        (40, 41, 110, 1),
    ]
    receipts.paired([on_target(batch(120, 2))], 56, [])
    assert not receipts.has_unwritten, "copies without a known place have no receipt"


def test_compacted_copies_have_receipts_if_their_place_is_known() -> None:
    receipts = FlowReceipts(9, 1, 16)
    part = without_records(bytes(batch(106, 4)), {106, 108})
    assert part is not None
    found: list[TargetBatch | Missing] = [
        on_target(batch(100, 2)),
        Missing(4, 102, 106, is_trimmed=False),
        on_target(part),
        Missing(4, 110, 130, is_trimmed=False),
        on_target(batch(130, 2)),
    ]
    places = [
        Place(100, 110, 20, 30, True),
        Place(110, 131, 30, 35, False),
        Place(131, 132, 35, 36, True),
    ]
    receipts.paired(found, 0, places)
    receipts.acknowledged(36, 37, 132, batch(0, 1))
    taken = receipts.take()
    told = [(entry.sequence, [each[:4] for each in entry.receipts]) for entry in taken]
    assert told == [
        (0, [(20, 22, 100, 2), (22, 26, 102, 4), (26, 30, 106, 4)]),
        (14, [(30, 36, 130, 2), (36, 37, 132, 1)]),
    ], "a batch with some records left has the offsets of all of them"
    receipts.put_back(taken)
    assert receipts.take() == taken
