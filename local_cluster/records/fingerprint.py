"""The fingerprint of a record: 64 bits to compare two logs without their bytes.

All audits (on Spark, in the aggregator) use this definition, so that fingerprints of different
processes are comparable. It covers what a mirror must keep: timestamp, key, value, headers and
their order. It does not cover what a mirror changes: offset, producer id, batch, compression.

    mmh3 x64 128 bits, seed 0, over   timestamp as int64, big-endian
                                      key, value: length as zigzag varint (-1 = null), bytes
                                      number of headers, then name and value of each, alike
    first 8 bytes of the digest, read as a little-endian signed integer

The bytes after the timestamp are those of a record of batch format v2, from the key length to the
end of the record. So a decoder can hash the slice in place. Known clients write varints in their
shortest form. A record with longer ones has one fingerprint by slice and another by fields; its
slice is the same at both ends of a mirror.

It is no defence against an adversary: mmh3 is not cryptographic.
"""

from __future__ import annotations

import struct
from typing import Final

from mmh3 import mmh3_x64_128_digest

from local_cluster.records.batch import Headers, Record, encode_varint

_TIMESTAMP: Final = struct.Struct(">q")
_FINGERPRINT: Final = struct.Struct("<q")
DIGEST_BYTES: Final = 16
"""The size of the whole digest; the fingerprint is its first half."""


def fingerprint(
    timestamp_ms: int, key: bytes | None, value: bytes | None, headers: Headers = ()
) -> int:
    """Return the fingerprint of a record's fields, as a signed 64-bit integer."""
    return fingerprint_slice(timestamp_ms, encode_fields(key, value, headers))


def fingerprint_record(record: Record) -> int:
    """Return the fingerprint of a decoded record."""
    return fingerprint(record.timestamp_ms, record.key, record.value, record.headers)


def encode_fields(key: bytes | None, value: bytes | None, headers: Headers = ()) -> bytes:
    """Encode key, value and headers as at the end of a record of batch format v2."""
    out = bytearray()
    _write_bytes(out, key)
    _write_bytes(out, value)
    out += encode_varint(len(headers))
    for name, content in headers:
        _write_bytes(out, name.encode())
        _write_bytes(out, content)
    return bytes(out)


def fingerprint_slice(timestamp_ms: int, fields: bytes) -> int:
    """Return the fingerprint of a record's own bytes, from the key length to the end."""
    digest = mmh3_x64_128_digest(_TIMESTAMP.pack(timestamp_ms) + fields)
    result: int = _FINGERPRINT.unpack_from(digest)[0]
    return result


def _write_bytes(out: bytearray, value: bytes | None) -> None:
    if value is None:
        out += encode_varint(-1)
    else:
        out += encode_varint(len(value))
        out += value
