"""Writing to the active segment of one log: rolling, and noting what the batches contain."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from local_cluster.log.partition.log_flusher import LogFlusher
from local_cluster.log.partition.log_state import LogState
from local_cluster.log.segment.index import RELATIVE_OFFSET_MAX
from local_cluster.log.state.snapshot_files import ProducerSnapshots, aborted_transaction
from local_cluster.records.control import EndMarker
from local_cluster.records.header import BatchHeader
from local_cluster.wire.errors import ErrorCode, KafkaError

_NO_MARKERS: Final[Mapping[int, EndMarker]] = MappingProxyType({})


class LogWriter:
    """One write call per append. After an error the log is unchanged."""

    def __init__(self, state: LogState, flusher: LogFlusher, snapshots: ProducerSnapshots) -> None:
        self._state = state
        self._flusher = flusher
        self._snapshots = snapshots

    def write(
        self,
        buffer: bytearray | memoryview,
        size_bytes: int,
        headers: Sequence[BatchHeader],
        last_offset: int,
        max_timestamp: int,
        now_ms: int,
    ) -> None:
        """Append whole batches with their final offsets; roll the active segment first if due.

        `size_bytes`, `last_offset` and `max_timestamp` describe the whole buffer.
        Raises KafkaError(kafka_storage_error).
        """
        state = self._state
        if state.disk.refusal is not None:
            raise KafkaError(ErrorCode.kafka_storage_error, f"{state}: {state.disk.refusal}")
        segment = state.segments.active
        if self._is_roll_due(segment.size_bytes, size_bytes, last_offset, max_timestamp, now_ms):
            # After compaction a follower's batch may lie further ahead than an index can express.
            self.roll(now_ms, max(headers[0].base_offset, state.log_end_offset))
            segment = state.segments.active
        try:
            segment.append(buffer, size_bytes, headers, last_offset, max_timestamp)
        except OSError as error:
            if segment.is_ragged:
                raise state.broken("cannot be truncated to its end", error) from error
            raise state.write_error("cannot be appended to", error) from error
        state.log_end_offset = state.producers.end_offset = last_offset + 1

    def _is_roll_due(
        self, held_bytes: int, size_bytes: int, last_offset: int, max_timestamp: int, now_ms: int
    ) -> bool:
        # Source: Kafka's LogSegment.shouldRoll.
        segment = self._state.segments.active
        if last_offset - segment.base_offset > RELATIVE_OFFSET_MAX:
            return True
        if not held_bytes:
            return False
        config = self._state.config
        return (
            held_bytes + size_bytes > config.segment_bytes
            or segment.waited_ms(now_ms, max_timestamp) > config.segment_ms - self._jitter_ms()
            or segment.indexes_are_full(config.segment_index_bytes)
        )

    def _jitter_ms(self) -> int:
        config = self._state.config
        if not config.segment_jitter_ms:
            return 0
        # Kafka draws a random number; this one is the same on every broker and after a restart.
        seed = zlib.crc32(f"{self._state}-{self._state.segments.active.base_offset}".encode())
        return seed % min(config.segment_jitter_ms, config.segment_ms)

    def roll(self, now_ms: int, base_offset: int | None = None) -> None:
        """Close the active segment and start a new one at the log end offset.

        `base_offset` starts it further ahead. Nothing happens where the active segment is empty
        and already starts there. Raises KafkaError(kafka_storage_error); the old segment is then
        still active.
        """
        state = self._state
        base_offset = state.log_end_offset if base_offset is None else base_offset
        if state.segments.active.base_offset == base_offset:
            return
        try:
            self._flusher.add(self._snapshots.write(state.producers))
            self._flusher.add(*state.segments.roll(base_offset, now_ms))
        except OSError as error:
            raise state.write_error("cannot roll", error) from error

    def record_batches(
        self,
        headers: Sequence[BatchHeader],
        now_ms: int,
        markers: Mapping[int, EndMarker] = _NO_MARKERS,
    ) -> None:
        """Note the epochs, producers and transactions of batches that were written.

        `markers` holds the transaction markers among them, by offset.
        """
        state = self._state
        for header in headers:
            if header.partition_leader_epoch != state.leader_epochs.latest:
                self.assign_epoch(header.partition_leader_epoch, header.base_offset)
            if header.producer_id >= 0:
                ended = state.producers.record(
                    header,
                    header.base_offset,
                    header.max_timestamp,
                    now_ms,
                    markers.get(header.base_offset),
                )
                if ended is not None and ended.is_aborted:
                    entry = aborted_transaction(ended, state.producers)
                    state.segments.active.transactions.entries.append(entry)

    def assign_epoch(self, epoch: int, start_offset: int) -> None:
        """Note the first offset of a leader epoch."""
        if self._state.leader_epochs.assign(epoch, start_offset):
            self._state.epochs_unwritten = True
