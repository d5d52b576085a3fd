"""Receipts of one flow, collected and written."""

from __future__ import annotations

from local_cluster.records import header as h
from local_cluster.records.batch import NewRecord, encode_batch
from mirror_maker.alignment import Place
from mirror_maker.audit.flow_receipts import RECEIPTS_KEPT_MAX, FlowReceipts
from mirror_maker.formats.receipts import Receipt

LAST_SEQUENCE = 2**31 - 1


def batch(offset: int, count: int) -> bytearray:
    made = encode_batch([NewRecord(1_000 + index, b"k", b"v") for index in range(count)])
    h.patch_base_offset(made, 0, offset)
    return made


def test_acknowledged_batches_are_taken_in_order_with_sequences_that_go_round() -> None:
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
    assert not receipts.has_news


def test_what_could_not_be_written_comes_before_what_came_since() -> None:
    receipts = FlowReceipts(9, 1, 0)
    receipts.acknowledged(10, 13, 100, batch(0, 3))
    taken = receipts.take()
    receipts.acknowledged(13, 15, 103, batch(0, 2))
    receipts.put_back(taken)
    (again,) = receipts.take()
    assert again.sequence == 0
    assert [each.target_offset for each in again.receipts] == [100, 103]


def test_the_oldest_are_dropped_where_nothing_can_be_written() -> None:
    receipts, data = FlowReceipts(9, 1, 0), batch(0, 2)
    for index in range(RECEIPTS_KEPT_MAX + 1):
        receipts.acknowledged(2 * index, 2 * index + 2, 2 * index, data)
    taken = receipts.take()
    kept = [each for entry in taken for each in entry.receipts]
    assert len(kept) <= RECEIPTS_KEPT_MAX
    assert kept[-1].target_offset == 2 * RECEIPTS_KEPT_MAX
    assert taken[0].sequence == kept[0].target_offset, "as many sequences were dropped"


def test_batches_found_on_the_target_have_the_source_offsets_of_their_places() -> None:
    receipts = FlowReceipts(9, 1, 50)
    found = [batch(100, 2), batch(102, 3), batch(110, 1)]
    places = [
        Place(100, 102, 10, 12, True),
        Place(102, 105, 20, 30, False),  # single offsets are not known
        Place(110, 111, 40, 41, True),
    ]
    receipts.paired(found, places)
    (entry,) = receipts.take()
    assert [each[:4] for each in entry.receipts] == [
        (10, 12, 100, 2),
        (20, 30, 102, 3),
        (40, 41, 110, 1),
    ]
    receipts.paired([batch(120, 2)], [])
    assert not receipts.has_news, "of what nobody can place there is no receipt"
