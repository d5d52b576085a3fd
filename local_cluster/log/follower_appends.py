"""Appending as follower: the leader's batches as they are, offsets, epochs and markers included."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from local_cluster.records.batch import CorruptRecordError
from local_cluster.records.compress import CompressionError
from local_cluster.records.control import EndMarker, read_marker
from local_cluster.records.header import BatchHeader
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
        for header in headers:
            if header.base_offset < next_offset:
                raise KafkaError(
                    ErrorCode.offset_out_of_range,
                    f"{self}: offset {header.base_offset} was fetched, {next_offset} was due",
                )
            next_offset = header.next_offset
        size_bytes = sum(header.size_bytes for header in headers)
        span = next_offset - headers[0].base_offset if headers else 0
        is_too_much = size_bytes > self.config.segment_bytes or span > RELATIVE_OFFSET_MAX
        if is_too_much and len(headers) > 1:
            view, position = memoryview(buffer), 0
            for header in headers:
                end = position + header.size_bytes
                self.append_as_follower(view[position:end], [header], now_ms=now_ms)
                position = end
            return
        max_timestamp = max(header.max_timestamp for header in headers)
        markers = self._read_markers(buffer, headers)
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
