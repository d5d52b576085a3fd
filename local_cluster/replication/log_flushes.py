"""Which flusher makes the log of one replica durable, and who waits for that.

With a flusher a replica counts up to its flushed end offset, without one up to its log end offset.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, Protocol

from local_cluster.log.partition.partition_log import PartitionLog
from local_cluster.wire.errors import ErrorCode, KafkaError


class Flusher(Protocol):
    """Makes logs durable, and then calls `LogFlushes.flushed`."""

    def request(self, flushes: LogFlushes) -> None:
        """Flush the log soon, with all that is appended until then."""
        ...


class _PausedFlusher:
    def request(self, flushes: LogFlushes) -> None:
        return


_PAUSED: Final = _PausedFlusher()


class LogFlushes:
    """The flushes of one replica's log."""

    def __init__(
        self,
        log: PartitionLog,
        flusher: Flusher | None,
        *,
        on_flushed: Callable[[], None],
        on_failed: Callable[[ErrorCode], None],
    ) -> None:
        """Without a flusher nothing is flushed on request (`flush: page_cache`)."""
        self.log = log
        self._flusher = flusher
        self._paused_flusher: Flusher | None = None
        self._on_flushed = on_flushed
        self._on_failed = on_failed
        self._waits: list[asyncio.Future[None]] = []

    @property
    def durable_end_offset(self) -> int:
        """The end offset up to which this replica counts."""
        return self.log.log_end_offset if self._flusher is None else self.log.flushed_end_offset

    @property
    def is_required(self) -> bool:
        """Whether only flushed records count."""
        return self._flusher is not None

    def request(self) -> None:
        """Ask for a flush if anything is not durable."""
        if self._flusher is not None and self.log.flushed_end_offset < self.log.log_end_offset:
            self._flusher.request(self)

    def wait(self) -> asyncio.Future[None] | None:
        """Return a future for "all that was appended is durable", None if nothing is missing.

        It also ends when the replica stops following. It raises KafkaError if the log fails.
        """
        if self._flusher is None or self.log.flushed_end_offset >= self.log.log_end_offset:
            return None
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waits.append(future)
        self._flusher.request(self)
        return future

    def flushed(self) -> None:
        """Note that the log's flushed end offset has advanced."""
        if self._waits and self.log.flushed_end_offset >= self.log.log_end_offset:
            self.end_waits()
        self._on_flushed()

    def fail(self, code: ErrorCode) -> None:
        """Note that the log cannot be flushed any more."""
        self._on_failed(code)

    def end_waits(self, error: KafkaError | None = None) -> None:
        """End what waits for a flush, with an error if there is one."""
        waits, self._waits = self._waits, []
        for future in waits:
            if future.done():
                continue
            if error is None:
                future.set_result(None)
            else:
                future.set_exception(error)

    # -- a move to another log directory ----------------------------------------------------

    def is_flushed_by(self, flusher: Flusher) -> bool:
        """Whether requests go to this flusher now."""
        return self._flusher is flusher

    def pause(self) -> None:
        """Start no flush, so that the durable end offset is fixed."""
        if self._flusher is not None and self._paused_flusher is None:
            self._paused_flusher, self._flusher = self._flusher, _PAUSED

    def resume(self) -> None:
        """Flush again, including what was appended since `pause`."""
        if self._paused_flusher is not None:
            self._flusher, self._paused_flusher = self._paused_flusher, None
            self.request()

    def switch(self, log: PartitionLog, flusher: Flusher | None) -> None:
        """Continue with a log of the same records in another log directory."""
        assert log.log_end_offset == self.log.log_end_offset, "both logs end together"
        assert log.flushed_end_offset >= self.log.flushed_end_offset, "what counted still counts"
        self.log = log
        self._flusher, self._paused_flusher = flusher, None
        self.flushed()
        self.request()
