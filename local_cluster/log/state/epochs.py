"""The leader epochs of one log: which epoch began at which offset (KIP-101, KIP-279).

Pure. Entries grow strictly in both epoch and start offset.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

UNDEFINED_EPOCH: Final = -1
UNDEFINED_OFFSET: Final = -1


class EpochEntry(NamedTuple):
    """The first offset that was written in an epoch."""

    epoch: int
    start_offset: int


class EpochEnd(NamedTuple):
    """Where an epoch ended: the answer of OffsetForLeaderEpoch. (-1, -1) where it is unknown."""

    epoch: int
    end_offset: int


class LeaderEpochs:
    """The epochs of a log, oldest first."""

    def __init__(self, entries: Iterable[EpochEntry] = ()) -> None:
        self._entries: list[EpochEntry] = []
        self.latest = UNDEFINED_EPOCH
        """The newest epoch, -1 if there is none."""
        self.replace(entries)

    @property
    def entries(self) -> Sequence[EpochEntry]:
        return tuple(self._entries)

    def replace(self, entries: Iterable[EpochEntry]) -> None:
        """Hold these entries instead, oldest first."""
        self.clear()
        for entry in entries:
            self.assign(entry.epoch, entry.start_offset)

    def assign(self, epoch: int, start_offset: int) -> bool:
        """Note that `epoch` begins at `start_offset`; return whether that changed anything.

        Entries that contradict it (an equal or later start) came from a tail that was replaced.
        """
        if epoch < 0 or epoch <= self.latest:
            return False
        while self._entries and self._entries[-1].start_offset >= start_offset:
            self._entries.pop()
        self._entries.append(EpochEntry(epoch, start_offset))
        self.latest = epoch
        return True

    def epoch_of(self, offset: int) -> int:
        """Return the epoch in which `offset` was written, -1 if unknown."""
        index = bisect_right(self._entries, offset, key=lambda entry: entry.start_offset)
        return self._entries[index - 1].epoch if index else UNDEFINED_EPOCH

    def end_of(self, epoch: int, log_end_offset: int) -> EpochEnd:
        """Return the largest epoch <= `epoch` and its end. Source: LeaderEpochFileCache."""
        if epoch == UNDEFINED_EPOCH or not self._entries:
            return EpochEnd(UNDEFINED_EPOCH, UNDEFINED_OFFSET)
        if epoch == self.latest:
            return EpochEnd(epoch, log_end_offset)
        if epoch > self.latest:
            return EpochEnd(UNDEFINED_EPOCH, UNDEFINED_OFFSET)
        index = bisect_right(self._entries, epoch, key=lambda entry: entry.epoch)
        end_offset = self._entries[index].start_offset
        return EpochEnd(self._entries[index - 1].epoch if index else epoch, end_offset)

    def truncate_end(self, offset: int) -> bool:
        """Forget the epochs that began at `offset` or later; return whether there were any."""
        count = len(self._entries)
        while self._entries and self._entries[-1].start_offset >= offset:
            self._entries.pop()
        self.latest = self._entries[-1].epoch if self._entries else UNDEFINED_EPOCH
        return len(self._entries) != count

    def truncate_start(self, offset: int) -> bool:
        """Forget what ended before `offset`; the epoch that holds it then begins there.

        Return whether anything changed.
        """
        index = bisect_right(self._entries, offset, key=lambda entry: entry.start_offset) - 1
        if index < 0 or (index == 0 and self._entries[0].start_offset == offset):
            return False
        self._entries[: index + 1] = [EpochEntry(self._entries[index].epoch, offset)]
        return True

    def clear(self) -> None:
        """Forget every epoch."""
        self._entries.clear()
        self.latest = UNDEFINED_EPOCH
