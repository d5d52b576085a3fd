"""Offsets by time, for ListOffsets: the only reads that open batches. Exact to the record.

Also the time of a record by its offset, exact to the batch, for the lag of groups. Both block on
the disk where the segments are cold. The limit of the codecs bounds the decoding.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Final, NamedTuple

from local_cluster.log.segment.scan import iter_file_headers
from local_cluster.log.segment.segment import Segment
from local_cluster.log.segment.transaction_index import AbortedTransaction
from local_cluster.records.batch import CorruptRecordError, Record, decode_batch
from local_cluster.records.compress import CompressionError
from local_cluster.records.header import NO_TIMESTAMP, BatchHeader
from local_cluster.wire.errors import ErrorCode, KafkaError

BATCHES_MAX: Final = 1_000
"""Batches without a record to read that are passed over, before the time counts as unknown."""


class TimestampedOffset(NamedTuple):
    """A record found by its time, and the leader epoch of its batch."""

    offset: int
    timestamp_ms: int
    leader_epoch: int


def find_timestamp(
    segments: Sequence[Segment], timestamp_ms: int, log_start_offset: int
) -> TimestampedOffset | None:
    """Return the first record from `log_start_offset` on whose time is `timestamp_ms` or later.

    Control batches count by their header. Raises KafkaError(corrupt_message) for a batch that
    cannot be opened, OSError.
    """
    for segment in segments:
        if segment.max_timestamp < timestamp_ms or segment.next_offset <= log_start_offset:
            continue
        start = max(segment.time_index.lookup(timestamp_ms), log_start_offset)
        position = segment.position_of(start)
        if position is None:
            continue
        for at, header in iter_file_headers(segment.file.open(), position, segment.size_bytes):
            if header.max_timestamp < timestamp_ms:
                continue
            found = _first_record(segment, at, header, timestamp_ms, log_start_offset)
            if found is not None:
                return found
    return None


def find_max_timestamp(segments: Sequence[Segment]) -> TimestampedOffset | None:
    """Return the first record with the largest time of the log (KIP-734). Raises as above."""
    newest = max(segments, key=lambda segment: segment.max_timestamp, default=None)
    if newest is None or newest.max_timestamp < 0:
        return None
    position = newest.position_of(newest.max_timestamp_offset)
    if position is None:
        return None
    for at, header in iter_file_headers(newest.file.open(), position, newest.size_bytes):
        return _first_record(newest, at, header, newest.max_timestamp, header.base_offset)
    return None


def find_unread_time(
    segments: Sequence[Segment], offset: int, limit: int, aborted: Iterable[AbortedTransaction]
) -> int | None:
    """Return the time in ms of the batch with the first record at `offset` or later, below `limit`.

    By headers alone. Control batches, batches of aborted transactions and batches that compaction
    emptied have nothing to read, so they are passed over.

    None if there is no such record, -1 if its time is not known. Where `offset` lies inside a batch
    the time is that of its first record: never later than that of the record. Raises OSError.
    """
    hidden = tuple(aborted)
    passed = 0
    for segment in segments:
        if segment.next_offset <= offset:
            continue
        if segment.base_offset >= limit:
            break
        position = segment.position_of(offset)
        if position is None:
            continue
        headers = iter_file_headers(segment.file.open(), position, segment.size_bytes)
        for _, header in islice(headers, BATCHES_MAX - passed + 1):
            if header.base_offset >= limit:
                return None
            if _is_readable(header, hidden):
                return _time_of(header)
            passed += 1
            if passed > BATCHES_MAX:
                return NO_TIMESTAMP
    return None


def _is_readable(header: BatchHeader, hidden: Sequence[AbortedTransaction]) -> bool:
    if header.is_control or not header.records_count:
        return False
    return not header.is_transactional or not any(
        each.producer_id == header.producer_id
        and each.first_offset <= header.base_offset <= each.last_offset
        for each in hidden
    )


def _time_of(header: BatchHeader) -> int:
    if header.is_log_append_time or header.has_artificial_base_timestamp:
        return header.max_timestamp
    return header.base_timestamp


def _is_as_produced(header: BatchHeader) -> bool:
    """Return whether all records are there and the base timestamp is the first record's."""
    return (
        header.records_count == header.last_offset_delta + 1
        and not header.has_artificial_base_timestamp
    )


def _first_record(
    segment: Segment, position: int, header: BatchHeader, timestamp_ms: int, offset_min: int
) -> TimestampedOffset | None:
    epoch = header.partition_leader_epoch
    whole_batch_ms = header.max_timestamp if header.is_log_append_time else header.base_timestamp
    if (
        whole_batch_ms >= timestamp_ms
        and header.base_offset >= offset_min
        and _is_as_produced(header)
    ):
        # The base timestamp is the first record's, so the batch need not be opened.
        return TimestampedOffset(header.base_offset, whole_batch_ms, epoch)
    for record in _records(segment, position, header):
        if record.timestamp_ms >= timestamp_ms and record.offset >= offset_min:
            return TimestampedOffset(record.offset, record.timestamp_ms, epoch)
    return None


def _records(segment: Segment, position: int, header: BatchHeader) -> list[Record]:
    try:
        return decode_batch(segment.file.open().pread(header.size_bytes, position), 0, header)
    except (CompressionError, CorruptRecordError) as error:
        raise KafkaError(ErrorCode.corrupt_message, str(error)) from error
