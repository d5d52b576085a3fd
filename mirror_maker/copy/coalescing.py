"""A run of tiny source batches, copied as one batch. Pure.

A batch costs the mirror, the network and the target about the same, whether it has one record or
hundreds. So a run of tiny batches is copied as one batch. Key, value, headers, timestamp and codec
of each record stay; the bytes after a record's offset are not parsed. Only lengths, timestamp
deltas and offset deltas are encoded anew, with one call of the codec per run and direction.

A run ends before a batch that

- is not tiny, or begins before the position;
- has other attributes (codec, transactional, control, LogAppendTime);
- has holes, or a base timestamp that belongs to no record;
- was born elsewhere, or fails its CRC.

Such a batch is copied on its own (`batch_selection`).
"""

from __future__ import annotations

from collections.abc import Set
from typing import Final, NamedTuple

from crc32c import crc32c

from local_cluster.records.batch import CorruptRecordError, encode_varint, read_varint
from local_cluster.records.compress import CompressionError, compress, decompress_joined
from local_cluster.records.header import (
    CODEC_MASK,
    CRC_START,
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    BatchHeader,
    pack_header,
    unpack_fields,
)

TINY_BATCH_BYTES_MAX: Final = 4 * 1024
RUN_BATCHES_MIN: Final = 4
"""Fewer are copied one by one: opening them costs more than it saves."""
RUN_BYTES_MAX: Final = 256 * 1024
"""Source batches of one run together: far below Kafka's default limit for a batch, 1 MB."""
PAYLOAD_BYTES_MAX: Final = 8 * 1024 * 1024
"""Decompressed records of one run. A run that claims more is copied batch by batch."""
_VARINTS: Final = tuple(encode_varint(value) for value in range(8192))


class TinyRun(NamedTuple):
    """Tiny batches that follow each other in a fetch response."""

    end: int
    """The position in the response after them."""
    codec: int
    base_offsets: list[int]
    records_counts: list[int]
    base_timestamps: list[int]
    max_timestamp: int
    payloads: list[memoryview]
    leader_epoch: int
    """Leader epoch of the last of them."""


class Coalesced(NamedTuple):
    """A run as one dense batch without a producer."""

    header: BatchHeader
    """Header of that batch; its offsets count from 0."""
    data: bytearray
    segments: tuple[tuple[int, int], ...]
    """(source offset, count) of contiguous source records, in order."""


def find_run(fetched: memoryview, start: int, foreign_ids: Set[int] = frozenset()) -> TinyRun:
    """Return the run of tiny batches that begins at `start`; it may be empty."""
    unpack = unpack_fields
    end = len(fetched)
    at, size_bytes = start, 0
    base_offsets: list[int] = []
    records_counts: list[int] = []
    base_timestamps: list[int] = []
    payloads: list[memoryview] = []
    codec = -1
    next_offset = -1
    run_max_timestamp = -1
    leader_epoch = -1
    while at + HEADER_BYTES <= end and size_bytes < RUN_BYTES_MAX:
        (
            base_offset, length, epoch, magic, crc, attributes, last_offset_delta,
            base_timestamp, max_timestamp, producer_id, _, _, records_count,
        ) = unpack(fetched, at)  # fmt: skip
        following = at + length + LOG_OVERHEAD_BYTES
        if (
            following - at > TINY_BATCH_BYTES_MAX
            or length <= HEADER_BYTES - LOG_OVERHEAD_BYTES
            or following > end
            or magic != MAGIC
            or attributes & ~CODEC_MASK
            or (attributes != codec and codec >= 0)
            or records_count != last_offset_delta + 1
            or base_offset < next_offset
            or base_timestamp > max_timestamp
            or producer_id in foreign_ids
            or crc32c(fetched[at + CRC_START : following]) != crc
        ):
            break
        codec = attributes
        leader_epoch = epoch
        next_offset = base_offset + records_count
        if max_timestamp > run_max_timestamp:
            run_max_timestamp = max_timestamp
        base_offsets.append(base_offset)
        records_counts.append(records_count)
        base_timestamps.append(base_timestamp)
        payloads.append(fetched[at + HEADER_BYTES : following])
        size_bytes += length
        at = following
    return TinyRun(
        at,
        codec,
        base_offsets,
        records_counts,
        base_timestamps,
        run_max_timestamp,
        payloads,
        leader_epoch,
    )


def coalesce(run: TinyRun) -> Coalesced | None:
    """Return one batch with the run's records, or None if they cannot be opened."""
    try:
        payload = decompress_joined(run.codec, run.payloads, PAYLOAD_BYTES_MAX)
        records = _renumber(payload, run.records_counts, run.base_timestamps)
    except (CompressionError, CorruptRecordError, IndexError):
        return None
    compressed = compress(run.codec, records)
    count = sum(run.records_counts)
    header = BatchHeader(
        base_offset=0,
        batch_length=HEADER_BYTES - LOG_OVERHEAD_BYTES + len(compressed),
        partition_leader_epoch=-1,
        magic=MAGIC,
        crc=0,
        attributes=run.codec,
        last_offset_delta=count - 1,
        base_timestamp=run.base_timestamps[0],
        max_timestamp=run.max_timestamp,
        producer_id=NO_PRODUCER_ID,
        producer_epoch=NO_PRODUCER_EPOCH,
        base_sequence=NO_SEQUENCE,
        records_count=count,
    )
    data = bytearray(pack_header(header))
    data += compressed
    return Coalesced(header, data, _segments(run))


def _renumber(payload: bytes, records_counts: list[int], base_timestamps: list[int]) -> bytes:
    """Renumber the records of several batches as one batch with the first one's base timestamp.

    Raises CorruptRecordError, IndexError.
    """
    varints, varints_count = _VARINTS, len(_VARINTS)
    parts: list[bytes] = []
    first_timestamp = base_timestamps[0]
    at = index = 0
    for records_count, base_timestamp in zip(records_counts, base_timestamps, strict=True):
        shift = base_timestamp - first_timestamp
        for _ in range(records_count):
            # Length, attributes, timestamp delta, offset delta, then bytes that are copied as is.
            # Varints of one or two bytes are read inline: nearly all are that short.
            low = payload[at]
            if low < 0x80:
                size, body = (low >> 1) ^ -(low & 1), at + 1
            elif (high := payload[at + 1]) < 0x80:
                size, body = ((low & 0x7F | high << 7) >> 1) ^ -(low & 1), at + 2
            else:
                size, body = read_varint(payload, at)
            low = payload[body + 1]
            if low < 0x80:
                delta, rest = (low >> 1) ^ -(low & 1), body + 2
            else:
                delta, rest = read_varint(payload, body + 1)
            if payload[rest] < 0x80:
                rest += 1
            else:
                _, rest = read_varint(payload, rest)
            at = body + size
            if rest > at or at > len(payload):
                raise CorruptRecordError("a record runs past its end")
            delta += shift
            fields = payload[body : body + 1]
            fields += varints[delta] if 0 <= delta < varints_count else encode_varint(delta)
            fields += varints[index] if index < varints_count else encode_varint(index)
            size = len(fields) + at - rest
            parts.append(varints[size] if size < varints_count else encode_varint(size))
            parts.append(fields)
            parts.append(payload[rest:at])
            index += 1
    if at != len(payload):
        raise CorruptRecordError(f"{len(payload) - at} bytes follow the last record")
    return b"".join(parts)


def _segments(run: TinyRun) -> tuple[tuple[int, int], ...]:
    first = run.base_offsets[0]
    total = sum(run.records_counts)
    if run.base_offsets[-1] + run.records_counts[-1] - first == total:
        return ((first, total),)
    segments: list[tuple[int, int]] = []
    start, count = first, 0
    for base_offset, records_count in zip(run.base_offsets, run.records_counts, strict=True):
        if base_offset != start + count:
            segments.append((start, count))
            start, count = base_offset, 0
        count += records_count
    segments.append((start, count))
    return tuple(segments)
