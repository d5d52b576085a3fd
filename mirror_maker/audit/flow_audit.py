"""What the auditor keeps of one flow: its comparison, its verdicts, and how far it has come."""

from __future__ import annotations

from collections.abc import Generator
from typing import Final
from uuid import UUID

from local_cluster.client.model import FetchedPartition, TopicPartition
from local_cluster.records.header import crc_is_valid, iter_headers
from mirror_maker.audit.copy_configs import UNKNOWN_CONFIGS, CopyConfigs
from mirror_maker.audit.cpu_budget import PIECE_BATCHES_MAX
from mirror_maker.audit.evidence import SeenBatch
from mirror_maker.audit.explained_findings import explainer
from mirror_maker.audit.log_check import LogCheck
from mirror_maker.audit.receipt_offsets import ReceiptOffsets
from mirror_maker.audit.tally import FlowTally
from mirror_maker.formats import Opening
from mirror_maker.formats.receipts import Receipts, flow_id
from mirror_maker.formats.verdict_topic import FlowVerdicts
from mirror_maker.formats.verdicts import AuditPlace, Bucket, Progress, Verdict, VerdictRecord
from mirror_maker.ports import Clock
from mirror_maker.stores.journal_store import GapStore

LOST_AFTER_MS: Final = 60_000
"""How long the target's log may end below what was acknowledged before that counts as lost. A new
leader may learn late what is committed, at the latest after 1.5 times `replica.lag.time.max.ms`."""
ANSWERS_MS_MAX: Final = 10_000
"""The longest time between two reads of the log's end that still counts as observed."""
_COMPACTED: Final = frozenset({Verdict.LOST, Verdict.ALTERED})
"""Verdicts that unknown compaction looks like."""
RECEIPTS_BEHIND_MAX: Final = 20_000
"""Records of the receipts topic that a worker reads again at most, after it takes over an idle
flow."""


class FlowAudit:
    """What the auditor keeps for one flow."""

    def __init__(
        self,
        opening: Opening,
        known: FlowVerdicts,
        configs: CopyConfigs,
        *,
        is_exclusive: bool,
        receipts_id: UUID | None,
        receipts_start: int,
        offsets: ReceiptOffsets,
        journal: GapStore,
        worker_id: str,
        clock: Clock,
        map_flush_ms: int,
    ) -> None:
        """`known` is what was published before. `is_exclusive`: nobody else may write into the
        copy.
        The receipts topic has the id `receipts_id` and begins at `receipts_start`; `offsets` tells
        what of it each flow was given."""
        self.flow = opening.flow
        self.copy = TopicPartition(opening.target_topic, opening.flow.partition)
        self.flow_id = flow_id(opening.flow, opening.producer_id)
        self.tally = FlowTally(opening.flow, known)
        self._journal = journal
        self._worker_id = worker_id
        self._clock = clock
        self._map_flush_ms = map_flush_ms
        progress = known.progress
        self.check = LogCheck(
            opening.producer_id,
            AuditPlace(opening.target_offset) if progress is None else progress.place,
            is_exclusive=is_exclusive,
            is_compacted=configs.is_compacted,
            is_rewritten=configs.is_rewritten,
        )
        self._receipts_id = receipts_id
        self._offsets = offsets
        self._audited_from: int | None = None
        if progress is not None and progress.place.receipt_to >= 0:
            self._audited_from = progress.audited_from
        known_to = receipts_start
        if progress is not None and progress.receipts_topic_id == str(receipts_id):
            known_to = max(receipts_start, progress.receipts_offset)
        self._log_start_offset = 0
        self._short_since_ms: int | None = None
        """Since when the log ends below what was acknowledged (monotonic)."""
        self._judged_ms = 0
        self._findings_confirmed = self.tally.findings_count
        self._audited_at_ms = 0 if progress is None else progress.audited_at_ms
        self._first_waiting_ms: dict[int, int] = {}
        """Offset in the receipts topic -> when the record was written."""
        self._published: tuple[object, ...] = ()
        self.published_receipts_next = known_to
        """Offset in the receipts topic from which the published progress has no records."""
        self._made: Progress | None = None
        self._written: Progress | None = None
        """The progress that the verdicts topic acknowledged last; None if unknown."""

    @property
    def doubts_configs(self) -> bool:
        """Whether findings were added since the configs were looked up."""
        return self.tally.findings_count > self._findings_confirmed

    def reconfigure(self, configs: CopyConfigs) -> None:
        """Take the copy's current configs."""
        if configs.is_compacted and not self.check.is_compacted and configs != UNKNOWN_CONFIGS:
            # Batches missed since the last lookup may have been compacted.
            self.tally.settle(lambda each: Verdict.CLEANED if each.verdict in _COMPACTED else None)
        self.check.is_compacted, self.check.is_rewritten = configs
        self._findings_confirmed = self.tally.findings_count

    def lose_sight(self) -> None:
        """Forget the log's end: the log is not read for a while."""
        self._short_since_ms = None

    # -- receipts -------------------------------------------------------------------------------

    @property
    def receipts_next(self) -> int:
        """Offset in the receipts topic from which this flow has not been given records."""
        return self._offsets.of(self.flow_id)

    def expect(self, entry: Receipts, offset: int, timestamp_ms: int) -> None:
        """Take a record of the receipts topic that is about this flow."""
        self.check.expect(entry, offset)
        self._first_waiting_ms[offset] = timestamp_ms

    def restart_receipts(self, receipts_id: UUID | None, start: int) -> None:
        """Start over in a re-created receipts topic: what waits is in no record of it."""
        self._receipts_id = receipts_id
        self.published_receipts_next = start
        self.check.move_records(start)
        waiting_ms = min(self._first_waiting_ms.values(), default=None)
        self._first_waiting_ms = {} if waiting_ms is None else {start: waiting_ms}
        self._published = ()

    # -- the copy -------------------------------------------------------------------------------

    def take(self, position: int, fetched: FetchedPartition) -> Generator[None, None, bool]:
        """Take what the target has from this offset on, in pieces; return whether it was news."""
        before = self.check.seen_to
        if position > before:
            return False  # fetched before it was known that the log is read again
        self._log_start_offset = max(self._log_start_offset, fetched.log_start_offset)
        for count, (position, header) in enumerate(iter_headers(fetched.records), 1):
            if header.next_offset > self.check.seen_to:
                is_sound = crc_is_valid(fetched.records, position, header)
                self.check.see(SeenBatch(header, is_sound))
            if count % PIECE_BATCHES_MAX == 0:
                yield
        return self.check.seen_to > before

    def move(self, log_start_offset: int, end: int) -> None:
        """Take the log's bounds after it did not have the position."""
        self._log_start_offset = max(self._log_start_offset, log_start_offset)
        if self.check.seen_to < log_start_offset:
            self.check.reach(log_start_offset)
        elif end < self.check.seen_to:
            self.check.truncate(end)

    def judge(
        self, high_watermark: int | None, monotonic_ms: int, now_ms: int
    ) -> Generator[None, None, None]:
        """Add every verdict that is possible now to the tally, in pieces."""
        for count, judged in enumerate(self.check.judge(self._log_start_offset), 1):
            self.tally.add(judged, now_ms)
            if count % PIECE_BATCHES_MAX == 0:
                yield
        first = self.check.first_record_offset
        while self._first_waiting_ms:
            offset = next(iter(self._first_waiting_ms))
            if first is not None and offset >= first:
                break
            del self._first_waiting_ms[offset]
        is_short = (
            high_watermark is not None
            and self.check.reaches_to > high_watermark
            and self.check.seen_to >= high_watermark
        )
        if monotonic_ms - self._judged_ms > ANSWERS_MS_MAX:
            self._short_since_ms = None  # nobody observed the log meanwhile
        self._judged_ms = monotonic_ms
        if not is_short:
            self._short_since_ms = None
        elif self._short_since_ms is None:
            self._short_since_ms = monotonic_ms
        elif monotonic_ms - self._short_since_ms >= LOST_AFTER_MS:
            assert high_watermark is not None
            self.tally.take_back(high_watermark)
            for judged in self.check.end():
                self.tally.add(judged, now_ms)

    @property
    def is_unsettled(self) -> bool:
        """Whether the log must be read again though nothing arrives."""
        return self.check.waiting_receipts > 0 or self.check.reaches_to > self.check.seen_to

    def audited_at_ms(self, receipts_read_to: int, receipts_read_ms: int) -> int:
        """Return the wall-clock time before which every acknowledged batch was compared; 0 if
        unknown.

        The receipts topic ended at `receipts_read_to` at `receipts_read_ms`.
        """
        first = self.check.first_record_offset
        known_ms = 0 if first is None else self._first_waiting_ms.get(first, 0)
        if first is None and self.receipts_next >= receipts_read_to:
            known_ms = receipts_read_ms
        # Receipts of earlier batches may not be written yet.
        self._audited_at_ms = max(self._audited_at_ms, known_ms - self._map_flush_ms)
        return self._audited_at_ms

    # -- publishing -----------------------------------------------------------------------------

    def settle(self) -> None:
        """Withdraw findings that the journal explains."""
        if not self.tally.findings:
            return
        journal = self._journal.state
        flow = self.flow
        entries = [
            each
            for each in journal.partition_entries(flow.source_topic, flow.partition)
            if each.flow == flow
        ]
        self.tally.settle(explainer(entries, self._log_start_offset))

    def is_changed(self, source_end: int | None) -> bool:
        """Return whether there is something new to publish."""
        is_behind = self.receipts_next > self.published_receipts_next + RECEIPTS_BEHIND_MAX
        return self.tally.is_changed or is_behind or self._state(source_end) != self._published

    def take_records(
        self, receipts_read_to: int, receipts_read_ms: int, source_end: int | None
    ) -> list[VerdictRecord]:
        """Return what is to be written now; if that fails, the caller calls `put_back`.

        For the receipts see `audited_at_ms`.
        """
        check = self.check
        self._published = self._state(source_end)
        self.published_receipts_next = self.receipts_next
        first = check.first_record_offset

        def make_progress(growing: dict[int, Bucket]) -> Progress:
            self._made = Progress(
                target_topic=self.copy.topic,
                worker_id=self._worker_id,
                audited_from=check.begun_at if self._audited_from is None else self._audited_from,
                place=check.place,
                audited_at_ms=self.audited_at_ms(receipts_read_to, receipts_read_ms),
                waiting=check.waiting_receipts,
                receipts_topic_id=str(self._receipts_id),
                receipts_offset=self.receipts_next if first is None else first,
                source_end=source_end,
                target_log_start=self._log_start_offset,
                written_at_ms=self._clock.now_ms(),
                buckets=dict(growing),
            )
            return self._made

        return self.tally.take_records(make_progress)

    def _state(self, source_end: int | None) -> tuple[object, ...]:
        check = self.check
        return check.audited_to, check.waiting_receipts, source_end, self._log_start_offset

    def on_written(self) -> None:
        """Record that the last result of `take_records` was acknowledged."""
        self._written = self._made

    def compare_published(self, known: FlowVerdicts) -> None:
        """Publish again if the topic does not say what was written last.

        A late write may change a finding only, if ours with a newer progress follows it.
        """
        if self._written is None:
            return
        if known.progress != self._written or self.tally.differs_from(known):
            self.publish_again(known)

    def publish_again(self, known: FlowVerdicts) -> None:
        """Publish again: the topic has `known` instead of what was published."""
        self._published = ()
        self.tally.publish_again(known)

    def put_back(self, taken: list[VerdictRecord]) -> None:
        """Queue the result of `take_records` again: its write may not have happened."""
        self._published = ()
        self._written = None
        self.tally.put_back(taken)
