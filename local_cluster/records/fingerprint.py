"""The fingerprint of a record: 64 bits by which two logs are compared without their bytes.

Whoever compares clusters (the audit on Spark, the audit of an aggregator) uses this one
definition, so that fingerprints taken in different processes mean the same. It covers what a
mirror must keep - timestamp, key, value, headers and their order - and nothing that it changes:
no offset, no producer id, no batch, no compression.

    mmh3 x64 128 bits, seed 0, over   timestamp as int64, big-endian
                                      key, value: length as zigzag varint (-1 = null), bytes
                                      number of headers, then name and value of each, alike
    first 8 bytes of the digest, read as a little-endian signed integer

The part behind the timestamp is laid out exactly as in a record of batch format v2, from the key
length to the end of the record, so that a decoder can hash the slice where it lies. (Every known
client writes varints in their shortest form; a record with longer ones has another fingerprint by
slice than by fields, and the same slice at both ends of a mirror.)

Not a defence against an adversary: mmh3 is not cryptographic.
"""

from __future__ import annotations

import struct
from typing import Final

from mmh3 import mmh3_x64_128_digest

from local_cluster.records.batch import Headers, Record

_TIMESTAMP: Final = struct.Struct(">q")
_FINGERPRINT: Final = struct.Struct("<q")
DIGEST_BYTES: Final = 16
"""Bytes of the whole digest; the fingerprint is the first half."""


def fingerprint(
    timestamp_ms: int, key: bytes | None, value: bytes | None, headers: Headers = ()
) -> int:
    """Fingerprint of a record given by its fields, as a signed 64-bit integer."""
    return fingerprint_slice(timestamp_ms, encode_fields(key, value, headers))


def fingerprint_record(record: Record) -> int:
    """Fingerprint of a decoded record."""
    return fingerprint(record.timestamp_ms, record.key, record.value, record.headers)


def encode_fields(key: bytes | None, value: bytes | None, headers: Headers = ()) -> bytes:
    """Key, value and headers as they lie at the end of a record of batch format v2."""
    out = bytearray()
    _write_bytes(out, key)
    _write_bytes(out, value)
    _write_varint(out, len(headers))
    for name, content in headers:
        _write_bytes(out, name.encode())
        _write_bytes(out, content)
    return bytes(out)


def fingerprint_slice(timestamp_ms: int, fields: bytes) -> int:
    """Fingerprint from a record's own bytes, key length up to the end of the record."""
    digest = mmh3_x64_128_digest(_TIMESTAMP.pack(timestamp_ms) + fields)
    result: int = _FINGERPRINT.unpack_from(digest)[0]
    return result


def _write_bytes(out: bytearray, value: bytes | None) -> None:
    if value is None:
        _write_varint(out, -1)
    else:
        _write_varint(out, len(value))
        out += value


def _write_varint(out: bytearray, value: int) -> None:
    zigzag = (value << 1) ^ (value >> 63)
    while zigzag >= 0x80:
        out.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    out.append(zigzag)
