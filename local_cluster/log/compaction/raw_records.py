"""Records inside a batch as bytes: finding their parts, and building a batch of some of them. Pure.

Records that stay are copied as bytes. Only a new delete horizon rewrites their timestamp deltas.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from local_cluster.records.batch import CorruptRecordError, encode_varint, read_varint
from local_cluster.records.compress import compress, decompress
from local_cluster.records.header import (
    CODEC_MASK,
    DELETE_HORIZON_BIT,
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    NO_TIMESTAMP,
    BatchHeader,
    Buffer,
    pack_header,
    patch_crc,
)


class RawRecord(NamedTuple):
    """One record inside a payload: the positions of its parts."""

    start: int
    """Where its length begins."""
    tail: int
    """Where its offset delta begins: everything from here on stays unchanged."""
    end: int
    timestamp_delta: int
    offset_delta: int
    key: bytes | None
    has_value: bool


def payload_of(buffer: Buffer, position: int, header: BatchHeader) -> bytes:
    """Return the records of a batch, decompressed. Raises CompressionError."""
    view = memoryview(buffer)[position + HEADER_BYTES : position + header.size_bytes]
    return decompress(header.codec, view)


def iter_raw_records(payload: bytes, records_count: int) -> Iterator[RawRecord]:
    """Yield the first `records_count` records of a payload. Raises CorruptRecordError."""
    try:
        yield from _iter_raw_records(payload, records_count)
    except IndexError as error:
        raise CorruptRecordError(f"a record is truncated: {error}") from error


def _iter_raw_records(payload: bytes, records_count: int) -> Iterator[RawRecord]:
    position = 0
    for _ in range(records_count):
        start = position
        size, position = read_varint(payload, position)
        end = position + size
        if size < 0 or end > len(payload):
            raise CorruptRecordError("record runs past the end of the batch")
        timestamp_delta, tail = read_varint(payload, position + 1)
        offset_delta, position = read_varint(payload, tail)
        key_size, position = read_varint(payload, position)
        key = None
        if key_size >= 0:
            key = payload[position : position + key_size]
            position += key_size
        value_size, position = read_varint(payload, position)
        if position > end:
            raise CorruptRecordError("field runs past the end of the record")
        yield RawRecord(start, tail, end, timestamp_delta, offset_delta, key, value_size >= 0)
        position = end


def rebuild_batch(
    header: BatchHeader,
    payload: bytes,
    retained: Sequence[RawRecord],
    horizon_ms: int | None,
) -> bytearray:
    """Return the batch with only these records, and with a new delete horizon if there is one."""
    kept = bytearray()
    if horizon_ms is None:
        base_timestamp, attributes = header.base_timestamp, header.attributes
        for record in retained:
            kept += payload[record.start : record.end]
    else:
        base_timestamp, attributes = horizon_ms, header.attributes | DELETE_HORIZON_BIT
        for record in retained:
            delta = header.base_timestamp + record.timestamp_delta - horizon_ms
            # Attributes of a record are one byte, unused.
            body = b"\0" + encode_varint(delta) + payload[record.tail : record.end]
            kept += encode_varint(len(body)) + body
    max_timestamp = header.max_timestamp
    if not header.is_log_append_time:
        newest = max(record.timestamp_delta for record in retained)
        max_timestamp = header.base_timestamp + newest
    compressed = compress(header.codec, kept)
    rebuilt = header._replace(
        batch_length=HEADER_BYTES - LOG_OVERHEAD_BYTES + len(compressed),
        attributes=attributes,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
        records_count=len(retained),
    )
    return _pack(rebuilt, compressed)


def empty_batch(header: BatchHeader) -> bytearray:
    """Return the header alone: it keeps offsets, epoch, producer and sequence, and no record."""
    return _pack(
        header._replace(
            batch_length=HEADER_BYTES - LOG_OVERHEAD_BYTES,
            attributes=header.attributes & ~(CODEC_MASK | DELETE_HORIZON_BIT),
            base_timestamp=NO_TIMESTAMP,
            max_timestamp=NO_TIMESTAMP,
            records_count=0,
        ),
        b"",
    )


def _pack(header: BatchHeader, payload: bytes) -> bytearray:
    batch = bytearray(pack_header(header))
    batch += payload
    patch_crc(batch, 0)
    return batch
