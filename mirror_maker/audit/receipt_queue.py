"""The receipts of one flow that wait for the log, or whose batches are not in it. Pure."""

from __future__ import annotations

from collections import deque
from typing import Final

from mirror_maker.audit.evidence import Expected
from mirror_maker.formats.receipts import NO_CRC, Receipt, Receipts

MISSED_MAX: Final = 1_000
"""Remembered batches that are not at their place."""
GIVEN_UP_MAX: Final = 1_000
"""Remembered batches that were reported as lost at the log's end."""


class ReceiptQueue:
    """Receipts in target order."""

    def __init__(self, reported_to: int, reported_epoch: int) -> None:
        """`reported_to` is the target offset after the last receipt, -1 before the first one;
        `reported_epoch` is the producer epoch of that receipt."""
        self.reported_to = reported_to
        self._reported_epoch = reported_epoch
        self._waiting: deque[Expected] = deque()
        self._truncated: deque[Expected] = deque()
        """Receipts of batches that the log had lost before a later producer epoch began."""

    def __len__(self) -> int:
        return len(self._waiting) + len(self._truncated)

    @property
    def waiting_count(self) -> int:
        """Receipts that were not truncated."""
        return len(self._waiting)

    @property
    def first(self) -> Expected | None:
        return self._waiting[0] if self._waiting else None

    @property
    def expected_to(self) -> int | None:
        """The target offset that the log must reach; None if no receipt waits."""
        return self._waiting[-1].receipt.target_next if self._waiting else None

    def pop(self) -> Expected:
        return self._waiting.popleft()

    def pop_truncated(self) -> Expected | None:
        return self._truncated.popleft() if self._truncated else None

    def append(self, expected: Expected) -> None:
        self._waiting.append(expected)
        self.reported_to = expected.receipt.target_next

    def holds(self, receipt: Receipt) -> bool:
        return any(each.receipt == receipt for each in self._waiting)

    def place_of(self, crc: int) -> int | None:
        """Return the target offset of a waiting receipt with this CRC."""
        for each in self._waiting:
            if each.receipt.crc == crc:
                return each.receipt.target_offset
        return None

    def new_epoch_below(self, entry: Receipts) -> int | None:
        """Take the epoch of an entry.

        Returns the target offset at which a new producer epoch begins below what was reported
        before: the log was truncated there. Otherwise None.
        """
        if entry.producer_epoch <= self._reported_epoch:
            return None
        self._reported_epoch = entry.producer_epoch
        if entry.receipts and entry.receipts[0].target_offset < self.reported_to:
            return entry.receipts[0].target_offset
        return None

    def truncate(self, target_offset: int) -> None:
        """Set aside the receipts of batches that end above an offset: the log lost them."""
        while self._waiting and self._waiting[-1].receipt.target_next > target_offset:
            self._truncated.appendleft(self._waiting.pop())
        self.reported_to = target_offset

    def unreported_part(self, receipt: Receipt) -> Receipt:
        """Return the part of the receipt that was not reported before.

        A receipt without a CRC is about batches that compaction took. A killed worker may have
        reported the first of them.
        """
        if receipt.crc == NO_CRC and receipt.target_offset < self.reported_to < receipt.target_next:
            count = receipt.target_next - self.reported_to
            return receipt._replace(target_offset=self.reported_to, records_count=count)
        return receipt

    def move_records(self, record_offset: int) -> None:
        """Count everything that waits as read from this record of the receipts topic."""
        self._waiting = deque(
            [each._replace(record_offset=record_offset) for each in self._waiting]
        )


class MissedBatches:
    """Remembers batches that are not where they were acknowledged, the latest ones only."""

    def __init__(self) -> None:
        self._places: dict[int, int] = {}
        """By CRC, the target offset of the receipt."""
        self._given_up: dict[int, Expected] = {}
        """By target offset, the receipts of batches reported as lost at the log's end."""

    def add(self, receipt: Receipt) -> None:
        self._places[receipt.crc] = receipt.target_offset
        if len(self._places) > MISSED_MAX:
            del self._places[next(iter(self._places))]

    def place_of(self, crc: int) -> int | None:
        """Return where a batch with this CRC was acknowledged."""
        return self._places.get(crc)

    def give_up(self, expected: Expected) -> None:
        """Add a batch that is reported as lost at the log's end; it may still come late."""
        self.add(expected.receipt)
        self._given_up[expected.receipt.target_offset] = expected
        if len(self._given_up) > GIVEN_UP_MAX:
            del self._given_up[next(iter(self._given_up))]

    def pop_given_up(self, target_offset: int) -> Expected | None:
        return self._given_up.pop(target_offset, None)
