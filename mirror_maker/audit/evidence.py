"""A batch seen in the log, a receipt expected there, and the verdict about both. Pure."""

from __future__ import annotations

from typing import Final, NamedTuple

from local_cluster.records.header import SEQUENCE_MASK, BatchHeader
from mirror_maker.formats.receipts import Receipt
from mirror_maker.formats.verdicts import Verdict
from mirror_maker.model import advance_sequence

_BACKWARDS: Final = 1 << 30
"""A larger distance between sequences is a step back, modulo 2**31."""


class SeenBatch(NamedTuple):
    """A batch that the log holds."""

    header: BatchHeader
    is_sound: bool
    """Whether its bytes have the CRC-32C that its header says."""

    @property
    def offset(self) -> int:
        return self.header.base_offset

    @property
    def next_offset(self) -> int:
        return self.header.next_offset


class Expected(NamedTuple):
    """A receipt with its place in the producer's sequence."""

    receipt: Receipt
    producer_epoch: int
    sequence: int
    record_offset: int
    """Offset of its record in the receipts topic."""


class Judged(NamedTuple):
    """The verdict about one batch; offsets of a side that has nothing are None."""

    verdict: Verdict
    records_count: int
    target_from: int
    target_to: int
    source_from: int | None
    source_to: int | None
    timestamp_ms: int | None
    """The largest timestamp of its records; None if unknown."""
    detail: str = ""


def judge_expected(expected: Expected, verdict: Verdict, detail: str) -> Judged:
    """Return the verdict about the batch of a receipt."""
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


class OwnSequence:
    """The sequence of our batches, as the log has them."""

    def __init__(self, producer_epoch: int, next_sequence: int | None) -> None:
        self.producer_epoch = producer_epoch
        self.next_sequence = next_sequence
        """Sequence of our next batch; None before the first."""

    def is_repeated(self, header: BatchHeader) -> bool:
        """Return whether the log had this sequence, or a later one, before."""
        if self.next_sequence is None:
            return False
        if header.producer_epoch != self.producer_epoch:
            return header.producer_epoch < self.producer_epoch
        return (header.base_sequence - self.next_sequence) & SEQUENCE_MASK > _BACKWARDS

    def note(self, header: BatchHeader) -> None:
        """Take the next batch of ours."""
        self.producer_epoch = header.producer_epoch
        self.next_sequence = advance_sequence(header.last_sequence, 1)
