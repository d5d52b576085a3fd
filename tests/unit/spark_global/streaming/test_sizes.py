"""Bytes per offset, from the headers of a few batches."""

from __future__ import annotations

from local_cluster.records.batch import NewRecord, encode_batch
from local_cluster.records.header import patch_base_offset
from spark_global.streaming.sizes import bytes_per_offset


def test_bytes_per_offset_of_whole_and_of_incomplete_batches() -> None:
    first = encode_batch([NewRecord(0, None, b"x" * 100)] * 10)
    second = encode_batch([NewRecord(0, None, b"x" * 300)] * 10)
    patch_base_offset(second, 0, 10)
    both = memoryview(bytes(first + second))
    assert bytes_per_offset(both) == (len(first) + len(second)) / 20
    assert bytes_per_offset(both[:-1]) == len(first) / 10
    assert bytes_per_offset(both[:80]) == len(first) / 10
    assert bytes_per_offset(both[:50]) is None
