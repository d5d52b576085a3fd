"""One partition's log on one broker: append, read, flush, roll, truncate, delete.

Guarantees (README.md names the test of each):
- an append is visible whole or not at all; an I/O error leaves the log as it was
- no append opens a record; one write call per append
- a repetition of one of a producer's last 5 batches answers the original offsets
- `flushed_end_offset` moves only over bytes that an fsync covered; a failed one ends the log
- slices stay readable after their segment is deleted
- a corrupt log is never shortened; it refuses appends until someone truncates it on purpose
- aborted transactions are indexed: rebuilt after a crash, cut with a truncation

Not here: high watermark and replication (told from outside), what compaction writes (only the
swap), who may open a transaction (the produce handler asks the coordinator). Sync, one thread;
only tickets run elsewhere.
"""

from __future__ import annotations

import logging
import struct
import zlib
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple
from uuid import UUID

from local_cluster.records.batch import CorruptRecordError
from local_cluster.records.compress import CompressionError
from local_cluster.records.control import EndMarker, encode_marker, read_marker
from local_cluster.records.header import (
    LOG_OVERHEAD_BYTES,
    TIMESTAMP_TYPE_BIT,
    BatchHeader,
    patch_attributes,
    patch_crc,
    patch_max_timestamp,
    read_header,
)
from local_cluster.wire.errors import ErrorCode, KafkaError

from . import lookup, recovery
from .checkpoints import (
    LEADER_EPOCHS,
    PARTITION_METADATA,
    encode_epochs,
    encode_partition_metadata,
)
from .config import LogConfig
from .epochs import EpochEnd
from .files import Files
from .flushing import FlushState
from .index import RELATIVE_OFFSET_MAX
from .producer_state import ProducerEntry, ProducerState, SequencedBatch
from .retention import decide_expired
from .segment import DELETED_SUFFIX, LOG_SUFFIX, LogSlice, Segment
from .segments import Segments
from .snapshots import ProducerSnapshots, aborted_transaction
from .tickets import Deletion, FlushTicket
from .transaction_index import AbortedTransaction, collect_aborted

__all__ = ["AppendResult", "FlushTicket", "LogSlice", "PartitionLog"]

_log = logging.getLogger(__name__)

NO_TIMESTAMP: Final = -1

_NO_MARKERS: Final[Mapping[int, EndMarker]] = MappingProxyType({})

_BASE_OFFSET_TO_EPOCH: Final = struct.Struct(">qii")
"""base_offset, batch_length and leader epoch lie side by side: one call patches them."""


class AppendResult(NamedTuple):
    """What Produce answers. `log_append_time_ms` is -1 for CreateTime topics."""

    base_offset: int
    last_offset: int
    log_append_time_ms: int
    log_start_offset: int
    is_duplicate: bool


class PartitionLog:
    """The log of one replica. Make one with `PartitionLog.open` or `PartitionLog.create`."""

    def __init__(
        self,
        files: Files,
        directory: str,
        topic: str,
        partition: int,
        config: LogConfig,
        *,
        topic_id: UUID | None,
        opened: recovery.OpenedFiles,
        snapshots: ProducerSnapshots,
        producers: ProducerState,
        log_start_offset: int,
        flushed_end_offset: int,
    ) -> None:
        self._files = files
        self.topic = topic
        self.partition = partition
        self.topic_id = topic_id
        self.config = config
        self.leader_epochs = opened.epochs
        self.producers = producers
        self.log_start_offset = log_start_offset
        self.log_end_offset = opened.segments[-1].next_offset
        self.corruption = opened.corruption
        """Why the log may not lead nor be written, None if it is whole."""
        self.recovered_cut_bytes = opened.cut_bytes
        self.failure: str | None = None
        """Why the log is finished until a restart, None while it is not."""
        self._segments = Segments(files, directory, opened.segments, opened.hidden)
        self._snapshots = snapshots
        self._flushing = FlushState(files, flushed_end_offset, opened.unsynced)
        self._latest_epoch = opened.epochs.latest
        self._epochs_unwritten = opened.epochs_changed

    # Opening and closing

    @staticmethod
    def open(
        files: Files,
        directory: str,
        topic: str,
        partition: int,
        config: LogConfig,
        *,
        now_ms: int,
        topic_id: UUID | None = None,
        recovery_point: int = 0,
        durable_offset: int = 0,
        log_start_offset: int = 0,
        is_clean: bool = False,
    ) -> PartitionLog:
        """Open a partition directory that exists. See `recovery.open_files` for the offsets.

        Raises KafkaError(kafka_storage_error) where the disk fails.
        """
        try:
            opened = recovery.open_files(
                files,
                directory,
                index_interval_bytes=config.index_interval_bytes,
                recovery_point=recovery_point,
                durable_offset=durable_offset,
                log_start_offset=log_start_offset,
                is_clean=is_clean,
                now_ms=now_ms,
            )
            end_offset = opened.segments[-1].next_offset
            snapshots = ProducerSnapshots(files, directory, opened.snapshots)
            rebuilt = [item for item in opened.segments if item.needs_transactions]
            producers = snapshots.load(opened.segments, end_offset, now_ms)
            for segment in rebuilt:
                segment.needs_transactions = False
                opened.unsynced += segment.write_transactions()
        except (CorruptRecordError, CompressionError) as error:
            # Below the recovery point nothing was checked. Without the marker nobody knows which
            # transaction ended, so the log must not lead.
            opened.corruption = opened.corruption or f"unreadable control batch: {error}"
            producers = ProducerState(end_offset)
        except OSError as error:
            raise _storage_error(f"{topic}-{partition} cannot be opened", error) from error
        log_start_offset = min(max(log_start_offset, opened.segments[0].base_offset), end_offset)
        if opened.epochs.truncate_start(log_start_offset):
            opened.epochs_changed = True
        return PartitionLog(
            files,
            directory,
            topic,
            partition,
            config,
            topic_id=topic_id,
            opened=opened,
            snapshots=snapshots,
            producers=producers,
            log_start_offset=log_start_offset,
            flushed_end_offset=end_offset if is_clean else min(recovery_point, end_offset),
        )

    @staticmethod
    def create(
        files: Files,
        directory: str,
        topic: str,
        partition: int,
        config: LogConfig,
        *,
        now_ms: int,
        topic_id: UUID,
    ) -> PartitionLog:
        """Make the directory of a new partition, with its partition.metadata.

        The disk is waited for by the first flush, before anything is acknowledged.
        Raises KafkaError(kafka_storage_error).
        """
        metadata_path = f"{directory}/{PARTITION_METADATA}"
        try:
            files.make_dir(directory)
            files.replace(metadata_path, encode_partition_metadata(topic_id), durable=False)
        except OSError as error:
            raise _storage_error(f"{topic}-{partition} cannot be created", error) from error
        log = PartitionLog.open(
            files, directory, topic, partition, config, now_ms=now_ms, topic_id=topic_id
        )
        log._flushing.add(metadata_path, directory, directory.rpartition("/")[0])
        return log

    def close(self) -> None:
        """Make everything durable for a clean restart. Blocks.

        A log that failed or is corrupt stays as it is. Raises KafkaError(kafka_storage_error).
        """
        if self.corruption is not None or self.failure is not None:
            return
        try:
            self._flushing.add(*self._segments.active.finish())
            self._flushing.add(self._snapshots.write(self.producers), self.directory)
        except OSError as error:
            raise self._error("cannot be closed", error) from error
        ticket = self._make_ticket()
        ticket.run()
        self._flushing.complete(ticket)

    # Appending

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
        if size_bytes > self.config.segment_bytes and len(headers) > 1:
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

    def _write(
        self,
        buffer: bytearray | memoryview,
        size_bytes: int,
        headers: Sequence[BatchHeader],
        last_offset: int,
        max_timestamp: int,
        now_ms: int,
    ) -> None:
        segment = self._segments.active
        if self._is_due(segment.size_bytes, size_bytes, last_offset, max_timestamp, now_ms):
            self.roll(now_ms)
            segment = self._segments.active
        try:
            segment.append(buffer, size_bytes, headers, last_offset, max_timestamp)
        except OSError as error:
            if segment.is_ragged:
                raise self._broken("cannot be cut back", error) from error
            raise self._error("cannot be appended to", error) from error
        self.log_end_offset = self.producers.end_offset = last_offset + 1

    def _is_due(
        self, held_bytes: int, size_bytes: int, last_offset: int, max_timestamp: int, now_ms: int
    ) -> bool:
        """Whether the active segment must be closed before an append, as LogSegment.shouldRoll."""
        if not held_bytes:
            return False
        config = self.config
        segment = self._segments.active
        return (
            held_bytes + size_bytes > config.segment_bytes
            or last_offset - segment.base_offset > RELATIVE_OFFSET_MAX
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

    def roll(self, now_ms: int) -> None:
        """Close the active segment and begin a new one at the log end offset.

        Raises KafkaError(kafka_storage_error) with the old segment still in use.
        """
        try:
            self._flushing.add(self._snapshots.write(self.producers))
            self._flushing.add(*self._segments.roll(self.log_end_offset, now_ms))
        except OSError as error:
            raise self._error("cannot roll", error) from error

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

    def _assign_epoch(self, epoch: int, start_offset: int) -> None:
        if self.leader_epochs.assign(epoch, start_offset):
            self._latest_epoch = epoch
            self._epochs_unwritten = True

    def _duplicate(self, original: SequencedBatch) -> AppendResult:
        return AppendResult(
            original.base_offset,
            original.last_offset,
            original.timestamp_ms if self.config.log_append_time else NO_TIMESTAMP,
            self.log_start_offset,
            True,
        )

    # Reading

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

    def offset_for_timestamp(self, timestamp_ms: int) -> lookup.TimestampedOffset | None:
        """The first record whose time is `timestamp_ms` or later, exactly; None if there is none.

        Opens a batch. Raises KafkaError(corrupt_message, kafka_storage_error).
        """
        try:
            return lookup.find_timestamp(self._segments.all, timestamp_ms, self.log_start_offset)
        except OSError as error:
            raise self._error("cannot be read", error) from error

    def max_timestamp(self) -> lookup.TimestampedOffset | None:
        """The record with the largest time; None if no record has one. Opens a batch."""
        try:
            return lookup.find_max_timestamp(self._segments.all)
        except OSError as error:
            raise self._error("cannot be read", error) from error

    def epoch_at(self, offset: int) -> int:
        """The leader epoch in which `offset` was written, -1 if that is unknown."""
        return self.leader_epochs.epoch_of(offset)

    def epoch_end_offset(self, epoch: int) -> EpochEnd:
        """Where the largest epoch <= `epoch` ended, (-1, -1) if that is unknown."""
        return self.leader_epochs.end_of(epoch, self.log_end_offset)

    def last_stable_offset(self, high_watermark: int) -> int:
        """What read_committed may see: the high watermark, or the first open transaction."""
        unstable = self.producers.first_unstable_offset(high_watermark)
        return high_watermark if unstable is None else min(high_watermark, unstable)

    def aborted_transactions(self, offset: int, next_offset: int) -> list[AbortedTransaction]:
        """Aborted transactions that touch offsets from `offset` up to below `next_offset`, by
        first offset: what a read_committed reader must know to skip them."""
        return collect_aborted(self._segments.aborted_from(offset), offset, next_offset)

    @property
    def directory(self) -> str:
        return self._segments.directory

    @property
    def size_bytes(self) -> int:
        return self._segments.size_bytes

    @property
    def segment_base_offsets(self) -> Sequence[int]:
        return self._segments.base_offsets

    @property
    def segments(self) -> Sequence[Segment]:
        """Oldest first, the active one last; to be looked at."""
        return self._segments.all

    @property
    def active_path(self) -> str:
        """The file that is appended to; for people and tests."""
        return self._segments.active.path(LOG_SUFFIX)

    # Flushing

    @property
    def flushed_end_offset(self) -> int:
        """Offsets below are on the disk: what a replica reports in fsync mode."""
        return self._flushing.flushed_end_offset

    def begin_flush(self) -> FlushTicket | None:
        """What a worker must flush for everything appended so far.

        None if there is nothing, if the log is finished (failed, deleted), or if the disk is too
        full to note the leader epoch: then nothing new counts as flushed, and the next call tries
        again. Several tickets may be out.
        """
        if self.failure is not None or self.corruption is not None:
            return None
        if self.flushed_end_offset >= self.log_end_offset:
            return None
        try:
            return self._make_ticket()
        except KafkaError as error:
            _log.warning("%s", error)
            return None

    def complete_flush(self, ticket: FlushTicket) -> None:
        """Take over what a ticket flushed; ignored if the log was truncated meanwhile."""
        self._flushing.complete(ticket)

    def _make_ticket(self) -> FlushTicket:
        active = self._segments.active
        # Readers that follow the flushed end come by exactly this boundary.
        active.remember(self.log_end_offset, active.size_bytes)
        try:
            if self._epochs_unwritten:
                path = f"{self.directory}/{LEADER_EPOCHS}"
                content = encode_epochs(self.leader_epochs.entries)
                self._files.replace(path, content, durable=False)
                self._flushing.add(path, self.directory)
                self._epochs_unwritten = False
            return self._flushing.make_ticket(self.log_end_offset, active.file, self.fail)
        except OSError as error:
            raise self._error("cannot be flushed", error) from error

    def fail(self, reason: str) -> None:
        """End this log until a restart: an fsync failed here or on another log of the disk."""
        self.failure = self.failure or reason

    # Retention, truncation, deletion

    def apply_retention(self, now_ms: int, high_watermark: int) -> Deletion:
        """Take out the segments that have had their time; the caller runs the deletion.

        Forgets idle producers as well. Raises KafkaError(kafka_storage_error).
        """
        if self.failure is not None or self.corruption is not None:
            return Deletion(port=self._files)
        self.producers.expire(now_ms, self.config.producer_id_expiration_ms)
        count = decide_expired(
            self._segments.all,
            self.config,
            now_ms=now_ms,
            high_watermark=high_watermark,
            log_start_offset=self.log_start_offset,
        )
        if not count:
            return Deletion(port=self._files)
        if count == len(self._segments.all):
            self.roll(now_ms)
        try:
            deletion = self._segments.drop_oldest(count)
        except OSError as error:
            raise self._broken("cannot be shortened", error) from error
        self._flushing.forget(path.removesuffix(DELETED_SUFFIX) for path in deletion.paths)
        first = self._segments.all[0].base_offset
        self.advance_log_start(first)
        self._snapshots.drop_older(first)
        return deletion

    def swap_compacted(self, replaced: Sequence[Segment]) -> Deletion | None:
        """Take over the `.cleaned` segment written for some of the closed segments.

        None, and nothing done, where these are no longer a run of this log: retention or a
        truncation came first. Raises KafkaError(kafka_storage_error).
        """
        segments = self._segments.all
        bases = self._segments.base_offsets
        first = replaced[0].base_offset
        index = bases.index(first) if first in bases else 0
        if (
            self.failure is not None
            or self.corruption is not None
            or list(segments[index : index + len(replaced)]) != list(replaced)
            or index + len(replaced) >= len(segments)
        ):
            return None
        try:
            deletion = self._segments.swap_compacted(replaced)
        except OSError as error:
            raise self._broken("cannot take over a compacted segment", error) from error
        self._flushing.add(self.directory)
        self._snapshots.drop_at(segment.base_offset for segment in replaced[1:])
        return deletion

    @property
    def truncations(self) -> int:
        """How often the log was cut back since it was opened: positions from before are void."""
        return self._flushing.truncations

    def advance_log_start(self, offset: int) -> None:
        """Move the log start offset up (DeleteRecords, or a follower after its leader).

        Raises KafkaError(offset_out_of_range).
        """
        if offset > self.log_end_offset:
            raise KafkaError(ErrorCode.offset_out_of_range, f"{self}: start offset {offset}")
        if offset > self.log_start_offset:
            self.log_start_offset = offset
            if self.leader_epochs.truncate_start(offset):
                self._epochs_unwritten = True

    def truncate_to(self, offset: int, now_ms: int) -> Deletion:
        """Cut off every batch that reaches to `offset` or beyond.

        On a corrupt log this is the way back: what is left is whole, and replication fetches the
        rest again. The caller checkpoints the directory before the next append, as Kafka does:
        a recovery point beyond the end would make a later crash look like lost records.
        Raises KafkaError(kafka_storage_error).
        """
        if self.failure is not None:
            raise self._refusal()
        if offset >= self.log_end_offset and self.corruption is None:
            return Deletion(port=self._files)
        if offset < self._segments.all[0].base_offset:
            return self.truncate_fully(offset, now_ms)
        try:
            deletion = self._segments.cut(offset)
            self._set_end(self._segments.active.next_offset, now_ms)
        except OSError as error:
            raise self._broken("cannot be truncated", error) from error
        return deletion

    def truncate_fully(self, offset: int, now_ms: int) -> Deletion:
        """Throw everything away and begin again at `offset` (a follower far behind its leader).

        Raises KafkaError(kafka_storage_error).
        """
        if self.failure is not None:
            raise self._refusal()
        try:
            deletion = self._segments.replace_all(offset, now_ms)
            self.log_start_offset = offset
            self.leader_epochs.clear()
            self._epochs_unwritten = True
            self._set_end(offset, now_ms)
        except OSError as error:
            raise self._broken("cannot be truncated", error) from error
        return deletion

    def _set_end(self, end_offset: int, now_ms: int) -> None:
        self.log_end_offset = end_offset
        self.log_start_offset = min(self.log_start_offset, end_offset)
        self.corruption = None
        self._flushing.truncate(end_offset)
        self._flushing.add(self.directory)
        if self.leader_epochs.truncate_end(end_offset):
            self._epochs_unwritten = True
        self._latest_epoch = self.leader_epochs.latest
        self._snapshots.drop_newer(end_offset)
        self.producers = self._snapshots.load(self._segments.all, end_offset, now_ms)

    def update_config(self, config: LogConfig) -> None:
        """Go by a new config from now on."""
        self.config = config
        self._segments.set_index_interval(config.index_interval_bytes)

    def delete(self, new_directory: str) -> Deletion:
        """Rename the directory out of the way; slices in use stay readable, the log is finished.

        Raises KafkaError(kafka_storage_error).
        """
        try:
            deletion = self._segments.move_to(new_directory)
        except OSError as error:
            raise self._error("cannot be deleted", error) from error
        self.fail("the partition was deleted")
        return deletion

    # Errors

    def _refusal(self) -> KafkaError:
        reason = self.failure or f"corrupt: {self.corruption}"
        return KafkaError(ErrorCode.kafka_storage_error, f"{self}: {reason}")

    def _error(self, what: str, error: OSError) -> KafkaError:
        return _storage_error(f"{self} {what}", error)

    def _broken(self, what: str, error: OSError) -> KafkaError:
        """Memory and disk may differ, so that nothing may be appended before a restart."""
        self.fail(f"{what}: {error}")
        return self._error(what, error)

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def _storage_error(what: str, error: OSError) -> KafkaError:
    return KafkaError(ErrorCode.kafka_storage_error, f"{what}: {error}")
