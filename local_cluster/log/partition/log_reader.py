"""Reading one log: slices by offset, offsets by time and by epoch, aborted transactions."""

from __future__ import annotations

from local_cluster.log.partition.log_state import LogState
from local_cluster.log.partition.timestamp_lookup import (
    TimestampedOffset,
    find_max_timestamp,
    find_timestamp,
    find_unread_time,
)
from local_cluster.log.segment.segment import LogSlice
from local_cluster.log.segment.transaction_index import AbortedTransaction, collect_aborted
from local_cluster.log.state.epochs import EpochEnd
from local_cluster.wire.errors import ErrorCode, KafkaError


class LogReader:
    """Reads change nothing and continue where writes are refused.

    Every read may block on the disk, or raise ColdReadError inside of `page_cache.warm_only`.
    """

    def __init__(self, state: LogState) -> None:
        self._state = state

    def read(
        self, offset: int, *, bytes_max: int, offset_limit: int, at_least_one_batch: bool
    ) -> LogSlice:
        """Return whole batches from the one that holds `offset`, all below `offset_limit`.

        The slice lies in one segment and has at most `bytes_max` bytes. `at_least_one_batch`
        returns one batch even where it is larger (KIP-74). The slice is empty at the limit.
        Raises KafkaError: offset_out_of_range, corrupt_message, kafka_storage_error.
        """
        state = self._state
        end_offset = state.log_end_offset
        if not state.log_start_offset <= offset <= end_offset:
            raise KafkaError(
                ErrorCode.offset_out_of_range,
                f"{state}: offset {offset} is not in {state.log_start_offset} to {end_offset}",
            )
        limit = min(offset_limit, end_offset)
        if offset >= limit:
            return LogSlice(state.segments.active.file.open(), 0, 0, offset)
        try:
            return state.segments.read(offset, bytes_max, limit, at_least_one_batch)
        except OSError as error:
            raise state.read_error(error) from error

    def offset_for_timestamp(self, timestamp_ms: int) -> TimestampedOffset | None:
        """Return the first record at `timestamp_ms` or later, exactly; None if there is none.

        Opens a batch. Raises KafkaError: corrupt_message, kafka_storage_error.
        """
        state = self._state
        try:
            return find_timestamp(state.segments.all, timestamp_ms, state.log_start_offset)
        except OSError as error:
            raise state.read_error(error) from error

    def max_timestamp(self) -> TimestampedOffset | None:
        """Return the record with the largest time; None if no record has one.

        Opens a batch. Raises KafkaError: corrupt_message, kafka_storage_error.
        """
        try:
            return find_max_timestamp(self._state.segments.all)
        except OSError as error:
            raise self._state.read_error(error) from error

    def unread_time(self, offset: int, limit: int) -> int | None:
        """Return the time in ms of the first record from `offset` on, below `limit`.

        None if there is none, -1 if its time is not known; see timestamp_lookup.py. Raises
        KafkaError(kafka_storage_error).
        """
        state = self._state
        start = max(offset, state.log_start_offset)
        if start >= limit:
            return None
        aborted = self.aborted_transactions(start, limit)
        try:
            return find_unread_time(state.segments.all, start, limit, aborted)
        except OSError as error:
            raise state.read_error(error) from error

    def epoch_end_offset(self, epoch: int) -> EpochEnd:
        """Return where the largest epoch <= `epoch` ended; (-1, -1) if that is unknown."""
        return self._state.leader_epochs.end_of(epoch, self._state.log_end_offset)

    def last_stable_offset(self, high_watermark: int) -> int:
        """Return the high watermark, or the start of the oldest transaction open below it.

        Never less than the log start offset: deleted records hold back no reader.
        """
        state = self._state
        unstable = state.producers.first_unstable_offset(high_watermark)
        if unstable is None:
            return high_watermark
        return min(high_watermark, max(unstable, state.log_start_offset))

    def aborted_transactions(self, offset: int, next_offset: int) -> list[AbortedTransaction]:
        """Return the aborted transactions with offsets from `offset` to below `next_offset`.

        Ordered by first offset. A read_committed reader needs them to skip aborted records.
        """
        indexes = self._state.segments.aborted_from(offset)
        return collect_aborted(indexes, offset, next_offset)
