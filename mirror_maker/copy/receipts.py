"""The receipts of one flow, collected as batches are acknowledged. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from local_cluster.records import header as h
from mirror_maker.formats.receipts import NO_CRC, Receipt, Receipts, split_receipts
from mirror_maker.model import advance_sequence
from mirror_maker.tail.alignment import Place
from mirror_maker.tail.target_tail import Missing, TargetBatch

RECEIPTS_KEPT_MAX: Final = 50_000
"""Receipts of one flow that wait to be written, about 10 MB. Beyond, the oldest are dropped: the
audit then calls their batches UNVERIFIED."""
TIMESTAMP_MS_MAX: Final = 1 << 60


class FlowReceipts:
    """Grows with every acknowledgement; `take` gives what is to be written now."""

    def __init__(self, flow_id: int, producer_epoch: int, next_sequence: int) -> None:
        """`next_sequence` is that of the first batch to be acknowledged."""
        self._flow_id = flow_id
        self._producer_epoch = producer_epoch
        self._sequence = next_sequence
        self._receipts: list[tuple[int, Receipt]] = []
        """(sequence of the first record, receipt); of some batches there is none."""

    @property
    def has_news(self) -> bool:
        return bool(self._receipts)

    def acknowledged(
        self, source_from: int, source_to: int, target_offset: int, data: h.Buffer
    ) -> None:
        """The target has this batch at this offset; its records are of these source offsets."""
        receipt = _receipt(source_from, source_to, target_offset, data)
        self._add(self._sequence, receipt)
        self._sequence = advance_sequence(self._sequence, receipt.records_count)

    def paired(
        self, spans: Iterable[TargetBatch | Missing], sequence: int, pieces: Sequence[Place]
    ) -> None:
        """Copies found on the target, or missing there, with their places in the source, ascending.

        `sequence` is that of the first of them. They come before the one with `next_sequence`. What
        compaction took has no CRC any more: the audit finds nothing there, and tells it as CLEANED.
        """
        at = 0
        for span in spans:
            begin, behind, count = span.target_from, span.target_to, span.records_count
            while at < len(pieces) and pieces[at].target_to <= begin:
                at += 1
            first = last = at
            while last + 1 < len(pieces) and pieces[last + 1].target_from < behind:
                last += 1
            if first < len(pieces) and span.is_placed:
                source_from, _ = pieces[first].sources(begin)
                _, source_to = pieces[last].sources(behind - 1)
                if isinstance(span, Missing):
                    receipt = Receipt(source_from, source_to, begin, count, NO_CRC, -1)
                else:
                    receipt = _receipt(source_from, source_to, begin, span.view)
                self._add(sequence, receipt)
            sequence = advance_sequence(sequence, count)

    def take(self) -> list[Receipts]:
        """What is to be written, in order; a caller whose write failed gives it back."""
        taken: list[Receipts] = []
        first = 0
        while first < len(self._receipts):
            last, sequence = first, self._receipts[first][0]
            while last < len(self._receipts) and self._receipts[last][0] == sequence:
                sequence = advance_sequence(sequence, self._receipts[last][1].records_count)
                last += 1
            taken += split_receipts(
                self._flow_id,
                self._producer_epoch,
                self._receipts[first][0],
                [receipt for _, receipt in self._receipts[first:last]],
            )
            first = last
        self._receipts = []
        return taken

    def put_back(self, taken: Sequence[Receipts]) -> None:
        """The write of `take` is not known to have happened. To write a receipt twice does no
        harm."""
        before: list[tuple[int, Receipt]] = []
        for entry in taken:
            sequence = entry.sequence
            for receipt in entry.receipts:
                before.append((sequence, receipt))
                sequence = advance_sequence(sequence, receipt.records_count)
        self._receipts[:0] = before
        if len(self._receipts) > RECEIPTS_KEPT_MAX:
            del self._receipts[: len(self._receipts) - RECEIPTS_KEPT_MAX]

    def _add(self, sequence: int, receipt: Receipt) -> None:
        self._receipts.append((sequence, receipt))
        if len(self._receipts) > RECEIPTS_KEPT_MAX:
            del self._receipts[: len(self._receipts) // 2]


def _receipt(source_from: int, source_to: int, target_offset: int, data: h.Buffer) -> Receipt:
    header = h.read_header(data)
    timestamp_ms = max(-1, min(header.max_timestamp, TIMESTAMP_MS_MAX))
    # A batch keeps its offsets when compaction takes records from it.
    records_count = header.last_offset_delta + 1
    return Receipt(source_from, source_to, target_offset, records_count, header.crc, timestamp_ms)
