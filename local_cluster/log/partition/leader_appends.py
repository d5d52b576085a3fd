"""Appending as leader: offsets, epochs and times are given here, sequences are checked here."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

from local_cluster.log.partition.log_writes import LogWrites
from local_cluster.log.state.producer_state import ProducerEntry, SequencedBatch
from local_cluster.records.control import EndMarker, encode_marker
from local_cluster.records.header import (
    LOG_OVERHEAD_BYTES,
    NO_TIMESTAMP,
    TIMESTAMP_TYPE_BIT,
    BatchHeader,
    patch_attributes,
    patch_crc,
    patch_max_timestamp,
    read_header,
)
from local_cluster.wire.errors import ErrorCode, KafkaError

_BASE_OFFSET_TO_EPOCH: Final = struct.Struct(">qii")
"""base_offset, batch_length and leader epoch lie side by side: one call patches them."""


class AppendResult(NamedTuple):
    """What Produce answers. `log_append_time_ms` is -1 for CreateTime topics."""

    base_offset: int
    last_offset: int
    log_append_time_ms: int
    log_start_offset: int
    is_duplicate: bool


class LeaderAppends(LogWrites):
    """Appends of producers and transaction coordinators."""

    def append_as_leader(
        self,
        buffer: bytearray | memoryview,
        headers: Sequence[BatchHeader],
        *,
        leader_epoch: int,
        now_ms: int,
    ) -> AppendResult:
        """Give the batches offsets and write them. `buffer` is patched in place; it holds exactly
        the batches of `headers`, checked before (`log.validate.check_produced`).

        Raises KafkaError: out_of_order_sequence_number, invalid_producer_epoch,
        duplicate_sequence_number (a repetition among several batches), record_list_too_large,
        kafka_storage_error. The log is then as it was.
        """
        if self.failure is not None or self.corruption is not None:
            raise self._refusal()
        if len(buffer) > self.config.segment_bytes:
            raise KafkaError(
                ErrorCode.record_list_too_large,
                f"{self}: {len(buffer)} bytes, segments have {self.config.segment_bytes}",
            )
        if len(headers) > 1 or self.config.log_append_time:
            return self._append_general(buffer, headers, leader_epoch, now_ms)
        header = headers[0]
        (_, batch_length, _, _, _, _, delta, _, max_timestamp, producer_id, _, _, _) = header
        if producer_id >= 0:
            original = self.producers.check(header)
            if original is not None:
                return self._duplicate(original)
        base_offset = self.log_end_offset
        last_offset = base_offset + delta
        _BASE_OFFSET_TO_EPOCH.pack_into(buffer, 0, base_offset, batch_length, leader_epoch)
        self._write(
            buffer, batch_length + LOG_OVERHEAD_BYTES, headers, last_offset, max_timestamp, now_ms
        )
        if leader_epoch != self._latest_epoch:
            self._assign_epoch(leader_epoch, base_offset)
        if producer_id >= 0:
            self.producers.record(header, base_offset, max_timestamp, now_ms)
        return AppendResult(base_offset, last_offset, NO_TIMESTAMP, self.log_start_offset, False)

    def _append_general(
        self,
        buffer: bytearray | memoryview,
        headers: Sequence[BatchHeader],
        leader_epoch: int,
        now_ms: int,
    ) -> AppendResult:
        """Several batches at once, or batches whose time is set by the broker."""
        stamps = self.config.log_append_time
        base_offset = next_offset = self.log_end_offset
        staged: dict[int, ProducerEntry] = {}
        final: list[BatchHeader] = []
        for header in headers:
            placed = header._replace(
                base_offset=next_offset,
                partition_leader_epoch=leader_epoch,
                max_timestamp=now_ms if stamps else header.max_timestamp,
            )
            if header.producer_id >= 0:
                if len(headers) == 1:
                    original = self.producers.check(header)
                    if original is not None:
                        return self._duplicate(original)
                else:
                    self.producers.stage(placed, staged)
            final.append(placed)
            next_offset = placed.next_offset
        position = 0
        for header in final:
            _BASE_OFFSET_TO_EPOCH.pack_into(
                buffer, position, header.base_offset, header.batch_length, leader_epoch
            )
            if stamps:
                patch_attributes(buffer, position, header.attributes | TIMESTAMP_TYPE_BIT)
                patch_max_timestamp(buffer, position, now_ms)
                patch_crc(buffer, position)
            position += header.size_bytes
        max_timestamp = max(header.max_timestamp for header in final)
        self._write(buffer, position, final, next_offset - 1, max_timestamp, now_ms)
        self._take_over(final, now_ms)
        return AppendResult(
            base_offset,
            next_offset - 1,
            now_ms if stamps else NO_TIMESTAMP,
            self.log_start_offset,
            False,
        )

    def append_marker(
        self,
        marker: EndMarker,
        *,
        producer_id: int,
        producer_epoch: int,
        leader_epoch: int,
        now_ms: int,
    ) -> AppendResult:
        """End the producer's transaction here with a control batch, as leader.

        A marker without an open transaction is written too: it fences older epochs.
        Raises KafkaError: invalid_producer_epoch, transaction_coordinator_fenced,
        kafka_storage_error. The log is then as it was.
        """
        if self.failure is not None or self.corruption is not None:
            raise self._refusal()
        self.producers.check_marker(producer_id, producer_epoch, marker)
        buffer = encode_marker(
            marker, producer_id=producer_id, producer_epoch=producer_epoch, timestamp_ms=now_ms
        )
        offset = self.log_end_offset
        header = read_header(buffer)._replace(
            base_offset=offset, partition_leader_epoch=leader_epoch
        )
        _BASE_OFFSET_TO_EPOCH.pack_into(buffer, 0, offset, header.batch_length, leader_epoch)
        self._write(buffer, len(buffer), [header], offset, now_ms, now_ms)
        self._take_over([header], now_ms, {offset: marker})
        return AppendResult(offset, offset, NO_TIMESTAMP, self.log_start_offset, False)

    def _duplicate(self, original: SequencedBatch) -> AppendResult:
        return AppendResult(
            original.base_offset,
            original.last_offset,
            original.timestamp_ms if self.config.log_append_time else NO_TIMESTAMP,
            self.log_start_offset,
            True,
        )
