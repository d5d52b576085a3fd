"""Fingerprints for the audit: of one record, and of a whole batch without decompressing it. Pure.

The fingerprint of a record is `local_cluster.records.fingerprint`, which Spark's audit uses too.
The fingerprint of a batch is a shortcut: equal fingerprints of two batches mean equal records in
equal order. So batches that a mirror has copied as bytes need no decompression.

Guarantees: stable. Base offset, leader epoch, producer id, producer epoch and sequence do not
count, because mirrors change them.
Not here: protection against built collisions (MurmurHash3 is not cryptographic).
"""

from __future__ import annotations

import struct
from typing import Final

from mmh3 import mmh3_x64_128_digest

from local_cluster.records.fingerprint import fingerprint_record
from local_cluster.records.header import (
    CODEC_MASK,
    HEADER_BYTES,
    TIMESTAMP_TYPE_BIT,
    BatchHeader,
    Buffer,
)

__all__ = ["FINGERPRINT_BITS", "fingerprint_batch", "fingerprint_record"]

FINGERPRINT_BITS: Final = 64
"""A record's fingerprint is a signed integer of this many bits."""
_BATCH_PREFIX: Final = struct.Struct(">hiiqq")


def fingerprint_batch(buffer: Buffer, position: int, header: BatchHeader) -> bytes:
    """Return 32 bytes that represent the batch's records.

    Different fingerprints prove nothing: the same records with other compression differ here. Only
    the fingerprints of the records decide.
    """
    prefix = _BATCH_PREFIX.pack(
        header.attributes & (CODEC_MASK | TIMESTAMP_TYPE_BIT),
        header.records_count,
        header.last_offset_delta,
        header.base_timestamp,
        header.max_timestamp if header.is_log_append_time else 0,
    )
    body = memoryview(buffer)[position + HEADER_BYTES : position + header.size_bytes]
    digest: bytes = mmh3_x64_128_digest(prefix) + mmh3_x64_128_digest(body)
    return digest
