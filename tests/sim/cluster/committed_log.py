"""The committed records of one log of a simulated cluster, and the requested deletions."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

from local_cluster.records.batch import decode_batch
from local_cluster.records.header import iter_headers


class CommittedLog:
    """The bytes below the highest high watermark seen, from offset 0 on, deleted or not."""

    def __init__(self) -> None:
        self.content = bytearray()
        self.end_offset = 0
        self.requested: list[int] = []
        """Offsets before which deletion was requested and not refused."""
        self._bases: list[int] = []
        self._positions: list[int] = []
        self._indexed_bytes = 0

    @property
    def start_offset_max(self) -> int:
        """The highest log start offset that a replica may have."""
        return max(self.requested, default=0)

    def extend(self, batches: bytes, end_offset: int) -> None:
        """Append whole batches that were committed."""
        self.content += batches
        self.end_offset = end_offset

    def position_of(self, offset: int) -> int:
        """Return the position of the batch with an offset; the end for a later offset."""
        if offset <= 0:
            return 0
        if offset >= self.end_offset:
            return len(self.content)
        if self._indexed_bytes < len(self.content):
            # A copy, because an array with a view cannot grow.
            fresh = memoryview(bytes(self.content[self._indexed_bytes :]))
            for start, header in iter_headers(fresh):
                self._bases.append(header.base_offset)
                self._positions.append(self._indexed_bytes + start)
            self._indexed_bytes = len(self.content)
        return self._positions[bisect_right(self._bases, offset) - 1]

    def records(self) -> list[tuple[int, bytes | None]]:
        """Return offsets and values, without repetitions of deleted records."""
        view = memoryview(bytes(self.content))
        return self.without_forgotten(
            (record.offset, record.value)
            for start, header in iter_headers(view)
            for record in decode_batch(view, start, header)
        )

    def without_forgotten(
        self, records: Iterable[tuple[int, bytes | None]]
    ) -> list[tuple[int, bytes | None]]:
        """Leave out records that may have been deleted and were written once more.

        A replica that started over has no producer state of deleted records (as in Kafka), so it
        does not recognise the retry of an unanswered request. No record from `start_offset_max` on
        is left out.
        """
        found = list(records)
        last = {value: offset for offset, value in found}
        return [
            (offset, value)
            for offset, value in found
            if offset >= self.start_offset_max or last[value] == offset
        ]
