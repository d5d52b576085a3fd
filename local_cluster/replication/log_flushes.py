"""How what a replica appended becomes durable, and who flushes it while it changes its directory.

With a flusher a replica counts as far as it has fsynced, without one as far as it has written.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from typing import Final, Protocol

from local_cluster.log.partition.partition_log import PartitionLog
from local_cluster.replication.purgatory import PartitionWaits


class Flusher(Protocol):
    """Who makes appended records durable and calls `PartitionFlushes.flushed` afterwards."""

    def request(self, partition: PartitionFlushes) -> None: ...


class _Held:
    """A flusher that flushes nothing: another one does in a moment."""

    def request(self, partition: PartitionFlushes) -> None:
        return


_HELD: Final = _Held()


class PartitionFlushes(PartitionWaits, ABC):
    """The part of a partition that has to do with its disk: what a flusher knows of it."""

    def __init__(self, log: PartitionLog, flusher: Flusher | None, *, high_watermark: int) -> None:
        super().__init__(min(max(high_watermark, log.log_start_offset), log.log_end_offset))
        self.log = log
        self._flusher = flusher
        self._held_flusher: Flusher | None = None

    @abstractmethod
    def _advance(self) -> None:
        """More may be committed: raise the high watermark where it is."""

    def durable(self) -> asyncio.Future[None] | None:
        """A future for "all that was appended is on the disk"; None where it is, or need not be.

        It ends as well when this replica no longer follows, and fails where the disk does.
        """
        if self._flusher is None or self.log.flushed_end_offset >= self.log.log_end_offset:
            return None
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._awaiting_disk.append(future)
        self._flusher.request(self)
        return future

    def request_flush(self) -> None:
        """Have made durable what is not, where the log is flushed at all."""
        if self._flusher is not None and self.log.flushed_end_offset < self.log.log_end_offset:
            self._flusher.request(self)

    def flushed(self) -> None:
        """The log's flushed end offset has moved."""
        if self._awaiting_disk and self.log.flushed_end_offset >= self.log.log_end_offset:
            self._settle_disk_waits()
        self._advance()

    def is_flushed_by(self, flusher: Flusher) -> bool:
        """Whether this is who makes the records durable now; else somebody else is asked to."""
        return self._flusher is flusher

    def hold_flushes(self) -> None:
        """Begin no flush of the log any more: nothing more is committed by it for a moment."""
        if self._flusher is not None and self._held_flusher is None:
            self._held_flusher, self._flusher = self._flusher, _HELD

    def resume_flushes(self) -> None:
        """Flush again, and what waited for it."""
        if self._held_flusher is not None:
            self._flusher, self._held_flusher = self._held_flusher, None
            self.request_flush()

    def relocate(self, log: PartitionLog, flusher: Flusher | None) -> None:
        """Go on with another log of the same records, in another log directory."""
        assert log.log_end_offset == self.log.log_end_offset, "the logs end together"
        assert log.flushed_end_offset >= self.log.flushed_end_offset, "nothing counted is lost"
        self.log = log
        self._flusher, self._held_flusher = flusher, None
        self.flushed()
        self.request_flush()

    def cut_high_watermark(self) -> None:
        """The log was cut back, or begins anew: the high watermark lies within it."""
        self._high_watermark = min(
            max(self._high_watermark, self.log.log_start_offset), self.log.log_end_offset
        )

    def _in_sync_end_offset(self) -> int:
        if self._flusher is None:
            return self.log.log_end_offset
        return self.log.flushed_end_offset
