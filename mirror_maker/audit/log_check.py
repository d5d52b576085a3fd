"""Compares one flow's receipts with the batches that the target's log holds. Pure.

    expect(receipt) ---+                          +--> Matched: as believed
    see(batch)      ---+--> compared by offset ---+--> Found: what is wrong, with its offsets
    reach, begin    ---+                          +--> `audited_to` moves on

Both come in target order, each from its own place; what is only on one side waits for the other.

    a receipt, and at its offset              is
    the same batch                            COMPLETE
    the same batch, of records copied before  DUPLICATED
    our batch with other bytes                ALTERED
    our batch with fewer records, compacted   CLEANED, also where the receipt has its CRC
    nothing, compacted                        CLEANED
    nothing, or somebody else's batch         LOST
    an offset below the log's start           CLEANED

    a batch without a receipt                 is
    ours, of a sequence that was there before DUPLICATED
    ours, of the next sequence                UNVERIFIED, once a later receipt has come
    somebody else's, in a copy of ours alone  FOREIGN

Nothing is concluded from what was not read: a receipt beyond the end of the log waits.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Final, NamedTuple

from local_cluster.records.header import BatchHeader
from mirror_maker.formats.receipts import NO_CRC, Receipt, Receipts
from mirror_maker.formats.verdicts import AuditPlace, Verdict
from mirror_maker.model import SEQUENCE_MASK, advance_sequence

WAITING_MAX: Final = 2_000
"""Batches or receipts of one flow that wait for the other side; beyond, nothing more is read."""
MISSED_MAX: Final = 1_000
"""Batches of which it is remembered that they do not lie at their place."""
GIVEN_UP_MAX: Final = 1_000
"""Batches of which it is remembered that they were told as lost at the log's end."""
OFFSET_MAX: Final = (1 << 63) - 1
_BACKWARDS: Final = 1 << 30
"""A distance between sequences beyond this is one backwards, seen modulo 2**31."""


class SeenBatch(NamedTuple):
    """What the log holds at an offset."""

    header: BatchHeader
    is_sound: bool
    """Whether its bytes have the CRC-32C that its header says."""

    @property
    def offset(self) -> int:
        return self.header.base_offset

    @property
    def behind(self) -> int:
        return self.header.next_offset


class Expected(NamedTuple):
    """A receipt with its place in the producer's sequence."""

    receipt: Receipt
    producer_epoch: int
    sequence: int
    record_offset: int
    """Of the record in the receipts topic."""


class Judged(NamedTuple):
    """The verdict about one batch; offsets of a side that has nothing are None."""

    verdict: Verdict
    records_count: int
    target_from: int
    target_to: int
    source_from: int | None
    source_to: int | None
    timestamp_ms: int | None
    """The largest of its records; None where nobody knows."""
    detail: str = ""


class LogCheck:
    """The comparison for one flow, from a place on."""

    def __init__(
        self,
        producer_id: int,
        place: AuditPlace,
        *,
        is_alone: bool,
        is_compacted: bool,
        is_rewritten: bool,
    ) -> None:
        """Goes on from `place`. `is_alone`: nobody else may write into the copy.

        `is_rewritten`: the target gives batches a codec or timestamps of its own, so that their
        bytes cannot be compared.
        """
        self.is_compacted = is_compacted
        self.is_rewritten = is_rewritten
        self.audited_to = place.audited_to
        """Everything of the log below this target offset was compared."""
        self.seen_to = place.audited_to
        """Where the log is to be read on."""
        self._producer_id = producer_id
        self._is_alone = is_alone
        self._told_to = place.receipt_to
        """The target offset behind the last receipt that came; -1 before the first."""
        self._told_epoch = place.receipt_epoch
        """The producer epoch of that receipt."""
        self._cut_off: deque[Expected] = deque()
        """Receipts of what the log had lost before a later producer epoch began below them."""
        self._receipt_epoch = place.receipt_epoch
        self._receipt_to = place.receipt_to
        self._audited_source = place.audited_source
        self._producer_epoch = place.producer_epoch
        self._sequence = place.sequence
        """Of the next batch of ours, as the log has them; None before the first."""
        self.begun_at = place.audited_to
        """Where it has begun; with the first receipt ever, there."""
        self._expected: deque[Expected] = deque()
        self._seen: deque[SeenBatch] = deque()
        self._fell_to = OFFSET_MAX
        """The lowest offset at which the log was seen to end below what was read of it."""
        self._compared_to, self._compared_epoch = 0, -1
        """Up to where, and to which producer epoch, it was compared before that."""
        self._given_up: dict[int, Expected] = {}
        """Receipts of what was told as lost at the log's end, by target offset."""
        self._missed: dict[int, int] = {}
        """CRCs of batches that do not lie where they were acknowledged -> where that was."""

    @property
    def place(self) -> AuditPlace:
        """How far the comparison has come: whoever has this can go on with what waits."""
        return AuditPlace(
            self.audited_to,
            self._receipt_epoch,
            self._receipt_to,
            self._audited_source,
            self._producer_epoch,
            self._sequence,
        )

    # -- taking in ------------------------------------------------------------------------------

    @property
    def wants_receipts(self) -> bool:
        return len(self._expected) < WAITING_MAX

    @property
    def wants_batches(self) -> bool:
        """Whether the log is to be read on; before the first receipt nothing could be judged."""
        if self._told_to < 0 or len(self._seen) >= WAITING_MAX:
            return False
        # In a shared copy what follows the last receipt is mostly the others'.
        return self._is_alone or self.seen_to < self.expected_to

    @property
    def reaches_to(self) -> int:
        """The target offset up to which the log must reach, or has reached before."""
        return max(self.expected_to, self._compared_to)

    @property
    def waiting_receipts(self) -> int:
        """Receipts that were not compared yet."""
        return len(self._expected) + len(self._cut_off)

    @property
    def first_record_offset(self) -> int | None:
        """Of the receipts topic's record with the first receipt that waits; None without one."""
        return self._expected[0].record_offset if self._expected else None

    @property
    def expected_to(self) -> int:
        """The target offset up to which the log must reach."""
        return self._expected[-1].receipt.target_next if self._expected else self.audited_to

    def expect(self, entry: Receipts, record_offset: int) -> None:
        """Take in the next record of the receipts topic."""
        sequence = entry.sequence
        if entry.producer_epoch > self._told_epoch:
            self._told_epoch = entry.producer_epoch
            if entry.receipts and entry.receipts[0].target_offset < self._told_to:
                self._cut_back(entry.receipts[0].target_offset)
        for told in entry.receipts:
            receipt = told
            if told.crc == NO_CRC and told.target_offset < self._told_to < told.target_next:
                # Compaction took several batches; who was killed had told the first of them.
                count = told.target_next - self._told_to
                receipt = told._replace(target_offset=self._told_to, records_count=count)
            if self._told_to < 0 and receipt.target_offset < self.audited_to:
                pass  # of an older generation, of which nothing was published
            elif self._told_to > receipt.target_offset >= self._fell_to:
                self._expect_again(receipt, entry.producer_epoch, sequence, record_offset)
            # What a successor found in the tail may have been told by who was killed.
            elif receipt.target_offset >= self._told_to:
                if self._told_to < 0:
                    self._begin(receipt.target_offset)
                self._told_to = receipt.target_next
                self._expected.append(
                    Expected(receipt, entry.producer_epoch, sequence, record_offset)
                )
            sequence = advance_sequence(sequence, told.records_count)

    def _expect_again(
        self, receipt: Receipt, producer_epoch: int, sequence: int, record_offset: int
    ) -> None:
        """Its place was told before, and the log was cut back since: it is copied again, unless
        somebody repeats the receipt."""
        if any(each.receipt == receipt for each in self._expected):
            return
        self._cut_back(receipt.target_offset)
        self._told_to = receipt.target_next
        self._expected.append(Expected(receipt, producer_epoch, sequence, record_offset))

    def _cut_back(self, target_offset: int) -> None:
        """A new producer epoch begins below what was acknowledged before: the log was cut back."""
        while self._expected and self._expected[-1].receipt.target_next > target_offset:
            self._cut_off.appendleft(self._expected.pop())
        self._told_to = target_offset
        self.fall_back(target_offset)

    def _begin(self, target_offset: int) -> None:
        """The flow's first receipt ever: what older versions wrote before is not judged."""
        self.begun_at = self.audited_to = self.seen_to = max(self.audited_to, target_offset)

    def move_records(self, record_offset: int) -> None:
        """Have everything that waits count as read from this record of the receipts topic."""
        self._expected = deque(
            each._replace(record_offset=record_offset) for each in self._expected
        )

    def see(self, batch: SeenBatch) -> None:
        """Take in the next batch of the log from `seen_to` on."""
        if batch.behind > self.seen_to:
            self._seen.append(batch)
            self.seen_to = batch.behind

    def reach(self, offset: int) -> None:
        """The log has nothing more below this offset: all of it was read."""
        self.seen_to = max(self.seen_to, offset)

    def fall_back(self, end: int) -> None:
        """The log ends there, below what was read: it was cut back, and is read again from there.

        Whether it has what was compared there shows when it has grown again, or has not.
        """
        self._seen = deque(each for each in self._seen if each.behind <= end)
        self.seen_to = max(end, self._seen[-1].behind if self._seen else 0)
        self._fell_to = min(self._fell_to, end)
        if end < self.audited_to:
            self._compared_to = max(self._compared_to, self.audited_to)
            self._compared_epoch = max(self._compared_epoch, self._producer_epoch)
            self.audited_to = end
            self._audited_source, self._sequence = -1, None

    # -- judging --------------------------------------------------------------------------------

    def judge(self, log_start_offset: int) -> Iterator[Judged]:
        """Whatever can be told by now; `log_start_offset` is where the target's log begins."""
        while self._cut_off:
            expected = self._cut_off.popleft()
            self._miss(expected.receipt)
            yield _judged(expected, Verdict.LOST, "the target's log was cut back before it")
        while True:
            judged = self._next(log_start_offset)
            if judged is None:
                return
            if judged is not _MOVED:
                yield judged

    def end(self) -> Iterator[Judged]:
        """The log ends below what was acknowledged, for so long that it will not grow there."""
        while self._expected and self._expected[0].receipt.target_next > self.seen_to:
            expected = self._expected.popleft()
            self._miss(expected.receipt)
            self._note_receipt(expected)
            self._given_up[expected.receipt.target_offset] = expected
            if len(self._given_up) > GIVEN_UP_MAX:
                del self._given_up[next(iter(self._given_up))]
            yield _judged(expected, Verdict.LOST, "the target's log ends before it")
        if self._compared_to > self.seen_to:
            start, end, self._compared_to = self.seen_to, self._compared_to, 0
            detail = "the log had these offsets when they were compared, and ends before them now"
            yield Judged(Verdict.LOST, end - start, start, end, None, None, None, detail)

    def _next(self, log_start_offset: int) -> Judged | None:
        expected = self._expected[0] if self._expected else None
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
                self._expected.popleft()
                self._note_receipt(expected)
                return _MOVED  # it was compared before the log was read again
            # The log was read up to there before the receipt came, and had nothing of ours.
            return self._miss_receipt(expected, "somebody else's batch lies there")
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
            # The log goes on behind the place, and has nothing there.
            return self._miss_receipt(expected, "the target has nothing at that offset")
        return None

    def _compare(self, expected: Expected, batch: SeenBatch) -> Judged | None:
        receipt, header = expected.receipt, batch.header
        if header.producer_id != self._producer_id or header.is_control:
            return self._lose(
                expected, f"producer {header.producer_id} wrote what lies at that offset"
            )
        self._seen.popleft()
        self._note_sequence(header)
        if header.last_offset_delta + 1 != receipt.records_count:
            return self._judge_receipt(
                expected,
                Verdict.ALTERED,
                f"the batch there has offsets for {header.last_offset_delta + 1} records",
            )
        if header.crc == receipt.crc and batch.is_sound:
            if header.records_count < receipt.records_count:
                # Whoever wrote the receipt had found the batch so.
                return self._judge_receipt(expected, Verdict.CLEANED, "compaction took some of it")
            if self._is_copied_again(expected):
                return self._judge_receipt(
                    expected, Verdict.DUPLICATED, "these source offsets were copied before"
                )
            return self._judge_receipt(expected, Verdict.COMPLETE)
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
        self._miss(receipt)
        swapped = self._place_of(header.crc)
        detail = f"CRC {header.crc:08x} there, {receipt.crc:08x} was acknowledged"
        if swapped is not None:
            detail += f": it is the batch that was acknowledged at {swapped}"
        return self._judge_receipt(expected, Verdict.ALTERED, detail)

    def _judge_unexpected(self, batch: SeenBatch, expected: Expected | None) -> Judged | None:
        """A batch that lies before the next receipt, or behind all."""
        header = batch.header
        if header.producer_id != self._producer_id or header.is_control:
            if not self._is_alone:
                # It may lie where a receipt that is still to come says that ours does.
                return None if expected is None else self._pass(batch)
            kind = "control batch" if header.is_control else "batch"
            return self._judge_batch(
                batch, Verdict.FOREIGN, f"a {kind} of producer {header.producer_id}"
            )
        given_up = self._given_up.pop(header.base_offset, None)
        if given_up is not None and given_up.receipt.crc == header.crc and batch.is_sound:
            self._note_sequence(header)
            self._pass(batch)
            return _judged(given_up, Verdict.COMPLETE, "it came late")
        if batch.behind <= self._compared_to and header.producer_epoch <= self._compared_epoch:
            self._note_sequence(header)
            return self._pass(batch)  # it was compared before the log was read again
        if self._is_repeated(header):
            return self._judge_batch(
                batch,
                Verdict.DUPLICATED,
                f"epoch {header.producer_epoch}, sequence {header.base_sequence} again",
            )
        if expected is None:
            return None  # its receipt is still to come
        self._note_sequence(header)
        return self._judge_batch(batch, Verdict.UNVERIFIED, "no receipt was written for it")

    def _is_repeated(self, header: BatchHeader) -> bool:
        if self._sequence is None:
            return False
        if header.producer_epoch != self._producer_epoch:
            return header.producer_epoch < self._producer_epoch
        return (header.base_sequence - self._sequence) & SEQUENCE_MASK > _BACKWARDS

    def _note_sequence(self, header: BatchHeader) -> None:
        self._producer_epoch = header.producer_epoch
        self._sequence = advance_sequence(header.last_sequence, 1)

    def _place_of(self, crc: int) -> int | None:
        """Where else a batch with this CRC was acknowledged, as far as that is remembered."""
        for each in self._expected:
            if each.receipt.crc == crc:
                return each.receipt.target_offset
        return self._missed.get(crc)

    def _miss(self, receipt: Receipt) -> None:
        """The batch does not lie where it was acknowledged."""
        self._missed[receipt.crc] = receipt.target_offset
        if len(self._missed) > MISSED_MAX:
            del self._missed[next(iter(self._missed))]

    def _is_copied_again(self, expected: Expected) -> bool:
        """Whether its records were acknowledged before, in the same epoch; a new epoch may begin
        further back."""
        receipt = expected.receipt
        is_exact = receipt.source_to - receipt.source_from == receipt.records_count
        return (
            is_exact
            and self._receipt_epoch == expected.producer_epoch
            and receipt.source_to <= self._audited_source
        )

    def _miss_receipt(self, expected: Expected, detail: str) -> Judged:
        """Nothing of ours lies at its place."""
        if self.is_compacted:
            return self._judge_receipt(expected, Verdict.CLEANED, "compaction took it")
        return self._lose(expected, detail)

    def _lose(self, expected: Expected, detail: str) -> Judged:
        self._miss(expected.receipt)
        return self._judge_receipt(expected, Verdict.LOST, detail)

    def _judge_receipt(self, expected: Expected, verdict: Verdict, detail: str = "") -> Judged:
        self._expected.popleft()
        receipt = expected.receipt
        self._note_receipt(expected)
        # Another batch may begin within: it is looked at next.
        behind = receipt.target_next
        if self._seen and self._seen[0].offset < behind:
            behind = max(receipt.target_offset, self._seen[0].offset)
        self.audited_to = max(self.audited_to, behind)
        self.seen_to = max(self.seen_to, self.audited_to)
        return _judged(expected, verdict, detail)

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
        self.audited_to = max(self.audited_to, batch.behind)
        return _MOVED


def _judged(expected: Expected, verdict: Verdict, detail: str) -> Judged:
    receipt = expected.receipt
    return Judged(
        verdict,
        receipt.records_count,
        receipt.target_offset,
        receipt.target_next,
        receipt.source_from,
        receipt.source_to,
        receipt.timestamp_ms,
        detail,
    )


_MOVED: Final = Judged(Verdict.COMPLETE, 0, 0, 0, None, None, None)
"""Nothing to tell, but something was passed."""
