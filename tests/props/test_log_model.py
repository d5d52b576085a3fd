"""A partition log against a list of batches: any mix of operations, restarts and crashes."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from local_cluster.log.config.log_config import LogConfig
from local_cluster.records.header import iter_headers
from local_cluster.wire.errors import ErrorCode, KafkaError
from tests.unit.local_cluster.log.samples import (
    NOW_MS,
    append,
    batch,
    create,
    flush,
    records_of,
    reopen,
)

CONFIG = LogConfig(
    segment_bytes=900, index_interval_bytes=150, segment_index_bytes=200, retention_ms=1000
)
PRODUCER_ID = 9
SEQUENCE_MAX = (1 << 31) - 1


@dataclass
class ModelBatch:
    base_offset: int
    timestamps_ms: list[int]
    epoch: int
    sequence: int
    value: bytes

    @property
    def next_offset(self) -> int:
        return self.base_offset + len(self.timestamps_ms)


class LogMachine(RuleBasedStateMachine):
    """The model is the list of batches between log start and log end."""

    @initialize(first_sequence=st.sampled_from([0, SEQUENCE_MAX - 3]))
    def start(self, first_sequence: int) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="log-model-"))
        self.log = create(self.directory, config=CONFIG)
        self.batches: list[ModelBatch] = []
        self.start_offset = 0
        self.end_offset = 0
        self.epoch = 0
        # An unknown producer may begin with any sequence: with this one it wraps soon.
        self.sequence = first_sequence
        self.has_forgotten = False
        self.remembered_from = 0
        """The log may have forgotten the batches of its producer before this offset."""
        self.now_ms = NOW_MS

    def teardown(self) -> None:
        if hasattr(self, "directory"):
            del self.log
            shutil.rmtree(self.directory)

    @rule(
        count=st.integers(1, 4),
        size=st.integers(0, 120),
        codec=st.sampled_from([0, 0, 4]),
        step_ms=st.integers(-300, 300),
        idempotent=st.booleans(),
    )
    def append_one(self, count: int, size: int, codec: int, step_ms: int, idempotent: bool) -> None:
        self.append(count, size, codec, step_ms, idempotent)

    def append(self, count: int, size: int, codec: int, step_ms: int, idempotent: bool) -> None:
        self.now_ms += abs(step_ms)
        value = b"v" * size
        timestamp_ms = self.now_ms + step_ms
        sequence = self.sequence if idempotent else -1
        made = batch(
            count,
            timestamp_ms=timestamp_ms,
            value=value,
            codec=codec,
            producer=(PRODUCER_ID, 0, sequence) if idempotent else (-1, -1, -1),
        )
        result = append(self.log, made, epoch=self.epoch, now_ms=self.now_ms)
        assert (result.base_offset, result.is_duplicate) == (self.end_offset, False)
        times = [timestamp_ms + index for index in range(count)]
        self.batches.append(ModelBatch(self.end_offset, times, self.epoch, sequence, value))
        self.end_offset += count
        if idempotent:
            self.sequence = (self.sequence + count) & SEQUENCE_MAX

    @rule(runs=st.integers(2, 15), size=st.integers(0, 120), idempotent=st.booleans())
    def append_many(self, runs: int, size: int, idempotent: bool) -> None:
        for index in range(runs):
            self.append(1 + index % 3, size, 0, (index * 37) % 200 - 100, idempotent)

    @precondition(lambda self: self.window())
    @rule(which=st.integers(0, 4))
    def repeat(self, which: int) -> None:
        window = self.window()
        original = window[which % len(window)]
        made = batch(
            len(original.timestamps_ms),
            timestamp_ms=original.timestamps_ms[0],
            value=original.value,
            producer=(PRODUCER_ID, 0, original.sequence),
        )
        result = append(self.log, made, epoch=self.epoch)
        assert (result.base_offset, result.is_duplicate) == (original.base_offset, True)

    @precondition(lambda self: self.window())
    @rule(gap=st.integers(1, 5))
    def leave_a_gap(self, gap: int) -> None:
        try:
            sequence = (self.sequence + gap) & SEQUENCE_MAX
            append(self.log, batch(1, producer=(PRODUCER_ID, 0, sequence)))
        except KafkaError as error:
            assert error.code is ErrorCode.out_of_order_sequence_number
        else:
            raise AssertionError("a gap was accepted")

    def window(self) -> list[ModelBatch]:
        known = [kept for kept in self.batches if kept.base_offset >= self.remembered_from]
        return [kept for kept in known if kept.sequence >= 0][-5:]

    @rule()
    def roll(self) -> None:
        self.log.writer.roll(self.now_ms)

    @rule()
    def forget_idle_producers(self) -> None:
        day_ms = self.log.config.producer_id_expiration_ms
        self.log.producers.expire(self.now_ms + day_ms + 1, day_ms)
        assert self.log.producers.get(PRODUCER_ID) is None
        # As clients do, the producer goes on with its next sequence. After a crash the log knows it
        # again, and the same sequences twice would be repetitions.
        self.remembered_from = self.end_offset
        self.has_forgotten = True

    @rule()
    def next_epoch(self) -> None:
        self.epoch += 1

    @rule()
    def flush(self) -> None:
        if self.log.flushed_end_offset < self.log.log_end_offset:
            flush(self.log)
        assert self.log.flushed_end_offset == self.end_offset

    @rule(back=st.integers(0, 12))
    def truncate(self, back: int) -> None:
        offset = max(self.end_offset - back, self.start_offset)
        self.log.truncation.truncate_to(offset, self.now_ms).run()
        self.batches = [kept for kept in self.batches if kept.next_offset <= offset]
        start = self.start_offset
        self.end_offset = self.batches[-1].next_offset if self.batches else start
        # A log start offset inside a batch goes with the batch.
        if self.log.log_end_offset < self.end_offset:
            self.end_offset = self.start_offset = self.log.log_end_offset
        self.restart_producer()

    @rule(back=st.integers(0, 10))
    def delete_records(self, back: int) -> None:
        offset = max(self.end_offset - back, self.start_offset)
        self.log.cleanup.advance_log_start(offset)
        self.move_start(offset)

    @rule(age_ms=st.integers(0, 2500), commit_back=st.integers(0, 8))
    def retain(self, age_ms: int, commit_back: int) -> None:
        self.now_ms += age_ms
        committed = max(self.end_offset - commit_back, self.start_offset)
        deletion = self.log.cleanup.apply_retention(self.now_ms, committed)
        deletion.run()
        for segment in deletion.segments:
            gone = [
                kept
                for kept in self.batches
                if segment.base_offset <= kept.base_offset < self.log.segments.base_offsets[0]
            ]
            assert all(kept.next_offset <= committed for kept in gone)
        self.move_start(max(self.start_offset, self.log.segments.base_offsets[0]))

    def move_start(self, offset: int) -> None:
        self.start_offset = offset
        self.batches = [kept for kept in self.batches if kept.next_offset > offset]

    @rule(share=st.floats(0, 1))
    def crash_with_a_torn_tail(self, share: float) -> None:
        """Crash: any number of the bytes written since the last flush reached the disk."""
        flushed = self.log.flushed_end_offset
        path = Path(self.log.segments.active.log_path)
        base_offset, content = self.log.segments.base_offsets[-1], path.read_bytes()
        headers = [header for _, header in iter_headers(content)]
        safe_bytes = sum(each.size_bytes for each in headers if each.next_offset <= flushed)
        size = safe_bytes + round(share * (len(content) - safe_bytes))
        path.write_bytes(content[:size])
        whole_bytes, end_offset = 0, base_offset
        for header in headers:
            if whole_bytes + header.size_bytes > size:
                break
            whole_bytes += header.size_bytes
            end_offset = header.next_offset
        self.batches = [kept for kept in self.batches if kept.next_offset <= end_offset]
        self.end_offset = end_offset
        self.start_offset = min(self.start_offset, end_offset)
        self.reopen(flushed, is_clean=False)
        assert path.read_bytes() == content[:whole_bytes]

    @rule(is_clean=st.booleans())
    def restart(self, is_clean: bool) -> None:
        recovery_point = self.log.flushed_end_offset
        if is_clean:
            self.log.close()
        self.reopen(recovery_point, is_clean)

    def reopen(self, recovery_point: int, is_clean: bool) -> None:
        self.log = reopen(
            self.directory,
            config=CONFIG,
            is_clean=is_clean,
            recovery_point=recovery_point,
            durable_offset=recovery_point,
            log_start_offset=self.start_offset,
        )
        assert self.log.corruption is None
        self.restart_producer()

    def restart_producer(self) -> None:
        """The producer state matches the batches, or the log has none."""
        window = self.window()
        entry = self.log.producers.get(PRODUCER_ID)
        if entry is not None and entry.batches:
            newest, oldest = entry.batches[-1], entry.batches[0]
            if window:
                assert newest.base_offset == window[-1].base_offset
            # A snapshot older than the expiry of the producer may have restored it.
            self.remembered_from = min(self.remembered_from, oldest.base_offset)
            self.sequence = (newest.last_sequence + 1) & SEQUENCE_MAX
        else:
            # A snapshot taken after the expiry may hide what an older one restored.
            assert not window or self.has_forgotten
            self.remembered_from = self.end_offset

    @invariant()
    def records_are_those_of_the_model(self) -> None:
        if not hasattr(self, "log"):
            return
        assert self.log.log_start_offset == self.start_offset
        assert self.log.log_end_offset == self.end_offset
        expected = [
            (kept.base_offset + index, timestamp_ms, kept.value)
            for kept in self.batches
            for index, timestamp_ms in enumerate(kept.timestamps_ms)
        ]
        found = [(r.offset, r.timestamp_ms, r.value) for r in records_of(self.log)]
        assert found == expected

    @invariant()
    def times_and_epochs_are_found(self) -> None:
        if not hasattr(self, "log") or not self.batches:
            return
        for kept in self.batches[:: max(1, len(self.batches) // 3)]:
            assert (
                self.log.leader_epochs.epoch_of(max(kept.base_offset, self.start_offset))
                == kept.epoch
            )
            wanted = kept.timestamps_ms[0]
            first = (
                next(
                    (model.base_offset + index, timestamp_ms)
                    for model in self.batches
                    for index, timestamp_ms in enumerate(model.timestamps_ms)
                    if timestamp_ms >= wanted and model.base_offset + index >= self.start_offset
                )
                if kept.base_offset >= self.start_offset
                else None
            )
            found = self.log.reader.offset_for_timestamp(wanted)
            if first is not None:
                assert found is not None
                assert (found.offset, found.timestamp_ms) == first


TestLogAgainstModel = LogMachine.TestCase
TestLogAgainstModel.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
