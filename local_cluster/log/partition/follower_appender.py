"""Appending as follower: the leader's batches as they are, offsets, epochs and markers included.

All but one: a marker that the leader's compaction has emptied, where the transaction is open here.
Nothing of that is left on the leader, yet this replica was away and has some of it. Which way it
ended nobody knows any more; it is ended here with an abort marker of the same offset, producer and
epochs. What was aborted stays hidden so; of what was committed the leader's compaction kept
nothing, for newer records or tombstones of its keys are there. It must be a marker: read_committed
consumers and the coordinators' loading would take an empty one for no end, and hide or keep back
what the producer wrote after it. Kafka leaves the transaction open, for its next marker to end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from local_cluster.log.partition.log_writer import LogWrites
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


class FollowerAppends(LogWrites):
    """Appends of what was fetched from the leader."""

    def append_as_follower(
        self, buffer: bytearray | memoryview, headers: Sequence[BatchHeader], *, now_ms: int
    ) -> None:
        """Write batches of the leader as they are; nothing is checked but that offsets grow.

        Where they are more than a segment takes, or a marker was emptied, they are written one by
        one. Raises
        KafkaError(offset_out_of_range, corrupt_message for a control batch that cannot be read,
        kafka_storage_error); no batch is there in part.
        """
        if self.failure is not None or self.corruption is not None:
            raise self._refusal()
        next_offset = self.log_end_offset
        size_bytes = 0
        max_timestamp = NO_TIMESTAMP
        any_attributes = 0
        for header in headers:
            base_offset, length, _, _, _, attributes, delta, _, timestamp, _, _, _, _ = header
            if base_offset < next_offset:
                raise KafkaError(
                    ErrorCode.offset_out_of_range,
                    f"{self}: offset {base_offset} was fetched, {next_offset} was due",
                )
            next_offset = base_offset + delta + 1
            size_bytes += length + LOG_OVERHEAD_BYTES
            max_timestamp = max(max_timestamp, timestamp)
            any_attributes |= attributes
        span = next_offset - headers[0].base_offset
        is_too_much = size_bytes > self.config.segment_bytes or span > RELATIVE_OFFSET_MAX
        has_emptied = bool(any_attributes & CONTROL_BIT) and any(
            header.is_control and not header.records_count for header in headers
        )
        if (is_too_much or has_emptied) and len(headers) > 1:
            view, position = memoryview(buffer), 0
            for header in headers:
                end = position + header.size_bytes
                self.append_as_follower(view[position:end], [header], now_ms=now_ms)
                position = end
            return
        if has_emptied:
            abort = self._abort_for(headers[0])
            if abort is not None:
                self.append_as_follower(abort, [read_header(abort)], now_ms=now_ms)
                return
        markers = self._read_markers(buffer, headers) if any_attributes & CONTROL_BIT else {}
        self._write(buffer, size_bytes, headers, next_offset - 1, max_timestamp, now_ms)
        self._take_over(headers, now_ms, markers)

    def _abort_for(self, emptied: BatchHeader) -> bytearray | None:
        """The abort marker to stand for an emptied one, None where that ends nothing here."""
        entry = self.producers.get(emptied.producer_id)
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
                    raise KafkaError(ErrorCode.corrupt_message, f"{self}: {error}") from error
                if marker is not None:
                    markers[header.base_offset] = marker
            position += header.size_bytes
        return markers
