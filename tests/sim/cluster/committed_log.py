"""What was committed of one log of a simulated cluster, and what somebody asked to delete of it."""

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
        self.asked: list[int] = []
        """Before which offsets records were asked to be deleted, but for what was refused."""
        self._bases: list[int] = []
        self._positions: list[int] = []
        self._indexed_bytes = 0

    @property
    def may_begin(self) -> int:
        """No replica may have lost anything from here on."""
        return max(self.asked, default=0)

    def extend(self, batches: bytes, end_offset: int) -> None:
        """More is committed: whole batches."""
        self.content += batches
        self.end_offset = end_offset

    def position_of(self, offset: int) -> int:
        """Where the batch begins that contains an offset; the end for what is not there yet."""
        if offset <= 0:
            return 0
        if offset >= self.end_offset:
            return len(self.content)
        if self._indexed_bytes < len(self.content):
            # A copy, as an array that is viewed cannot grow.
            fresh = memoryview(bytes(self.content[self._indexed_bytes :]))
            for start, header in iter_headers(fresh):
                self._bases.append(header.base_offset)
                self._positions.append(self._indexed_bytes + start)
            self._indexed_bytes = len(self.content)
        return self._positions[bisect_right(self._bases, offset) - 1]

    def records(self) -> list[tuple[int, bytes | None]]:
        """Offsets and values, without what was repeated after it was deleted."""
        view = memoryview(bytes(self.content))
        return self.without_forgotten(
            (record.offset, record.value)
            for start, header in iter_headers(view)
            for record in decode_batch(view, start, header)
        )

    def without_forgotten(
        self, records: Iterable[tuple[int, bytes | None]]
    ) -> list[tuple[int, bytes | None]]:
        """Leave out what may have been deleted and was written once more.

        A replica that began anew knows nothing of who wrote before (as in Kafka): a producer that
        repeats what was not answered is not recognised. Nothing from `may_begin` on is let pass.
        """
        found = list(records)
        last = {value: offset for offset, value in found}
        return [
            (offset, value)
            for offset, value in found
            if offset >= self.may_begin or last[value] == offset
        ]
