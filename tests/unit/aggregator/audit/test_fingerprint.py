"""Batch fingerprints are equal only if all records are, also after the changes of a mirror."""

from __future__ import annotations

import pytest

from aggregator.audit.fingerprint import fingerprint_batch
from local_cluster.records.batch import NewRecord, encode_batch
from local_cluster.records.header import (
    TIMESTAMP_TYPE_BIT,
    Buffer,
    patch_attributes,
    patch_leader_epoch,
    patch_producer,
    read_header,
)


def _batch(*values: bytes, codec: int = 0) -> bytearray:
    return encode_batch([NewRecord(1000, b"k", value) for value in values], codec=codec)


def test_batch_fingerprint_ignores_what_a_mirror_changes() -> None:
    source, mirrored = _batch(b"a", b"b"), _batch(b"a", b"b")
    mirrored[:8] = (77).to_bytes(8, "big")
    patch_leader_epoch(mirrored, 0, 4)
    patch_producer(mirrored, 0, 4000, 1, 20)
    assert bytes(source) != bytes(mirrored)
    assert _of(source) == _of(mirrored)


@pytest.mark.parametrize(
    "other", [_batch(b"a", b"c"), _batch(b"a"), _batch(b"b", b"a"), _batch(b"a", b"b", codec=1)]
)
def test_batch_fingerprint_tells_other_contents(other: bytearray) -> None:
    assert _of(_batch(b"a", b"b")) != _of(other)


def test_log_append_time_counts() -> None:
    create_time, append_time = _batch(b"a"), _batch(b"a")
    patch_attributes(append_time, 0, TIMESTAMP_TYPE_BIT)
    assert _of(create_time) != _of(append_time)


def _of(batch: Buffer) -> bytes:
    return fingerprint_batch(batch, 0, read_header(batch))
