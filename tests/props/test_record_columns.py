"""Columns of records equal the record-by-record decoder, for any records in any batches."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from local_cluster.records.batch import NewRecord, decode_batch, encode_batch
from local_cluster.records.compress import Codec
from local_cluster.records.fingerprint import fingerprint_record
from local_cluster.records.header import HEADER_BYTES, read_header
from spark_global.source.columns import binary_column, fingerprint_columns, headers_column
from spark_global.source.decoding import decode_columns
from spark_global.source.tables import HEADER

nullable_bytes = st.none() | st.binary(max_size=300)
records = st.builds(
    NewRecord,
    st.integers(-1, 2**62),
    nullable_bytes,
    nullable_bytes,
    st.lists(st.tuples(st.text(max_size=20), nullable_bytes), max_size=4).map(tuple),
)
batches = st.lists(
    st.tuples(st.lists(records, min_size=1, max_size=20), st.sampled_from([Codec.NONE, Codec.LZ4])),
    min_size=1,
    max_size=4,
)


@given(batches, st.integers(0, 2**50))
def test_columns_are_the_records(
    contents: list[tuple[list[NewRecord], Codec]], base_offset: int
) -> None:
    opened, expected = [], []
    for rows, codec in contents:
        batch = bytes(encode_batch(rows, base_offset=base_offset, codec=codec))
        header = read_header(batch)
        decoded = decode_batch(batch, 0, header)
        plain = bytes(encode_batch(rows, base_offset=base_offset))
        opened.append((header, plain[HEADER_BYTES:]))
        expected += decoded
        base_offset = header.next_offset
    columns = decode_columns(opened)
    assert columns.offsets.tolist() == [record.offset for record in expected]
    assert columns.timestamps_ms.tolist() == [record.timestamp_ms for record in expected]
    for slices, field in ((columns.keys, "key"), (columns.values, "value")):
        column = binary_column(columns.payload, slices, pa.binary()).to_pylist()
        assert column == [getattr(record, field) for record in expected]
    headers = headers_column(columns, HEADER).to_pylist()
    assert [tuple((h["key"], h["value"]) for h in of_one) for of_one in headers] == [
        record.headers for record in expected
    ]
    assert fingerprint_columns(columns).tolist() == [fingerprint_record(r) for r in expected]
