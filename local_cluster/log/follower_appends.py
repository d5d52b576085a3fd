"""Appending as follower: the leader's batches as they are, offsets, epochs and markers included."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from local_cluster.records.batch import CorruptRecordError
from local_cluster.records.compress import CompressionError
from local_cluster.records.control import EndMarker, read_marker
from local_cluster.records.header import (
    CONTROL_BIT,
    LOG_OVERHEAD_BYTES,
    NO_TIMESTAMP,
    BatchHeader,
)
from local_cluster.wire.errors import ErrorCode, KafkaError

from .index import RELATIVE_OFFSET_MAX
from .log_writes import LogWrites


class FollowerAppends(LogWrites):
    """Appends of what was fetched from the leader."""

    def append_as_follower(
        self, buffer: bytearray | memoryview, headers: Sequence[BatchHeader], *, now_ms: int
    ) -> None:
        """Write batches of the leader as they are; nothing is checked but that offsets grow.

        Where they are more than a segment takes they are written one by one. Raises
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
        if is_too_much and len(headers) > 1:
            view, position = memoryview(buffer), 0
            for header in headers:
                end = position + header.size_bytes
                self.append_as_follower(view[position:end], [header], now_ms=now_ms)
                position = end
            return
        markers = self._read_markers(buffer, headers) if any_attributes & CONTROL_BIT else {}
        self._write(buffer, size_bytes, headers, next_offset - 1, max_timestamp, now_ms)
        self._take_over(headers, now_ms, markers)

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
