"""The receipts format: its bytes, round trips, and what is refused."""

from __future__ import annotations

import struct
from uuid import UUID

import mmh3
import pytest
from hypothesis import given
from hypothesis import strategies as st

from local_cluster.records.batch import NewRecord, encode_batch
from local_cluster.records.header import HEADER_BYTES
from mirror_maker.formats import FlowKey, MapFormatError
from mirror_maker.formats.receipts import (
    RECEIPTS_PER_RECORD_MAX,
    Receipt,
    Receipts,
    decode_receipts,
    encode_receipts,
    flow_id,
    flow_id_of,
    split_receipts,
)

SOURCE_ID, TARGET_ID = UUID(int=1), UUID(int=2)


def test_the_bytes_are_those_of_the_documented_layout() -> None:
    entry = Receipts(
        flow_id=0x0102030405060708,
        producer_epoch=3,
        sequence=1000,
        receipts=(
            Receipt(500, 505, 200, 5, 0xDEADBEEF, 1_700_000_000_000),
            Receipt(506, 636, 205, 130, 1, 1_699_999_999_999),
        ),
    )
    expected = struct.pack(
        ">BQhiqqq", 1, 0x0102030405060708, 3, 1000, 500, 200, 1_700_000_000_000
    ) + bytes.fromhex(
        "02"  # two receipts
        "00 05 00 05 deadbeef 00"
        "02 8201 00 8201 00000001 01"  # one offset further, 130 of them, a millisecond earlier
    )
    assert encode_receipts(entry) == expected
    assert decode_receipts(expected) == entry
    assert flow_id_of(expected) == entry.flow_id


def test_a_flow_is_identified_by_names_ids_and_producer() -> None:
    flow = FlowKey("t", 3, SOURCE_ID, TARGET_ID)
    identity = struct.pack(">iqH", 3, 7, 1) + b"t" + SOURCE_ID.bytes + TARGET_ID.bytes
    assert flow_id(flow, 7) == mmh3.hash64(identity, signed=False)[0]
    others = [
        (flow, 8),
        (flow._replace(source_topic="u"), 7),
        (flow._replace(partition=4), 7),
        (flow._replace(source_topic_id=TARGET_ID), 7),
        (flow._replace(target_topic_id=SOURCE_ID), 7),
    ]
    assert len({flow_id(flow, 7), *(flow_id(*each) for each in others)}) == 6


@st.composite
def _receipts(draw: st.DrawFn) -> tuple[Receipt, ...]:
    """Receipts ascend on the target; a successor may repeat earlier source offsets."""
    target = draw(st.integers(0, 2**40))
    made = []
    for _ in range(draw(st.integers(1, 20))):
        target += draw(st.integers(0, 2**33))
        source = draw(st.integers(0, 2**61))
        count = draw(st.integers(1, 2**31 - 1))
        made.append(
            Receipt(
                source,
                source + draw(st.integers(0, 2**33)),
                target,
                count,
                draw(st.integers(0, 2**32 - 1)),
                draw(st.integers(-1, 2**60)),
            )
        )
        target += count
    return tuple(made)


@given(_receipts(), st.integers(0, 2**64 - 1), st.integers(0, 2**15 - 1), st.integers(0, 2**31 - 1))
def test_any_receipts_come_back(
    receipts: tuple[Receipt, ...], flow: int, epoch: int, sequence: int
) -> None:
    entry = Receipts(flow, epoch, sequence, receipts)
    assert decode_receipts(encode_receipts(entry)) == entry


@given(_receipts(), st.data())
def test_incomplete_or_longer_records_are_refused(
    receipts: tuple[Receipt, ...], data: st.DataObject
) -> None:
    encoded = encode_receipts(Receipts(1, 0, 0, receipts))
    length = data.draw(st.integers(0, len(encoded) - 1))
    with pytest.raises(MapFormatError):
        decode_receipts(encoded[:length] if length > 40 else b"\x01" + encoded[1 : length + 1])
    with pytest.raises(MapFormatError):
        decode_receipts(encoded + b"\x00")


def test_another_version_and_no_receipts_are_refused() -> None:
    encoded = encode_receipts(Receipts(1, 0, 0, (Receipt(0, 1, 0, 1, 0, 0),)))
    for broken in (b"", b"\x02" + encoded[1:]):
        with pytest.raises(MapFormatError):
            flow_id_of(broken)
    with pytest.raises(MapFormatError, match="receipts version 2"):
        decode_receipts(b"\x02" + encoded[1:])
    with pytest.raises(MapFormatError, match="0 receipts in a record"):
        decode_receipts(encoded[:39] + b"\x00")


@pytest.mark.parametrize(
    "receipt",
    [
        Receipt(-5, 1, 1, 1, 0, 0),
        Receipt(2**62, 2**63, 1, 1, 0, 0),
        Receipt(0, 1, 2**63 - 2, 5, 0, 0),
    ],
)
def test_offsets_that_no_log_has_are_refused(receipt: Receipt) -> None:
    first = Receipt(0, 1, 0, 1, 0, 0)
    with pytest.raises(MapFormatError, match="no range"):
        decode_receipts(encode_receipts(Receipts(1, 0, 0, (first, receipt))))


def test_records_stay_below_the_limit_and_sequences_continue() -> None:
    receipts = [
        Receipt(index * 2, index * 2 + 2, index * 2, 2, index, index)
        for index in range(RECEIPTS_PER_RECORD_MAX + 5)
    ]
    start = 2**31 - 10
    one, other = split_receipts(9, 1, start, receipts)
    assert len(one.receipts) == RECEIPTS_PER_RECORD_MAX
    assert (other.flow_id, other.producer_epoch, len(other.receipts)) == (9, 1, 5)
    assert other.sequence == (start + 2 * RECEIPTS_PER_RECORD_MAX) % 2**31


@pytest.mark.parametrize(("receipts_per_record", "megabytes_max"), [(1, 56), (10, 14), (1000, 9.1)])
def test_a_million_batches_have_the_documented_size(
    receipts_per_record: int, megabytes_max: float
) -> None:
    """Batches of 100 records, 50 ms apart, as a producer with `linger.ms` makes them."""
    source = target = 10**12
    receipts = []
    for index in range(receipts_per_record):
        receipts.append(
            Receipt(source, source + 100, target, 100, 0xFFFFFFFF, 1_700_000_000_000 + 50 * index)
        )
        source, target = source + 100, target + 100
    value = encode_receipts(Receipts(2**63, 3, 10**6, tuple(receipts)))
    lone = encode_batch([NewRecord(1_700_000_000_000, None, value)])
    bytes_per_receipt = (len(lone) - HEADER_BYTES) / receipts_per_record
    assert bytes_per_receipt <= megabytes_max
