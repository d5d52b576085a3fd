"""The receipts of one flow, collected as batches are acknowledged. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from local_cluster.records import header as h

from ..alignment import Place
from ..formats.receipts import Receipt, Receipts, split_receipts
from ..model import advance_sequence

RECEIPTS_KEPT_MAX: Final = 50_000
"""Receipts of one flow that wait to be written, about 10 MB. Beyond, the oldest are dropped: the
audit then calls their batches UNVERIFIED."""
TIMESTAMP_MS_MAX: Final = 1 << 60


class FlowReceipts:
    """Grows with every acknowledgement; `take` gives what is to be written now."""

    def __init__(self, flow_id: int, producer_epoch: int, next_sequence: int) -> None:
        """`next_sequence` is that of the first batch to come."""
        self._flow_id = flow_id
        self._producer_epoch = producer_epoch
        self._sequence = next_sequence
        self._receipts: list[Receipt] = []
        self._records_count = 0

    @property
    def has_news(self) -> bool:
        return bool(self._receipts)

    def acknowledged(
        self, source_from: int, source_to: int, target_offset: int, data: h.Buffer
    ) -> None:
        """The target has this batch at this offset; its records are of these source offsets."""
        fields = h.unpack_fields(data, 0)
        crc, timestamp_ms, records_count = fields[4], fields[8], fields[12]
        timestamp_ms = max(-1, min(timestamp_ms, TIMESTAMP_MS_MAX))
        self._receipts.append(
            Receipt(source_from, source_to, target_offset, records_count, crc, timestamp_ms)
        )
        self._records_count += records_count
        if len(self._receipts) > RECEIPTS_KEPT_MAX:
            self._drop(len(self._receipts) // 2)

    def paired(self, batches: Iterable[h.Buffer], pieces: Sequence[Place]) -> None:
        """Batches that lie on the target already, with their places in the source, ascending."""
        at = 0
        for data in batches:
            header = h.read_header(data)
            while at < len(pieces) and pieces[at].target_to <= header.base_offset:
                at += 1
            first = last = at
            while last + 1 < len(pieces) and pieces[last + 1].target_from < header.next_offset:
                last += 1
            if first < len(pieces):
                source_from, _ = pieces[first].sources(header.base_offset)
                _, source_to = pieces[last].sources(header.next_offset - 1)
                self.acknowledged(source_from, source_to, header.base_offset, data)

    def take(self) -> list[Receipts]:
        """What is to be written, in order; a caller whose write failed gives it back."""
        if not self._receipts:
            return []
        taken = split_receipts(self._flow_id, self._producer_epoch, self._sequence, self._receipts)
        self._sequence = advance_sequence(self._sequence, self._records_count)
        self._receipts, self._records_count = [], 0
        return taken

    def put_back(self, taken: Sequence[Receipts]) -> None:
        """The write of `take` is not known to have happened. To write a receipt twice does no
        harm."""
        if not taken:
            return
        before = [receipt for entry in taken for receipt in entry.receipts]
        self._sequence = taken[0].sequence
        self._receipts[:0] = before
        self._records_count += sum(receipt.records_count for receipt in before)
        if len(self._receipts) > RECEIPTS_KEPT_MAX:
            self._drop(len(self._receipts) - RECEIPTS_KEPT_MAX)

    def _drop(self, count: int) -> None:
        dropped = sum(receipt.records_count for receipt in self._receipts[:count])
        del self._receipts[:count]
        self._records_count -= dropped
        self._sequence = advance_sequence(self._sequence, dropped)
