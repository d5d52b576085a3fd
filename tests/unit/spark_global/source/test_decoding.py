"""Columns equal the result of the record-by-record decoder, for batches of every kind."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from local_cluster.records.batch import (
    CorruptRecordError,
    NewRecord,
    Record,
    decode_batch,
    encode_batch,
)
from local_cluster.records.compress import Codec, decompress
from local_cluster.records.fingerprint import fingerprint_record
from local_cluster.records.header import (
    HEADER_BYTES,
    TIMESTAMP_TYPE_BIT,
    BatchHeader,
    iter_headers,
    patch_attributes,
    read_header,
)
from spark_global.source.columns import (
    RecordColumns,
    binary_column,
    fingerprint_columns,
    headers_column,
    take_rows,
)
from spark_global.source.decoding import decode_columns, decode_places, has_no_gap
from spark_global.source.tables import HEADER
from tests.support.compacted_batches import encode_cleaned

GOLDEN = Path(__file__).parents[3] / "golden"

ODD_RECORDS = [
    NewRecord(1_000, None, None),
    NewRecord(999, b"", b"", (("h", None), ("h", b""), ("", b"x" * 200))),
    NewRecord(5_000_000_000, b"k" * 70, b"v" * 20_000),
    NewRecord(-1, b"key", None, (("trace", b"1"),)),
    NewRecord(1_001, None, b"\x00\xff", tuple((f"h{i}", b"%d" % i) for i in range(130))),
]


def opened(buffer: bytes | bytearray) -> list[tuple[BatchHeader, bytes]]:
    view = memoryview(bytes(buffer))
    return [
        (header, decompress(header.codec, view[at + HEADER_BYTES : at + header.size_bytes]))
        for at, header in iter_headers(view)
    ]


def as_records(columns: RecordColumns) -> list[Record]:
    keys = binary_column(columns.payload, columns.keys, pa.binary()).to_pylist()
    values = binary_column(columns.payload, columns.values, pa.binary()).to_pylist()
    headers = headers_column(columns, HEADER).to_pylist()
    return [
        Record(offset, timestamp, key, value, tuple((h["key"], h["value"]) for h in header))
        for offset, timestamp, key, value, header in zip(
            columns.offsets.tolist(),
            columns.timestamps_ms.tolist(),
            keys,
            values,
            headers,
            strict=True,
        )
    ]


@pytest.mark.parametrize("codec", list(Codec))
def test_odd_records_of_every_codec(codec: Codec) -> None:
    batch = encode_batch(ODD_RECORDS, base_offset=2**40, codec=codec)
    expected = decode_batch(batch, 0, read_header(batch))
    assert as_records(decode_columns(opened(batch))) == expected


def test_several_batches_at_once() -> None:
    batches = [
        encode_batch(ODD_RECORDS, base_offset=10, codec=Codec.LZ4),
        encode_batch(ODD_RECORDS[:1], base_offset=20),
        encode_batch(ODD_RECORDS[1:3], base_offset=21, codec=Codec.ZSTD),
    ]
    expected = [r for batch in batches for r in decode_batch(batch, 0, read_header(batch))]
    columns = decode_columns(opened(b"".join(batches)))
    assert as_records(columns) == expected
    assert fingerprint_columns(columns).tolist() == [fingerprint_record(r) for r in expected]


def test_offsets_alone_need_the_payload_of_a_batch_with_gaps_only() -> None:
    whole = encode_batch(ODD_RECORDS, base_offset=10)
    cleaned = encode_cleaned(ODD_RECORDS, (0, 2, 3))
    (header, _), (with_gaps, payload) = *opened(whole), *opened(cleaned)
    assert (has_no_gap(header), has_no_gap(with_gaps)) == (True, False)
    found = decode_places([(header, b""), (with_gaps, payload)])
    expected = decode_columns([*opened(whole), *opened(cleaned)])
    assert found.offsets.tolist() == expected.offsets.tolist()
    middle = take_rows(found, 3, 7)
    assert (len(middle), middle.offsets.tolist()) == (4, expected.offsets[3:7].tolist())


def test_log_append_time_overrides_the_records_own() -> None:
    batch = encode_batch(ODD_RECORDS, base_offset=3)
    patch_attributes(batch, 0, TIMESTAMP_TYPE_BIT)
    plain = encode_batch(ODD_RECORDS[:2], base_offset=8)
    expected = [r for b in (batch, plain) for r in decode_batch(b, 0, read_header(b))]
    assert as_records(decode_columns(opened(batch + plain))) == expected


@pytest.mark.parametrize("name", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_batches_that_java_wrote(name: str) -> None:
    batch = bytes.fromhex((GOLDEN / f"record_batch_{name}.hex").read_text())
    expected = [r for at, header in iter_headers(batch) for r in decode_batch(batch, at, header)]
    assert expected
    assert as_records(decode_columns(opened(batch))) == expected


def test_rows_in_the_middle_keep_their_headers() -> None:
    batch = encode_batch(ODD_RECORDS)
    columns = decode_columns(opened(batch))
    assert as_records(take_rows(columns, 1, 4)) == as_records(columns)[1:4]
    assert as_records(take_rows(columns, 2, 2)) == []


def test_every_cut_of_a_payload_is_corrupt_for_both_decoders() -> None:
    header, payload = opened(encode_batch(ODD_RECORDS[:2]))[0]
    for size in range(len(payload)):
        with pytest.raises(CorruptRecordError):
            decode_columns([(header, payload[:size])])


def test_a_record_that_reaches_into_the_next_batch_is_corrupt() -> None:
    # Alone the cut is noticed at the end of the payload; joined with others it must be as well.
    header, payload = opened(encode_batch(ODD_RECORDS[:2]))[0]
    with pytest.raises(CorruptRecordError):
        decode_columns([(header, payload[:-1]), (header, payload)])


@pytest.mark.parametrize("position", range(40))
def test_flipped_bytes_are_refused_or_read_alike(position: int) -> None:
    header, payload = opened(encode_batch(ODD_RECORDS[:2]))[0]
    if position >= len(payload):
        pytest.skip("payload is shorter")
    for flip in (0x01, 0x80, 0xFF):
        broken = bytearray(payload)
        broken[position] ^= flip
        plain = header._replace(attributes=0)
        whole = bytearray(HEADER_BYTES) + broken
        sized = plain._replace(batch_length=len(whole) - 12)
        try:
            expected = decode_batch(whole, 0, sized)
        except CorruptRecordError:
            with pytest.raises(CorruptRecordError):
                as_records(decode_columns([(plain, bytes(broken))]))
            continue
        assert as_records(decode_columns([(plain, bytes(broken))])) == expected
