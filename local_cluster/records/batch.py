"""Whole record batches: encode records into a batch, decode a batch into records.

The data path does not use this module: it patches headers (`header.py`). Writers of internal
topics, tools, Spark readers and the mirror's record path do. Record layout:
https://kafka.apache.org/documentation/#record.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from local_cluster.records.compress import DECOMPRESSED_BYTES_MAX, compress, decompress
from local_cluster.records.header import (
    CODEC_MASK,
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    BatchHeader,
    Buffer,
    iter_headers,
    pack_header,
    patch_crc,
)

Headers = tuple[tuple[str, bytes | None], ...]


class Record(NamedTuple):
    """A record in a log."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


class NewRecord(NamedTuple):
    """A record without an offset."""

    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


class CorruptRecordError(ValueError):
    """The records inside a batch violate the format."""


_VARINT_BYTES_MAX: Final = 10
_VARINTS_OF_ONE_BYTE: Final = tuple(bytes((2 * value,)) for value in range(64))
_NULL: Final = b"\1"
"""The length -1."""


def encode_varint(value: int) -> bytes:
    """Encode a signed number as a zigzag varint."""
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
    """Encode one record, with its length and the given deltas."""
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
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
) -> bytearray:
    """Encode records as a batch, with offsets base_offset, base_offset + 1 and so on.

    `attributes` may carry the transactional and control bits; the codec bits come from `codec`.
    Raises ValueError for an empty sequence: only compaction makes empty batches.
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
        pack_header(
            BatchHeader(
                base_offset=base_offset,
                batch_length=HEADER_BYTES - LOG_OVERHEAD_BYTES + len(compressed),
                partition_leader_epoch=leader_epoch,
                magic=MAGIC,
                crc=0,
                attributes=attributes & ~CODEC_MASK | codec,
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
    patch_crc(batch, 0)
    return batch


def decode_batch(
    buffer: Buffer,
    position: int,
    header: BatchHeader,
    bytes_max: int = DECOMPRESSED_BYTES_MAX,
) -> list[Record]:
    """Decode the records of the batch at `position`.

    Raises CompressionError or CorruptRecordError. The caller checks the CRC.
    """
    view = memoryview(buffer)[position + HEADER_BYTES : position + header.size_bytes]
    payload = decompress(header.codec, view, bytes_max)
    try:
        return list(_decode_records(payload, header))
    except (IndexError, UnicodeDecodeError) as error:
        raise CorruptRecordError(f"record cut short: {error}") from error


def iter_records(buffer: Buffer, bytes_max: int = DECOMPRESSED_BYTES_MAX) -> Iterator[Record]:
    """Yield the records of all complete batches except control batches."""
    for position, header in iter_headers(buffer):
        if not header.is_control:
            yield from decode_batch(buffer, position, header, bytes_max)


def walk_records(payload: bytes, position: int, limit: int, count: int, begins: list[int]) -> None:
    """Append the position of the length of each of `count` records, of which one follows the other.

    The first is at `position`, and none may run past `limit`. Raises CorruptRecordError.

    A negative length is not noticed here. It goes forward too, so the walk ends.
    """
    append = begins.append
    try:
        for _ in range(count):
            append(position)
            size = payload[position]
            if size < 0x80:
                position += 1 + (size >> 1)
                continue
            byte = payload[position + 1]
            position += 2
            size = size & 0x7F | (byte & 0x7F) << 7
            shift = 14
            while byte >= 0x80:
                if shift >= 7 * _VARINT_BYTES_MAX:
                    raise CorruptRecordError("varint longer than 10 bytes")
                byte = payload[position]
                position += 1
                size |= (byte & 0x7F) << shift
                shift += 7
            position += size >> 1
    except (IndexError, OverflowError) as error:  # the second only where this is compiled
        raise CorruptRecordError("record runs past the end of the batch") from error
    if position > limit:
        # Positions only ascend, so this sees each record that runs past the end.
        raise CorruptRecordError("record runs past the end of the batch")


def read_varint(payload: bytes, position: int) -> tuple[int, int]:
    """Return (value, next position). Raises IndexError at the end, CorruptRecordError."""
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


def _decode_records(payload: bytes, header: BatchHeader) -> Iterable[Record]:
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
        raise CorruptRecordError(f"{len(payload) - position} bytes after the last record")
