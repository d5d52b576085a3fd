"""Reading one log: slices by offset, offsets by time and by leader epoch, aborted transactions."""

from __future__ import annotations

from local_cluster.log.partition.log_state import LogState
from local_cluster.log.partition.timestamp_lookup import (
    TimestampedOffset,
    find_max_timestamp,
    find_timestamp,
)
from local_cluster.log.segment.segment import LogSlice
from local_cluster.log.segment.transaction_index import AbortedTransaction, collect_aborted
from local_cluster.log.state.epochs import EpochEnd
from local_cluster.wire.errors import ErrorCode, KafkaError


class LogReads(LogState):
    """Reads change nothing and go on where writes are refused."""

    def read(
        self, offset: int, *, bytes_max: int, offset_limit: int, at_least_one_batch: bool
    ) -> LogSlice:
        """Whole batches from the one that holds `offset` on, all below `offset_limit`.

        At most `bytes_max`, but with `at_least_one_batch` never less than one (KIP-74); from one
        segment only. Empty where nothing is there yet.
        Raises KafkaError(offset_out_of_range, kafka_storage_error).
        """
        end_offset = self.log_end_offset
        if not self.log_start_offset <= offset <= end_offset:
            raise KafkaError(
                ErrorCode.offset_out_of_range,
                f"{self}: offset {offset}, there are {self.log_start_offset} to {end_offset}",
            )
        limit = min(offset_limit, end_offset)
        if offset >= limit:
            return LogSlice(self._segments.active.file, 0, 0, offset)
        try:
            return self._segments.read(offset, bytes_max, limit, at_least_one_batch)
        except OSError as error:
            raise self._error("cannot be read", error) from error

    def offset_for_timestamp(self, timestamp_ms: int) -> TimestampedOffset | None:
        """The first record whose time is `timestamp_ms` or later, exactly; None if there is none.

        Opens a batch. Raises KafkaError(corrupt_message, kafka_storage_error).
        """
        try:
            return find_timestamp(self._segments.all, timestamp_ms, self.log_start_offset)
        except OSError as error:
            raise self._error("cannot be read", error) from error

    def max_timestamp(self) -> TimestampedOffset | None:
        """The record with the largest time; None if no record has one. Opens a batch."""
        try:
            return find_max_timestamp(self._segments.all)
        except OSError as error:
            raise self._error("cannot be read", error) from error

    def epoch_at(self, offset: int) -> int:
        """The leader epoch in which `offset` was written, -1 if that is unknown."""
        return self.leader_epochs.epoch_of(offset)

    def epoch_end_offset(self, epoch: int) -> EpochEnd:
        """Where the largest epoch <= `epoch` ended, (-1, -1) if that is unknown."""
        return self.leader_epochs.end_of(epoch, self.log_end_offset)

    def last_stable_offset(self, high_watermark: int) -> int:
        """What read_committed may see: the high watermark, or the first open transaction.

        Never less than the log start: what was deleted of a transaction holds nobody up.
        """
        unstable = self.producers.first_unstable_offset(high_watermark)
        if unstable is None:
            return high_watermark
        return min(high_watermark, max(unstable, self.log_start_offset))

    def aborted_transactions(self, offset: int, next_offset: int) -> list[AbortedTransaction]:
        """Aborted transactions that touch offsets from `offset` up to below `next_offset`, by
        first offset: what a read_committed reader must know to skip them."""
        return collect_aborted(self._segments.aborted_from(offset), offset, next_offset)
