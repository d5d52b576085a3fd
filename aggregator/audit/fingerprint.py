"""Fingerprints for the audit: of one record, and of a whole batch without opening it.

The record's is the one definition of `local_cluster.records.fingerprint`, so that an audit made by
Spark and one made here speak of the same numbers. The batch's is a shortcut: equal fingerprints of
two batches mean equal records in equal order, so that nothing has to be decompressed where a
mirror has copied bytes, which is nearly everywhere.

Guarantees: pure and stable; base offset, leader epoch, producer id, epoch and sequence never
count, because mirrors change them rightly.
Not here: defence against an adversary who builds collisions (MurmurHash3 is not cryptographic).
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
"""Of a record; a signed integer of that many bits."""
_BATCH_PREFIX: Final = struct.Struct(">hiiqq")


def fingerprint_batch(buffer: Buffer, position: int, header: BatchHeader) -> bytes:
    """32 bytes that stand for the batch's records.

    Different fingerprints mean nothing: the same records compressed otherwise differ here, and
    only the fingerprints of the records can tell.
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
