"""ListOffsets by time: the only reads that open batches. Exact to the record, as Kafka's.

Blocks on the disk where the segments are cold; decoding is bounded by the codecs' limit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from local_cluster.log.segment.scan import iter_file_headers
from local_cluster.log.segment.segment import Segment
from local_cluster.records.batch import CorruptRecordError, Record, decode_batch
from local_cluster.records.compress import CompressionError
from local_cluster.records.header import BatchHeader
from local_cluster.wire.errors import ErrorCode, KafkaError


class TimestampedOffset(NamedTuple):
    """A record found by its time; the epoch is that of its batch."""

    offset: int
    timestamp_ms: int
    leader_epoch: int


def find_timestamp(
    segments: Sequence[Segment], timestamp_ms: int, log_start_offset: int
) -> TimestampedOffset | None:
    """The first record at or after `log_start_offset` whose time is `timestamp_ms` or later.

    Control batches count by their header. Raises KafkaError(corrupt_message) for a batch that
    cannot be opened.
    """
    for segment in segments:
        if segment.max_timestamp < timestamp_ms or segment.next_offset <= log_start_offset:
            continue
        start = max(segment.time_index.lookup(timestamp_ms), log_start_offset)
        position = segment.position_of(start)
        if position is None:
            continue
        for at, header in iter_file_headers(segment.file, position, segment.size_bytes):
            if header.max_timestamp < timestamp_ms:
                continue
            found = _first_record(segment, at, header, timestamp_ms, log_start_offset)
            if found is not None:
                return found
    return None


def find_max_timestamp(segments: Sequence[Segment]) -> TimestampedOffset | None:
    """The first record that has the largest time of the log (KIP-734)."""
    newest = max(segments, key=lambda segment: segment.max_timestamp, default=None)
    if newest is None or newest.max_timestamp < 0:
        return None
    position = newest.position_of(newest.max_timestamp_offset)
    if position is None:
        return None
    for at, header in iter_file_headers(newest.file, position, newest.size_bytes):
        return _first_record(newest, at, header, newest.max_timestamp, header.base_offset)
    return None


def _is_as_produced(header: BatchHeader) -> bool:
    """Whether no record was compacted away and the base timestamp is the first record's."""
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
        return decode_batch(segment.file.pread(header.size_bytes, position), 0, header)
    except (CompressionError, CorruptRecordError) as error:
        raise KafkaError(ErrorCode.corrupt_message, str(error)) from error
