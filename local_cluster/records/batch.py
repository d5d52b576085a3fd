"""Whole record batches: build one from records, open one into records.

The data path never comes here (it patches headers, see `header.py`); producers of our own
topics, readers for people and for Spark, and the mirror's record path do. Record layout:
https://kafka.apache.org/documentation/#record.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from local_cluster.records import header as h
from local_cluster.records.compress import DECOMPRESSED_BYTES_MAX, compress, decompress

Headers = tuple[tuple[str, bytes | None], ...]


class Record(NamedTuple):
    """One record as it lies in a log."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


class NewRecord(NamedTuple):
    """One record that has no offset yet."""

    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


class CorruptRecordError(ValueError):
    """The records inside a batch do not follow the format."""


_VARINT_BYTES_MAX: Final = 10


_VARINTS_OF_ONE_BYTE: Final = tuple(bytes((2 * value,)) for value in range(64))
_NULL: Final = b"\1"
"""The length -1."""


def encode_varint(value: int) -> bytes:
    """A signed number as a zigzag varint."""
    if 0 <= value < 64:
        return _VARINTS_OF_ONE_BYTE[value]
    zigzag = (value << 1) ^ (value >> 63)
    out = bytearray()
    while zigzag >= 0x80:
        out.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    out.append(zigzag)
    return bytes(out)


def encode_record(record: NewRecord, timestamp_delta: int, offset_delta: int) -> bytes:
    """One record with its length, its deltas as they stand in the batch."""
    _, key, value, headers = record
    fields = [
        b"\0",  # attributes, unused
        encode_varint(timestamp_delta),
        encode_varint(offset_delta),
        _NULL if key is None else encode_varint(len(key)) + key,
        _NULL if value is None else encode_varint(len(value)) + value,
        encode_varint(len(headers)),
    ]
    for name, content in headers:
        encoded = name.encode()
        fields.append(encode_varint(len(encoded)) + encoded)
        fields.append(_NULL if content is None else encode_varint(len(content)) + content)
    body = b"".join(fields)
    return encode_varint(len(body)) + body


def encode_batch(
    records: Sequence[NewRecord],
    *,
    base_offset: int = 0,
    codec: int = 0,
    leader_epoch: int = -1,
    attributes: int = 0,
    producer_id: int = h.NO_PRODUCER_ID,
    producer_epoch: int = h.NO_PRODUCER_EPOCH,
    base_sequence: int = h.NO_SEQUENCE,
) -> bytearray:
    """A complete batch of the records, with offsets base_offset, base_offset + 1 and so on.

    `attributes` may carry the transactional and control bits; the codec bits come from `codec`.
    Raises ValueError for an empty sequence: Kafka has no empty batches outside compaction.
    """
    if not records:
        raise ValueError("a batch needs at least one record")
    base_timestamp = records[0].timestamp_ms
    payload = bytearray().join(
        [
            encode_record(record, record.timestamp_ms - base_timestamp, index)
            for index, record in enumerate(records)
        ]
    )
    compressed = compress(codec, payload)
    batch = bytearray(
        h.pack_header(
            h.BatchHeader(
                base_offset=base_offset,
                batch_length=h.HEADER_BYTES - h.LOG_OVERHEAD_BYTES + len(compressed),
                partition_leader_epoch=leader_epoch,
                magic=h.MAGIC,
                crc=0,
                attributes=attributes & ~h.CODEC_MASK | codec,
                last_offset_delta=len(records) - 1,
                base_timestamp=base_timestamp,
                max_timestamp=max(record.timestamp_ms for record in records),
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                base_sequence=base_sequence,
                records_count=len(records),
            )
        )
    )
    batch += compressed
    h.patch_crc(batch, 0)
    return batch


def decode_batch(
    buffer: h.Buffer,
    position: int,
    header: h.BatchHeader,
    bytes_max: int = DECOMPRESSED_BYTES_MAX,
) -> list[Record]:
    """The records of the batch at `position`, whose header was read before.

    Raises CompressionError or CorruptRecordError; the CRC is the caller's to check.
    """
    view = memoryview(buffer)[position + h.HEADER_BYTES : position + header.size_bytes]
    payload = decompress(header.codec, view, bytes_max)
    try:
        return list(_decode_records(payload, header))
    except (IndexError, UnicodeDecodeError) as error:
        raise CorruptRecordError(f"record cut short: {error}") from error


def iter_records(buffer: h.Buffer, bytes_max: int = DECOMPRESSED_BYTES_MAX) -> Iterator[Record]:
    """Every record of every complete data batch; control batches are left out."""
    for position, header in h.iter_headers(buffer):
        if not header.is_control:
            yield from decode_batch(buffer, position, header, bytes_max)


def read_varint(payload: bytes, position: int) -> tuple[int, int]:
    """(value, position after it). Raises IndexError at the end, CorruptRecordError."""
    byte = payload[position]
    position += 1
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), position
    zigzag = byte & 0x7F
    shift = 7
    while byte >= 0x80:
        if shift > 7 * _VARINT_BYTES_MAX:
            raise CorruptRecordError("varint longer than 10 bytes")
        byte = payload[position]
        position += 1
        zigzag |= (byte & 0x7F) << shift
        shift += 7
    return (zigzag >> 1) ^ -(zigzag & 1), position


def _read_bytes(payload: bytes, position: int) -> tuple[bytes | None, int]:
    size, position = read_varint(payload, position)
    if size < 0:
        return None, position
    end = position + size
    if end > len(payload):
        raise CorruptRecordError("field runs past the end of the batch")
    return payload[position:end], end


def _decode_records(payload: bytes, header: h.BatchHeader) -> Iterable[Record]:
    position = 0
    for _ in range(header.records_count):
        size, position = read_varint(payload, position)
        end = position + size
        if size < 0 or end > len(payload):
            raise CorruptRecordError("record runs past the end of the batch")
        position += 1  # attributes, unused
        timestamp_delta, position = read_varint(payload, position)
        offset_delta, position = read_varint(payload, position)
        key, position = _read_bytes(payload, position)
        value, position = _read_bytes(payload, position)
        headers_count, position = read_varint(payload, position)
        headers: Headers = ()
        if headers_count:
            if headers_count < 0 or headers_count > size:
                raise CorruptRecordError(f"{headers_count} headers in a record of {size} bytes")
            pairs = []
            for _ in range(headers_count):
                name, position = _read_bytes(payload, position)
                if name is None:
                    raise CorruptRecordError("header without a name")
                content, position = _read_bytes(payload, position)
                pairs.append((name.decode(), content))
            headers = tuple(pairs)
        if position != end:
            raise CorruptRecordError("record length does not match its fields")
        timestamp_ms = (
            header.max_timestamp
            if header.is_log_append_time
            else header.base_timestamp + timestamp_delta
        )
        yield Record(header.base_offset + offset_delta, timestamp_ms, key, value, headers)
    if position != len(payload):
        raise CorruptRecordError(f"{len(payload) - position} bytes behind the last record")
