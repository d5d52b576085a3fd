"""Many tiny source batches, one after the other, as one batch for the target. Pure.

A batch costs the mirror, the network and the target about the same whether it has one record or
hundreds, so a run of tiny ones is copied as one batch. The records are what they were: key, value,
headers, timestamp and codec; their bytes behind the offset are not looked into. Only the lengths,
the distances of timestamps and the offsets within the batch are written anew, in bulk: one call
of the codec for the run in each direction.

A run ends before a batch that

- is not tiny, or begins before the position;
- has other attributes (codec, transactional, control, LogAppendTime);
- has holes, or a base timestamp that is no record's;
- was born elsewhere, or fails its CRC.

Such a batch goes the ordinary way, which knows what to make of it.
"""

from __future__ import annotations

from collections.abc import Set
from typing import Final, NamedTuple

from crc32c import crc32c

from local_cluster.records import header as h
from local_cluster.records.batch import CorruptRecordError, encode_varint, read_varint
from local_cluster.records.compress import CompressionError, compress, decompress_joined

TINY_BATCH_BYTES_MAX: Final = 4 * 1024
RUN_BATCHES_MIN: Final = 4
"""Fewer are copied as they are: opening them would cost more than it saves."""
RUN_BYTES_MAX: Final = 256 * 1024
"""Of source batches in one run: far below what targets take in a batch by default, 1 MB."""
PAYLOAD_BYTES_MAX: Final = 8 * 1024 * 1024
"""Of a run's records, decompressed. A run that claims more is copied batch by batch."""
_VARINTS: Final = tuple(encode_varint(value) for value in range(8192))


class TinyRun(NamedTuple):
    """Tiny batches that lie one behind the other in a fetch answer."""

    end: int
    """The position in the answer behind them."""
    codec: int
    base_offsets: list[int]
    records_counts: list[int]
    base_timestamps: list[int]
    max_timestamp: int
    payloads: list[memoryview]
    leader_epoch: int
    """Of the last of them."""


class Coalesced(NamedTuple):
    """A run as one batch, dense, without a producer."""

    header: h.BatchHeader
    """Of the batch that was made; its offsets count from 0."""
    data: bytearray
    segments: tuple[tuple[int, int], ...]
    """(source offset, count) of contiguous pieces, in order."""


def find_run(fetched: memoryview, start: int, foreign_ids: Set[int] = frozenset()) -> TinyRun:
    """The run of tiny batches that begins at `start`, of any length."""
    unpack = h.unpack_fields
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
    while at + h.HEADER_BYTES <= end and size_bytes < RUN_BYTES_MAX:
        (
            base_offset, length, epoch, magic, crc, attributes, last_offset_delta,
            base_timestamp, max_timestamp, producer_id, _, _, records_count,
        ) = unpack(fetched, at)  # fmt: skip
        following = at + length + h.LOG_OVERHEAD_BYTES
        if (
            following - at > TINY_BATCH_BYTES_MAX
            or length <= h.HEADER_BYTES - h.LOG_OVERHEAD_BYTES
            or following > end
            or magic != h.MAGIC
            or attributes & ~h.CODEC_MASK
            or (attributes != codec and codec >= 0)
            or records_count != last_offset_delta + 1
            or base_offset < next_offset
            or base_timestamp > max_timestamp
            or producer_id in foreign_ids
            or crc32c(fetched[at + h.CRC_START : following]) != crc
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
        payloads.append(fetched[at + h.HEADER_BYTES : following])
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
    """One batch of the run's records; None where they cannot be opened."""
    try:
        payload = decompress_joined(run.codec, run.payloads, PAYLOAD_BYTES_MAX)
        records = _renumber(payload, run.records_counts, run.base_timestamps)
    except (CompressionError, CorruptRecordError, IndexError):
        return None
    compressed = compress(run.codec, records)
    count = sum(run.records_counts)
    header = h.BatchHeader(
        base_offset=0,
        batch_length=h.HEADER_BYTES - h.LOG_OVERHEAD_BYTES + len(compressed),
        partition_leader_epoch=-1,
        magic=h.MAGIC,
        crc=0,
        attributes=run.codec,
        last_offset_delta=count - 1,
        base_timestamp=run.base_timestamps[0],
        max_timestamp=run.max_timestamp,
        producer_id=h.NO_PRODUCER_ID,
        producer_epoch=h.NO_PRODUCER_EPOCH,
        base_sequence=h.NO_SEQUENCE,
        records_count=count,
    )
    data = bytearray(h.pack_header(header))
    data += compressed
    return Coalesced(header, data, _segments(run))


def _renumber(payload: bytes, records_counts: list[int], base_timestamps: list[int]) -> bytes:
    """The records of several batches as those of one, whose base timestamp is the first's.

    Raises CorruptRecordError, IndexError.
    """
    varints, varints_count = _VARINTS, len(_VARINTS)
    parts: list[bytes] = []
    first_timestamp = base_timestamps[0]
    at = index = 0
    for records_count, base_timestamp in zip(records_counts, base_timestamps, strict=True):
        shift = base_timestamp - first_timestamp
        for _ in range(records_count):
            # Length, attributes, timestamp delta, offset delta, and what is copied as it is.
            # The varints are read in place where they have one byte or two, as nearly all have.
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
        raise CorruptRecordError(f"{len(payload) - at} bytes behind the last record")
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
