"""A partition's log with Kafka's rules for idempotent producers."""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections import deque
from dataclasses import dataclass, field
from random import Random

from local_cluster.records.batch import decode_batch
from local_cluster.records.header import (
    CODEC_MASK,
    BatchHeader,
    crc_is_valid,
    patch_base_offset,
    patch_leader_epoch,
    read_header,
)
from local_cluster.wire.errors import ErrorCode, KafkaError

BATCHES_REMEMBERED = 5
SEQUENCE_MASK = 0x7FFFFFFF


@dataclass
class ProducerState:
    """What a partition knows of one producer id."""

    epoch: int
    batches: deque[tuple[int, int, int]] = field(
        default_factory=lambda: deque(maxlen=BATCHES_REMEMBERED)
    )
    """(first sequence, last sequence, base offset)"""
    last_timestamp_ms: int = -1


class SimPartition:
    """One log. Offsets below `high_watermark` are committed and readable."""

    def __init__(self) -> None:
        self.batches: list[tuple[BatchHeader, bytes]] = []
        self.log_start_offset = 0
        self.log_end_offset = 0
        self.high_watermark = 0
        self.aborted: list[tuple[int, int, int]] = []
        """(producer id, first offset, last offset)"""
        self.producers: dict[int, ProducerState] = {}
        self.committed = asyncio.Event()
        self.leader_epoch = 0
        self.epoch_starts: dict[int, int] = {}
        """Leader epoch -> its first offset, also if its records are gone."""
        self.open_from: int | None = None
        """Where an open transaction begins; readers of committed records stop there."""
        self.lags = False
        """Whether its leader does not know yet what its predecessor committed (KIP-207)."""

    def append(self, batch: bytes | bytearray | memoryview) -> tuple[int, bool]:
        """Append a batch; return (base offset, is it a repetition). Raises KafkaError."""
        header = read_header(batch)
        if not crc_is_valid(batch, 0, header):
            raise KafkaError(ErrorCode.corrupt_message, "crc")
        if header.records_count != header.last_offset_delta + 1 or header.base_offset != 0:
            raise KafkaError(ErrorCode.invalid_record, "offsets of records are not continuous")
        if header.attributes & ~CODEC_MASK:
            raise KafkaError(ErrorCode.invalid_record, "attributes beyond the codec")
        if header.has_artificial_base_timestamp:
            # As a broker that does not open the batch; Kafka always opens it.
            raise KafkaError(ErrorCode.invalid_timestamp, "the base timestamp is no record's")
        if header.producer_id >= 0:
            known = self._check_sequence(header)
            if known is not None:
                return known, True
        return self.place(batch, self.log_end_offset), False

    def place(self, batch: bytes | bytearray | memoryview, base_offset: int) -> int:
        """Put a batch into the log at the caller's offset, without any check."""
        assert base_offset >= self.log_end_offset
        stored = bytearray(batch)
        patch_base_offset(stored, 0, base_offset)
        patch_leader_epoch(stored, 0, self.leader_epoch)
        header = read_header(stored)
        self.batches.append((header, bytes(stored)))
        self.log_end_offset = header.next_offset
        self.epoch_starts.setdefault(self.leader_epoch, base_offset)
        if header.producer_id >= 0 and header.base_sequence >= 0:
            state = self.producers.get(header.producer_id)
            if state is None or state.epoch != header.producer_epoch:
                state = self.producers[header.producer_id] = ProducerState(header.producer_epoch)
            state.batches.append((header.base_sequence, header.last_sequence, base_offset))
            state.last_timestamp_ms = header.max_timestamp
        return base_offset

    def commit(self, offset: int) -> None:
        if offset > self.high_watermark:
            self.high_watermark = offset
            committed, self.committed = self.committed, asyncio.Event()
            committed.set()

    def first_offset_of(self, timestamp_ms: int) -> int:
        """Return the offset of the first committed record at or after a time, or -1."""
        return next(
            (
                record.offset
                for header, batch in self.batches
                if header.next_offset <= self.high_watermark
                for record in decode_batch(batch, 0, header)
                if record.timestamp_ms >= timestamp_ms
            ),
            -1,
        )

    @property
    def stable_end(self) -> int:
        """The last stable offset."""
        end = self.high_watermark
        return end if self.open_from is None else min(end, self.open_from)

    def snapshot(self) -> SimPartition:
        """Return a copy that does not change with this log."""
        copied = SimPartition()
        copied.batches, copied.aborted = list(self.batches), list(self.aborted)
        copied.log_start_offset = self.log_start_offset
        copied.log_end_offset, copied.high_watermark = self.log_end_offset, self.high_watermark
        copied.leader_epoch, copied.epoch_starts = self.leader_epoch, dict(self.epoch_starts)
        copied.open_from = self.open_from
        return copied

    def lose_high_watermark(self, random: Random) -> None:
        """Step the high watermark back to an earlier batch."""
        ends = [header.next_offset for header, _ in self.batches[-4:]]
        self.high_watermark = random.choice([self.log_start_offset, *ends])
        self.lags = True

    def cut_back(self, offset: int) -> None:
        """Lose every batch that ends above an offset, as an unclean election does."""
        self.leader_epoch += 1
        self.batches = [entry for entry in self.batches if entry[0].next_offset <= offset]
        end = self.batches[-1][0].next_offset if self.batches else self.log_start_offset
        self.log_end_offset = self.high_watermark = end
        self.aborted = [entry for entry in self.aborted if entry[2] < end]
        self.epoch_starts = {e: start for e, start in self.epoch_starts.items() if start < end}

    def delete_below(self, offset: int) -> None:
        """Delete whole batches, as DeleteRecords does. Raises KafkaError."""
        if offset > self.high_watermark:
            raise KafkaError(ErrorCode.offset_out_of_range, f"{offset} > {self.high_watermark}")
        self.log_start_offset = max(self.log_start_offset, offset)
        self.batches = [entry for entry in self.batches if entry[0].next_offset > offset]

    def divergence(self, offset: int, epoch: int) -> tuple[int, int] | None:
        """Return (epoch, its end) if a log that ends at `offset` in `epoch` is no prefix of this
        one
        (KIP-595)."""
        if epoch == self.leader_epoch and epoch in self.epoch_starts:
            known, end = epoch, self.log_end_offset
            return (known, end) if end < offset else None
        known = max((each for each in self.epoch_starts if each <= epoch), default=epoch)
        later = (start for each, start in self.epoch_starts.items() if each > known)
        end = min(later, default=self.log_end_offset)
        return (known, end) if known < epoch or end < offset else None

    def is_at_end(self, offset: int, epoch: int) -> bool:
        """Tell whether a reader at this position, which last read `epoch`, has to wait."""
        return (
            self.stable_end <= offset <= self.log_end_offset
            and self.log_start_offset <= offset
            and (epoch < 0 or self.divergence(offset, epoch) is None)
        )

    def read(self, offset: int, bytes_max: int, *, committed_only: bool = True) -> memoryview:
        """Return whole batches from the one with `offset` on, at least one if there is any."""
        limit = self.stable_end if committed_only else self.high_watermark
        out = bytearray()
        first = bisect_right(self.batches, offset, key=lambda entry: entry[0].next_offset)
        for header, batch in self.batches[first:]:
            if header.next_offset > limit:
                break
            if out and len(out) + len(batch) > bytes_max:
                break
            out += batch
        return memoryview(out)

    def _check_sequence(self, header: BatchHeader) -> int | None:
        state = self.producers.get(header.producer_id)
        if state is None:
            return None  # as in Kafka: without state, any sequence is accepted
        if header.producer_epoch < state.epoch:
            raise KafkaError(ErrorCode.invalid_producer_epoch, "an older epoch")
        if header.producer_epoch > state.epoch:
            if header.base_sequence:
                raise KafkaError(ErrorCode.out_of_order_sequence_number, "new epoch, not 0")
            return None
        for first, last, base_offset in state.batches:
            if (first, last) == (header.base_sequence, header.last_sequence):
                return base_offset
        if header.base_sequence != (state.batches[-1][1] + 1) & SEQUENCE_MASK:
            raise KafkaError(
                ErrorCode.out_of_order_sequence_number,
                f"{header.base_sequence} after {state.batches[-1][1]}",
            )
        return None
