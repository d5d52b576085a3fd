"""Appending as follower: the leader's batches as they are, with offsets, epochs and markers.

There is one exception: a marker that the leader's compaction emptied, while its transaction is
open here. The leader has nothing left of that transaction, but this replica was away and has some
of it. Nobody knows any more whether it committed or aborted.

This replica writes an abort marker instead, with the same offset, producer and epochs:

- What was aborted stays hidden.
- What was committed loses nothing: the leader has newer records or tombstones of its keys.
- It must be a marker. Read_committed consumers and loading coordinators do not take an empty one
  for an end; they would hide or hold back what the producer wrote after it.

Kafka leaves the transaction open until the producer's next marker.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from local_cluster.log.partition.log_state import LogState
from local_cluster.log.partition.log_writer import LogWriter
from local_cluster.log.segment.index import RELATIVE_OFFSET_MAX
from local_cluster.log.state.producer_state import NO_OFFSET
from local_cluster.records.batch import CorruptRecordError
from local_cluster.records.compress import CompressionError
from local_cluster.records.control import EndMarker, encode_marker, read_marker
from local_cluster.records.header import (
    CONTROL_BIT,
    LOG_OVERHEAD_BYTES,
    NO_TIMESTAMP,
    BatchHeader,
    read_header,
)
from local_cluster.wire.errors import ErrorCode, KafkaError


class FollowerAppender:
    """Appends what was fetched from the leader."""

    def __init__(self, state: LogState, writer: LogWriter) -> None:
        self._state = state
        self._writer = writer

    def append(
        self, buffer: bytearray | memoryview, headers: Sequence[BatchHeader], *, now_ms: int
    ) -> None:
        """Write the leader's batches; the only check is that offsets grow.

        They are written one by one where they exceed a segment or contain an emptied marker.
        Raises KafkaError: offset_out_of_range, corrupt_message (a control batch that cannot be
        read), kafka_storage_error. No batch is then written in part.
        """
        state = self._state
        if state.failure is not None or state.corruption is not None:
            raise state.refusal()
        next_offset = state.log_end_offset
        size_bytes = 0
        max_timestamp = NO_TIMESTAMP
        any_attributes = 0
        for header in headers:
            base_offset, length, _, _, _, attributes, delta, _, timestamp, _, _, _, _ = header
            if base_offset < next_offset:
                raise KafkaError(
                    ErrorCode.offset_out_of_range,
                    f"{state}: offset {base_offset} was fetched, expected {next_offset} or more",
                )
            next_offset = base_offset + delta + 1
            size_bytes += length + LOG_OVERHEAD_BYTES
            max_timestamp = max(max_timestamp, timestamp)
            any_attributes |= attributes
        span = next_offset - headers[0].base_offset
        is_too_much = size_bytes > state.config.segment_bytes or span > RELATIVE_OFFSET_MAX
        has_emptied = bool(any_attributes & CONTROL_BIT) and any(
            header.is_control and not header.records_count for header in headers
        )
        if (is_too_much or has_emptied) and len(headers) > 1:
            view, position = memoryview(buffer), 0
            for header in headers:
                end = position + header.size_bytes
                self.append(view[position:end], [header], now_ms=now_ms)
                position = end
            return
        if has_emptied:
            abort = self._abort_for(headers[0])
            if abort is not None:
                self.append(abort, [read_header(abort)], now_ms=now_ms)
                return
        markers = self._read_markers(buffer, headers) if any_attributes & CONTROL_BIT else {}
        self._writer.write(buffer, size_bytes, headers, next_offset - 1, max_timestamp, now_ms)
        self._writer.record_batches(headers, now_ms, markers)

    def _abort_for(self, emptied: BatchHeader) -> bytearray | None:
        """Return the abort marker to write for an emptied one; None if nothing is open here."""
        entry = self._state.producers.get(emptied.producer_id)
        if entry is None or entry.transaction_first_offset == NO_OFFSET:
            return None
        return encode_marker(
            EndMarker(is_commit=False, coordinator_epoch=entry.coordinator_epoch),
            producer_id=emptied.producer_id,
            producer_epoch=emptied.producer_epoch,
            timestamp_ms=NO_TIMESTAMP,
            base_offset=emptied.base_offset,
            leader_epoch=emptied.partition_leader_epoch,
        )

    def _read_markers(
        self, buffer: bytearray | memoryview, headers: Sequence[BatchHeader]
    ) -> Mapping[int, EndMarker]:
        position = 0
        markers: dict[int, EndMarker] = {}
        for header in headers:
            if header.is_control:
                try:
                    marker = read_marker(buffer, position, header)
                except (CorruptRecordError, CompressionError) as error:
                    raise KafkaError(
                        ErrorCode.corrupt_message, f"{self._state}: {error}"
                    ) from error
                if marker is not None:
                    markers[header.base_offset] = marker
            position += header.size_bytes
        return markers
