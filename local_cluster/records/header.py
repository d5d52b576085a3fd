"""The 61-byte header of a record batch v2: read it, and patch it in place.

Layout (big-endian), https://kafka.apache.org/documentation/#recordbatch:

    0  base_offset int64        23 last_offset_delta int32     51 producer_epoch int16
    8  batch_length int32       27 base_timestamp int64        53 base_sequence int32
    12 partition_leader_epoch   35 max_timestamp int64         57 records_count int32
    16 magic int8               43 producer_id int64
    17 crc uint32               (the CRC-32C covers everything from byte 21 on)
    21 attributes int16

Base offset and leader epoch lie outside the CRC, so the broker patches them without touching it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from crc32c import crc32c

Buffer = bytes | bytearray | memoryview

HEADER_BYTES: Final = 61
LOG_OVERHEAD_BYTES: Final = 12
"""base_offset and batch_length, which batch_length itself does not count."""
MAGIC: Final = 2

CODEC_MASK: Final = 0x07
TIMESTAMP_TYPE_BIT: Final = 0x08
TRANSACTIONAL_BIT: Final = 0x10
CONTROL_BIT: Final = 0x20
DELETE_HORIZON_BIT: Final = 0x40

NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
NO_SEQUENCE: Final = -1
PRODUCER_EPOCH_MAX: Final = 0x7FFF
SEQUENCE_MASK: Final = 0x7FFF_FFFF
"""After the largest sequence comes 0."""
NO_TIMESTAMP: Final = -1

_HEADER: Final = struct.Struct(">qiibIhiqqqhii")
_PREFIX: Final = struct.Struct(">qi")
_BASE_OFFSET: Final = struct.Struct(">q")
_LEADER_EPOCH: Final = struct.Struct(">i")
_CRC: Final = struct.Struct(">I")
_ATTRIBUTES: Final = struct.Struct(">h")
_MAX_TIMESTAMP: Final = struct.Struct(">q")
_PRODUCER: Final = struct.Struct(">qhi")
CRC_START: Final = 21
"""The position from which on the CRC covers the batch."""

unpack_fields: Final = _HEADER.unpack_from
"""Unpack the fields of `BatchHeader` as a plain tuple, for loops over many small batches."""


class BatchHeader(NamedTuple):
    """The header of one batch; fields are in wire order."""

    base_offset: int
    batch_length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    records_count: int

    @property
    def size_bytes(self) -> int:
        """The size of the whole batch, including the header."""
        return self.batch_length + LOG_OVERHEAD_BYTES

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def codec(self) -> int:
        """The number of the compression codec; see `compress.Codec`."""
        return self.attributes & CODEC_MASK

    @property
    def is_log_append_time(self) -> bool:
        return bool(self.attributes & TIMESTAMP_TYPE_BIT)

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL_BIT)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL_BIT)

    @property
    def has_delete_horizon(self) -> bool:
        """Whether the base timestamp is a log cleaner's delete horizon (KIP-534).

        The timestamp deltas of the records are still relative to it.
        """
        return bool(self.attributes & DELETE_HORIZON_BIT)

    @property
    def has_artificial_base_timestamp(self) -> bool:
        """Whether the base timestamp is known not to be the first record's timestamp."""
        return self.has_delete_horizon or self.base_timestamp > self.max_timestamp

    @property
    def last_sequence(self) -> int:
        """The sequence of the last record; it wraps at 2**31 as in Kafka. -1 without a sequence."""
        if self.base_sequence < 0:
            return NO_SEQUENCE
        return (self.base_sequence + self.last_offset_delta) & 0x7FFFFFFF


def read_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """Unpack the header at `position`. Raises struct.error if fewer than 61 bytes follow."""
    return BatchHeader._make(_HEADER.unpack_from(buffer, position))


def iter_headers(buffer: Buffer, position: int = 0) -> Iterator[tuple[int, BatchHeader]]:
    """Yield (position, header) of each complete batch.

    A fetch response may end in a partial batch (KIP-74), which ends the iteration without an error.
    Nothing is validated. A batch_length that is too small for a header ends the iteration, so that
    it always terminates.
    """
    while (header := complete_header(buffer, position)) is not None:
        yield position, header
        position += header.size_bytes


def complete_header(buffer: Buffer, position: int) -> BatchHeader | None:
    """Return the header of the batch at `position`; None if the batch is partial or too small."""
    if position + HEADER_BYTES > len(buffer):
        return None
    header = BatchHeader._make(_HEADER.unpack_from(buffer, position))
    size_bytes = header.batch_length + LOG_OVERHEAD_BYTES
    return header if HEADER_BYTES <= size_bytes <= len(buffer) - position else None


def last_header(buffer: Buffer) -> BatchHeader | None:
    """Return the header of the last complete batch, found by sizes alone; None without one."""
    last, position, end = -1, 0, len(buffer) - HEADER_BYTES
    while position <= end:
        size_bytes = _PREFIX.unpack_from(buffer, position)[1] + LOG_OVERHEAD_BYTES
        if size_bytes < HEADER_BYTES or position + size_bytes > len(buffer):
            break
        last = position
        position += size_bytes
    return None if last < 0 else read_header(buffer, last)


def peek_size_bytes(buffer: Buffer, position: int) -> int:
    """Return the size of the batch at `position`, from its first 12 bytes."""
    batch_length: int = _PREFIX.unpack_from(buffer, position)[1]
    return batch_length + LOG_OVERHEAD_BYTES


def compute_crc(buffer: Buffer, position: int, size_bytes: int) -> int:
    """Return the CRC-32C over the part of a batch that it covers."""
    checksum: int = crc32c(memoryview(buffer)[position + CRC_START : position + size_bytes])
    return checksum


def crc_is_valid(buffer: Buffer, position: int, header: BatchHeader) -> bool:
    return compute_crc(buffer, position, header.size_bytes) == header.crc


def patch_base_offset(buffer: bytearray | memoryview, position: int, base_offset: int) -> None:
    """Set the base offset; outside the CRC."""
    _BASE_OFFSET.pack_into(buffer, position, base_offset)


def patch_leader_epoch(buffer: bytearray | memoryview, position: int, leader_epoch: int) -> None:
    """Set the partition leader epoch; outside the CRC."""
    _LEADER_EPOCH.pack_into(buffer, position + 12, leader_epoch)


def patch_crc(buffer: bytearray | memoryview, position: int) -> None:
    """Recompute the CRC of the batch."""
    size_bytes = peek_size_bytes(buffer, position)
    _CRC.pack_into(buffer, position + 17, compute_crc(buffer, position, size_bytes))


def patch_attributes(buffer: bytearray | memoryview, position: int, attributes: int) -> None:
    """Set the attributes; `patch_crc` must follow."""
    _ATTRIBUTES.pack_into(buffer, position + CRC_START, attributes)


def patch_max_timestamp(buffer: bytearray | memoryview, position: int, timestamp_ms: int) -> None:
    """Set the largest timestamp; `patch_crc` must follow."""
    _MAX_TIMESTAMP.pack_into(buffer, position + 35, timestamp_ms)


def peek_max_timestamp(buffer: Buffer) -> int:
    """Return the largest timestamp of the batch at the start of the buffer."""
    timestamp_ms: int = _MAX_TIMESTAMP.unpack_from(buffer, 35)[0]
    return timestamp_ms


def patch_producer(
    buffer: bytearray | memoryview,
    position: int,
    producer_id: int,
    producer_epoch: int,
    base_sequence: int,
) -> None:
    """Set the producer id, epoch and first sequence; `patch_crc` must follow."""
    _PRODUCER.pack_into(buffer, position + 43, producer_id, producer_epoch, base_sequence)


def pack_header(header: BatchHeader) -> bytes:
    """Encode a header as given; the CRC is not computed."""
    return _HEADER.pack(*header)
