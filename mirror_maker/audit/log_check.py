"""Compares one flow's receipts with the batches that the target's log holds. Pure.

    expect(receipt) ---+                          +--> COMPLETE: as acknowledged
    see(batch)      ---+--> compared by offset ---+--> a finding, with its offsets
    reach, begin    ---+                          +--> `audited_to` advances

Both sides come in target order, each from its own place. What is on one side only waits for the
other.

    a receipt, and at its offset              verdict
    the same batch                            COMPLETE
    the same batch, of records copied before  DUPLICATED
    our batch with other bytes                ALTERED
    our batch with fewer records, compacted   CLEANED, also if the receipt has its CRC
    nothing, compacted                        CLEANED
    nothing, or a foreign batch               LOST
    an offset below the log's start           CLEANED

    a batch without a receipt                 verdict
    ours, of a sequence that was there before DUPLICATED
    ours, of the next sequence                UNVERIFIED, once a later receipt has come
    foreign, in a copy of ours alone          FOREIGN

Nothing is concluded from what was not read: a receipt beyond the end of the log waits.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Final

from local_cluster.records.header import BatchHeader
from mirror_maker.audit.evidence import Expected, Judged, OwnSequence, SeenBatch, judge_expected
from mirror_maker.audit.receipt_queue import MissedBatches, ReceiptQueue
from mirror_maker.formats.receipts import Receipts
from mirror_maker.formats.verdicts import AuditPlace, Verdict
from mirror_maker.model import advance_sequence

WAITING_MAX: Final = 2_000
"""Batches or receipts of one flow that wait for the other side; beyond, nothing more is read."""
OFFSET_MAX: Final = (1 << 63) - 1
_PASSED: Final = Judged(Verdict.COMPLETE, 0, 0, 0, None, None, None)
"""Something was passed without a verdict."""


class LogCheck:
    """The comparison for one flow, from a place on."""

    def __init__(
        self,
        producer_id: int,
        place: AuditPlace,
        *,
        is_exclusive: bool,
        is_compacted: bool,
        is_rewritten: bool,
    ) -> None:
        """Continue from `place`. `is_exclusive`: nobody else may write into the copy.

        `is_rewritten`: the target gives batches its own codec or timestamps, so that their bytes
        cannot be compared.
        """
        self.is_compacted = is_compacted
        self.is_rewritten = is_rewritten
        self.audited_to = place.audited_to
        """Everything below this target offset was compared."""
        self.seen_to = place.audited_to
        """Where to continue reading the log."""
        self.begun_at = place.audited_to
        """Where the comparison began: at the first receipt ever."""
        self._producer_id = producer_id
        self._is_exclusive = is_exclusive
        self._receipts = ReceiptQueue(place.receipt_to, place.receipt_epoch)
        self._receipt_epoch = place.receipt_epoch
        self._receipt_to = place.receipt_to
        self._audited_source = place.audited_source
        self._own = OwnSequence(place.producer_epoch, place.sequence)
        self._seen: deque[SeenBatch] = deque()
        self._truncated_to = OFFSET_MAX
        """The lowest offset at which the log ended below what was read of it."""
        self._compared_to, self._compared_epoch = 0, -1
        """Up to where, and to which producer epoch, it was compared before the truncation."""
        self._missed = MissedBatches()

    @property
    def place(self) -> AuditPlace:
        """How far the comparison has come. Another worker can continue from here."""
        return AuditPlace(
            self.audited_to,
            self._receipt_epoch,
            self._receipt_to,
            self._audited_source,
            self._own.producer_epoch,
            self._own.next_sequence,
        )

    # -- taking in ------------------------------------------------------------------------------

    @property
    def wants_receipts(self) -> bool:
        return self._receipts.waiting_count < WAITING_MAX

    @property
    def wants_batches(self) -> bool:
        """Whether to read on; before the first receipt nothing can be judged."""
        if self._receipts.reported_to < 0 or len(self._seen) >= WAITING_MAX:
            return False
        # In a shared copy most of what follows the last receipt is foreign.
        return self._is_exclusive or self.seen_to < self.expected_to

    @property
    def reaches_to(self) -> int:
        """The target offset that the log must reach, or has reached before."""
        return max(self.expected_to, self._compared_to)

    @property
    def waiting_receipts(self) -> int:
        """Receipts that were not compared yet."""
        return len(self._receipts)

    @property
    def first_record_offset(self) -> int | None:
        """Offset in the receipts topic of the first waiting receipt's record."""
        first = self._receipts.first
        return None if first is None else first.record_offset

    @property
    def expected_to(self) -> int:
        """The target offset that the log must reach."""
        expected_to = self._receipts.expected_to
        return self.audited_to if expected_to is None else expected_to

    def expect(self, entry: Receipts, record_offset: int) -> None:
        """Take the next record of the receipts topic."""
        truncated_at = self._receipts.new_epoch_below(entry)
        if truncated_at is not None:
            self._truncate_receipts(truncated_at)
        sequence = entry.sequence
        for reported in entry.receipts:
            receipt = self._receipts.unreported_part(reported)
            self._expect(Expected(receipt, entry.producer_epoch, sequence, record_offset))
            sequence = advance_sequence(sequence, reported.records_count)

    def _expect(self, expected: Expected) -> None:
        receipts, target_offset = self._receipts, expected.receipt.target_offset
        if receipts.reported_to < 0 and target_offset < self.audited_to:
            return  # of an older generation, about which nothing was published
        if receipts.reported_to > target_offset >= self._truncated_to:
            # Its place was reported before, and the log was truncated since: it is a new copy,
            # unless the same receipt is repeated.
            if not receipts.holds(expected.receipt):
                self._truncate_receipts(target_offset)
                receipts.append(expected)
        elif target_offset >= receipts.reported_to:
            if receipts.reported_to < 0:
                # What older versions wrote before the first receipt is not judged.
                start = max(self.audited_to, target_offset)
                self.begun_at = self.audited_to = self.seen_to = start
            receipts.append(expected)
        # Otherwise a killed worker had reported what its successor found in the tail.

    def _truncate_receipts(self, target_offset: int) -> None:
        self._receipts.truncate(target_offset)
        self.truncate(target_offset)

    def move_records(self, record_offset: int) -> None:
        """Count everything that waits as read from this record of the receipts topic."""
        self._receipts.move_records(record_offset)

    def see(self, batch: SeenBatch) -> None:
        """Take the next batch of the log from `seen_to` on."""
        if batch.next_offset > self.seen_to:
            self._seen.append(batch)
            self.seen_to = batch.next_offset

    def reach(self, offset: int) -> None:
        """Record that the log has nothing more below this offset."""
        self.seen_to = max(self.seen_to, offset)

    def truncate(self, end: int) -> None:
        """Read the log again from `end`: it ends there, below what was read.

        Whether it still has what was compared there shows when it has grown again, or has not.
        """
        self._seen = deque([each for each in self._seen if each.next_offset <= end])
        self.seen_to = max(end, self._seen[-1].next_offset if self._seen else 0)
        self._truncated_to = min(self._truncated_to, end)
        if end < self.audited_to:
            self._compared_to = max(self._compared_to, self.audited_to)
            self._compared_epoch = max(self._compared_epoch, self._own.producer_epoch)
            self.audited_to = end
            self._audited_source, self._own.next_sequence = -1, None

    # -- judging --------------------------------------------------------------------------------

    def judge(self, log_start_offset: int) -> Iterator[Judged]:
        """Yield what can be judged; the target's log begins at `log_start_offset`."""
        while (expected := self._receipts.pop_truncated()) is not None:
            self._missed.add(expected.receipt)
            yield judge_expected(expected, Verdict.LOST, "the target's log was truncated before it")
        while True:
            judged = self._next(log_start_offset)
            if judged is None:
                return
            if judged is not _PASSED:
                yield judged

    def end(self) -> Iterator[Judged]:
        """Yield what is lost: the log has ended too early for so long that it will not grow."""
        while (
            expected := self._receipts.first
        ) is not None and expected.receipt.target_next > self.seen_to:
            self._receipts.pop()
            self._note_receipt(expected)
            self._missed.give_up(expected)
            yield judge_expected(expected, Verdict.LOST, "the target's log ends before it")
        if self._compared_to > self.seen_to:
            start, end, self._compared_to = self.seen_to, self._compared_to, 0
            detail = "the log had these offsets when they were compared, and ends before them now"
            yield Judged(Verdict.LOST, end - start, start, end, None, None, None, detail)

    def _next(self, log_start_offset: int) -> Judged | None:
        expected = self._receipts.first
        if expected is not None and expected.receipt.target_offset < log_start_offset:
            return self._judge_receipt(
                expected, Verdict.CLEANED, f"the target's log begins at {log_start_offset}"
            )
        if self._seen and self._seen[0].offset < log_start_offset:
            return self._pass(self._seen[0])
        if self.audited_to >= self._compared_to:
            self._compared_to = 0
        if expected is not None and expected.receipt.target_offset < self.audited_to:
            if expected.receipt.target_next <= self._compared_to:
                self._receipts.pop()
                self._note_receipt(expected)
                return _PASSED  # it was compared before the log was read again
            # The log was read up to there before the receipt came, and had nothing of ours.
            return self._miss_receipt(expected, "a foreign batch lies there")
        if self._seen and (
            expected is None or self._seen[0].offset < expected.receipt.target_offset
        ):
            return self._judge_unexpected(self._seen[0], expected)
        if expected is None:
            if not self._seen:
                self.audited_to = max(self.audited_to, self.seen_to)
            return None
        if self._seen and self._seen[0].offset == expected.receipt.target_offset:
            return self._compare(expected, self._seen[0])
        if self._seen or self.seen_to >= expected.receipt.target_next:
            # The log continues after the place, and has nothing there.
            return self._miss_receipt(expected, "the target has nothing at that offset")
        return None

    def _compare(self, expected: Expected, batch: SeenBatch) -> Judged | None:
        receipt, header = expected.receipt, batch.header
        if header.producer_id != self._producer_id or header.is_control:
            return self._lose(expected, f"producer {header.producer_id} wrote the batch there")
        self._seen.popleft()
        self._own.note(header)
        if header.last_offset_delta + 1 != receipt.records_count:
            return self._judge_receipt(
                expected,
                Verdict.ALTERED,
                f"the batch there has offsets for {header.last_offset_delta + 1} records",
            )
        if header.crc == receipt.crc and batch.is_sound:
            return self._judge_same(expected, header)
        if not batch.is_sound:
            return self._judge_receipt(
                expected, Verdict.ALTERED, "the bytes there do not have the CRC of their header"
            )
        if self.is_compacted and (
            header.records_count < receipt.records_count or header.has_delete_horizon
        ):
            return self._judge_receipt(expected, Verdict.CLEANED, "compaction took some of it")
        is_same_place = (header.producer_epoch, header.base_sequence) == (
            expected.producer_epoch,
            expected.sequence,
        )
        if self.is_rewritten and is_same_place:
            return self._judge_receipt(expected, Verdict.UNVERIFIED, "the target rewrites batches")
        self._missed.add(receipt)
        swapped = self._place_of(header.crc)
        detail = f"CRC {header.crc:08x} there, {receipt.crc:08x} was acknowledged"
        if swapped is not None:
            detail += f": it is the batch that was acknowledged at {swapped}"
        return self._judge_receipt(expected, Verdict.ALTERED, detail)

    def _judge_same(self, expected: Expected, header: BatchHeader) -> Judged:
        """Judge a batch that is the one of the receipt."""
        if header.records_count < expected.receipt.records_count:
            # The writer of the receipt found the batch like that.
            return self._judge_receipt(expected, Verdict.CLEANED, "compaction took some of it")
        if self._is_copied_again(expected):
            return self._judge_receipt(
                expected, Verdict.DUPLICATED, "these source offsets were copied before"
            )
        return self._judge_receipt(expected, Verdict.COMPLETE)

    def _judge_unexpected(self, batch: SeenBatch, expected: Expected | None) -> Judged | None:
        """Judge a batch before the next receipt, or after all receipts."""
        header = batch.header
        if header.producer_id != self._producer_id or header.is_control:
            if not self._is_exclusive:
                # A receipt that is still to come may say that ours lies there.
                return None if expected is None else self._pass(batch)
            kind = "control batch" if header.is_control else "batch"
            return self._judge_batch(
                batch, Verdict.FOREIGN, f"a {kind} of producer {header.producer_id}"
            )
        given_up = self._missed.pop_given_up(header.base_offset)
        if given_up is not None and given_up.receipt.crc == header.crc and batch.is_sound:
            self._own.note(header)
            self._pass(batch)
            return judge_expected(given_up, Verdict.COMPLETE, "it came late")
        if batch.next_offset <= self._compared_to and header.producer_epoch <= self._compared_epoch:
            self._own.note(header)
            return self._pass(batch)  # it was compared before the log was read again
        if self._own.is_repeated(header):
            return self._judge_batch(
                batch,
                Verdict.DUPLICATED,
                f"epoch {header.producer_epoch}, sequence {header.base_sequence} again",
            )
        if expected is None:
            return None  # its receipt is still to come
        self._own.note(header)
        return self._judge_batch(batch, Verdict.UNVERIFIED, "no receipt was written for it")

    def _place_of(self, crc: int) -> int | None:
        """Return where else a batch with this CRC was acknowledged, as far as remembered."""
        waiting = self._receipts.place_of(crc)
        return self._missed.place_of(crc) if waiting is None else waiting

    def _is_copied_again(self, expected: Expected) -> bool:
        """Return whether its records were acknowledged before, in the same producer epoch.

        A new epoch may begin further back.
        """
        receipt = expected.receipt
        is_exact = receipt.source_to - receipt.source_from == receipt.records_count
        return (
            is_exact
            and self._receipt_epoch == expected.producer_epoch
            and receipt.source_to <= self._audited_source
        )

    def _miss_receipt(self, expected: Expected, detail: str) -> Judged:
        """Judge a receipt without a batch of ours at its place."""
        if self.is_compacted:
            return self._judge_receipt(expected, Verdict.CLEANED, "compaction took it")
        return self._lose(expected, detail)

    def _lose(self, expected: Expected, detail: str) -> Judged:
        self._missed.add(expected.receipt)
        return self._judge_receipt(expected, Verdict.LOST, detail)

    def _judge_receipt(self, expected: Expected, verdict: Verdict, detail: str = "") -> Judged:
        self._receipts.pop()
        receipt = expected.receipt
        self._note_receipt(expected)
        # Another batch may begin within: it is judged next.
        audited_to = receipt.target_next
        if self._seen and self._seen[0].offset < audited_to:
            audited_to = max(receipt.target_offset, self._seen[0].offset)
        self.audited_to = max(self.audited_to, audited_to)
        self.seen_to = max(self.seen_to, self.audited_to)
        return judge_expected(expected, verdict, detail)

    def _note_receipt(self, expected: Expected) -> None:
        receipt = expected.receipt
        if self._receipt_epoch != expected.producer_epoch:
            self._receipt_epoch, self._audited_source = expected.producer_epoch, -1
        self._audited_source = max(self._audited_source, receipt.source_to)
        self._receipt_to = receipt.target_next

    def _judge_batch(self, batch: SeenBatch, verdict: Verdict, detail: str) -> Judged:
        self._pass(batch)
        header = batch.header
        return Judged(
            verdict,
            header.records_count,
            header.base_offset,
            header.next_offset,
            None,
            None,
            header.max_timestamp,
            detail,
        )

    def _pass(self, batch: SeenBatch) -> Judged:
        self._seen.popleft()
        self.audited_to = max(self.audited_to, batch.next_offset)
        return _PASSED
