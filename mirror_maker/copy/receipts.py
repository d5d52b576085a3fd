"""The receipts of one flow, collected as batches are acknowledged. Pure.

A *receipt* says which batch the target acknowledged at which offset. The audit compares it with the
target's log (`formats/receipts.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from local_cluster.records.header import Buffer, read_header
from mirror_maker.formats.receipts import NO_CRC, Receipt, Receipts, split_receipts
from mirror_maker.model import advance_sequence
from mirror_maker.tail.places import Place
from mirror_maker.tail.target_tail import Missing, TargetBatch

RECEIPTS_KEPT_MAX: Final = 50_000
"""Receipts of one flow that wait to be written, about 10 MB. Beyond, the oldest are dropped, and
the audit reports their batches as UNVERIFIED."""
TIMESTAMP_MS_MAX: Final = 1 << 60


class FlowReceipts:
    """Receipts that wait to be written; `take` returns them."""

    def __init__(self, flow_id: int, producer_epoch: int, next_sequence: int) -> None:
        """`next_sequence` is the sequence of the first batch to be acknowledged."""
        self._flow_id = flow_id
        self._producer_epoch = producer_epoch
        self._sequence = next_sequence
        self._receipts: list[tuple[int, Receipt]] = []
        """(sequence of the first record, receipt); some batches have none."""

    @property
    def has_unwritten(self) -> bool:
        return bool(self._receipts)

    def acknowledged(
        self, source_from: int, source_to: int, target_offset: int, data: Buffer
    ) -> None:
        """Add a batch with these source offsets that the target has at this offset."""
        receipt = _receipt(source_from, source_to, target_offset, data)
        self._add(self._sequence, receipt)
        self._sequence = advance_sequence(self._sequence, receipt.records_count)

    def paired(
        self, spans: Iterable[TargetBatch | Missing], sequence: int, places: Sequence[Place]
    ) -> None:
        """Add the copies of a tail, ascending: found on the target, or missing there.

        `places` are their source offsets, `sequence` is the first one's. They precede the batch
        with `next_sequence`. Copies that compaction took have no CRC: the audit finds nothing there
        and reports them as CLEANED.
        """
        at = 0
        for span in spans:
            start, end, count = span.target_from, span.target_to, span.records_count
            while at < len(places) and places[at].target_to <= start:
                at += 1
            first = last = at
            while last + 1 < len(places) and places[last + 1].target_from < end:
                last += 1
            if first < len(places) and span.is_placed:
                source_from, _ = places[first].sources(start)
                _, source_to = places[last].sources(end - 1)
                if isinstance(span, Missing):
                    receipt = Receipt(source_from, source_to, start, count, NO_CRC, -1)
                else:
                    receipt = _receipt(source_from, source_to, start, span.view)
                self._add(sequence, receipt)
            sequence = advance_sequence(sequence, count)

    def take(self) -> list[Receipts]:
        """Return what is to be written, in order. If that fails, the caller calls `put_back`."""
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
        """Queue the result of `take` again: its write may not have happened.

        To write a receipt twice does no harm.
        """
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


def _receipt(source_from: int, source_to: int, target_offset: int, data: Buffer) -> Receipt:
    header = read_header(data)
    timestamp_ms = max(-1, min(header.max_timestamp, TIMESTAMP_MS_MAX))
    # Compaction removes records, not offsets.
    records_count = header.last_offset_delta + 1
    return Receipt(source_from, source_to, target_offset, records_count, header.crc, timestamp_ms)
