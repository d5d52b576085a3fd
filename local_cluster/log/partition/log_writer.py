"""Writing to the active segment: rolling, and what every batch that was written leaves behind."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from local_cluster.log.partition.log_state import LogState
from local_cluster.log.segment.index import RELATIVE_OFFSET_MAX
from local_cluster.log.state.snapshot_files import aborted_transaction
from local_cluster.records.control import EndMarker
from local_cluster.records.header import BatchHeader
from local_cluster.wire.errors import ErrorCode, KafkaError

_NO_MARKERS: Final[Mapping[int, EndMarker]] = MappingProxyType({})


class LogWrites(LogState):
    """One write call per append; after an error the log is as it was."""

    def _write(
        self,
        buffer: bytearray | memoryview,
        size_bytes: int,
        headers: Sequence[BatchHeader],
        last_offset: int,
        max_timestamp: int,
        now_ms: int,
    ) -> None:
        if self._disk.refusal is not None:
            raise KafkaError(ErrorCode.kafka_storage_error, f"{self}: {self._disk.refusal}")
        segment = self._segments.active
        if self._is_due(segment.size_bytes, size_bytes, last_offset, max_timestamp, now_ms):
            # A follower's batch may lie further ahead than an index can say (compaction).
            self.roll(now_ms, max(headers[0].base_offset, self.log_end_offset))
            segment = self._segments.active
        try:
            segment.append(buffer, size_bytes, headers, last_offset, max_timestamp)
        except OSError as error:
            if segment.is_ragged:
                raise self._broken("cannot be cut back", error) from error
            raise self._write_error("cannot be appended to", error) from error
        self.log_end_offset = self.producers.end_offset = last_offset + 1

    def _is_due(
        self, held_bytes: int, size_bytes: int, last_offset: int, max_timestamp: int, now_ms: int
    ) -> bool:
        """Whether the active segment must be closed before an append, as LogSegment.shouldRoll."""
        segment = self._segments.active
        if last_offset - segment.base_offset > RELATIVE_OFFSET_MAX:
            return True
        if not held_bytes:
            return False
        config = self.config
        return (
            held_bytes + size_bytes > config.segment_bytes
            or segment.waited_ms(now_ms, max_timestamp) > config.segment_ms - self._jitter_ms()
            or segment.indexes_are_full(config.segment_index_bytes)
        )

    def _jitter_ms(self) -> int:
        jitter_ms = self.config.segment_jitter_ms
        if not jitter_ms:
            return 0
        # The same on every broker and after every restart, where Kafka rolls dice.
        seed = zlib.crc32(f"{self}-{self._segments.active.base_offset}".encode())
        return seed % min(jitter_ms, self.config.segment_ms)

    def roll(self, now_ms: int, base_offset: int | None = None) -> None:
        """Close the active segment and begin a new one, at the log end offset or at `base_offset`
        beyond it.

        Nothing to do where the active one is empty and begins there already.
        Raises KafkaError(kafka_storage_error) with the old segment still in use.
        """
        base_offset = self.log_end_offset if base_offset is None else base_offset
        if self._segments.active.base_offset == base_offset:
            return
        try:
            self._flushing.add(self._snapshots.write(self.producers))
            self._flushing.add(*self._segments.roll(base_offset, now_ms))
        except OSError as error:
            raise self._write_error("cannot roll", error) from error

    def _take_over(
        self,
        headers: Sequence[BatchHeader],
        now_ms: int,
        markers: Mapping[int, EndMarker] = _NO_MARKERS,
    ) -> None:
        """Note the epochs, producers and transactions of batches that were written; `markers` are
        the transaction markers among them, by offset."""
        for header in headers:
            if header.partition_leader_epoch != self._latest_epoch:
                self._assign_epoch(header.partition_leader_epoch, header.base_offset)
            if header.producer_id >= 0:
                ended = self.producers.record(
                    header,
                    header.base_offset,
                    header.max_timestamp,
                    now_ms,
                    markers.get(header.base_offset),
                )
                if ended is not None and ended.is_aborted:
                    entry = aborted_transaction(ended, self.producers)
                    self._segments.active.aborted.append(entry)

    def _assign_epoch(self, epoch: int, start_offset: int) -> None:
        if self.leader_epochs.assign(epoch, start_offset):
            self._latest_epoch = epoch
            self._epochs_unwritten = True
