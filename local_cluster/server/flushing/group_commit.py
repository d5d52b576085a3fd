"""Group commit: one round of syncs makes durable all that was appended before the round began.

Requests mark a log dirty. A thread of its own syncs, one round at a time. While it does, the next
appends gather: so the number of rounds follows the disk and not the number of requests, and the
loop is woken once per round. flush_gathering.py decides when a round begins,
log/disk/file_system.py how the dirty files are synced.

A sync error is never retried, because the kernel may have dropped the dirty pages. It is fatal to
the log directory, whose replicas go offline.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from typing import Final

from local_cluster.log.disk.disk_work import FlushJob
from local_cluster.log.disk.file_system import FileSystem, SyncChoice
from local_cluster.log.partition.partition_log import PartitionLog
from local_cluster.replication.log_flushes import LogFlushes
from local_cluster.server.flushing.flush_gathering import FlushGathering
from local_cluster.wire.errors import ErrorCode

THREADS_MAX: Final = 4
"""Threads that sync side by side in a round that goes file by file."""
SHARED_TICKETS_MIN: Final = 4
"""A round over fewer logs is not split: waking a thread costs more than a short wait."""
RETRY_SECONDS: Final = 1.0
"""Delay before a log is retried whose flush could not even begin."""

log = logging.getLogger(__name__)

Round = Sequence[tuple[LogFlushes, PartitionLog, FlushJob]]


class GroupCommit:
    """The rounds over the dirty logs of one log directory."""

    def __init__(
        self,
        log_dir: str,
        on_fatal: Callable[[BaseException], None],
        *,
        retry_seconds: float = RETRY_SECONDS,
    ) -> None:
        self._log_dir = log_dir
        self._on_fatal = on_fatal
        self._retry_seconds = retry_seconds
        self._dirty: dict[LogFlushes, None] = {}
        self._gathering = FlushGathering()
        self._is_busy = False
        self._failed = False
        self._is_stopped = False
        self._rounds: SimpleQueue[Round | None] = SimpleQueue()
        self._loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._run, name="group-commit", daemon=True)
        self._pool = ThreadPoolExecutor(THREADS_MAX, thread_name_prefix="fsync")
        self._file_system: FileSystem | None = None

    def start(self) -> None:
        """Start the rounds. The log directory must exist. Raises OSError."""
        self._file_system = FileSystem.of(self._log_dir)
        self._thread.start()

    async def stop(self) -> None:
        """Finish the running round. Closing the logs flushes what is still dirty."""
        self._is_stopped = True
        self._rounds.put(None)
        if self._thread.is_alive():
            await asyncio.to_thread(self._thread.join)
        self._pool.shutdown(wait=True)
        if self._file_system is not None:
            self._file_system.close()
            self._file_system = None

    def request(self, flushes: LogFlushes) -> None:
        """Make durable soon what this log has now."""
        if self._failed:
            flushes.fail(ErrorCode.kafka_storage_error)
            return
        self._dirty[flushes] = None
        self._gathering.requested()
        if not self._is_busy and not self._is_stopped:
            # Not at once: the other requests of this turn of the loop join the round.
            self._is_busy = True
            self._loop.call_soon(self._begin)

    # -- on the loop ------------------------------------------------------------------------

    def _begin(self) -> None:
        if not self._gathering.begins(time.monotonic()):
            # Not by a timer: the loop's are too coarse. Each turn takes the requests that came.
            self._loop.call_soon(self._begin)
            return
        dirty, self._dirty = self._dirty, {}
        tickets = []
        for flushes in dirty:
            if not flushes.is_flushed_by(self):
                # The replica has moved, or is moving, to another log directory.
                flushes.request()
                continue
            ticket = flushes.log.flusher.begin_flush()
            if ticket is not None:
                tickets.append((flushes, flushes.log, ticket))
            elif flushes.log.flusher.needs_flush:
                # There is no space or no descriptor for it just now. Its producers wait.
                self._loop.call_later(self._retry_seconds, self.request, flushes)
        self._is_busy = bool(tickets)
        if tickets:
            self._rounds.put(tickets)

    def _end(self, done: Round, error: BaseException | None) -> None:
        if error is not None:
            self._fail(error, done)
            return
        self._gathering.ended(time.monotonic())
        for flushes, flushed_log, ticket in done:
            # The replica may have another log by now.
            flushed_log.flusher.complete_flush(ticket)
            flushes.flushed()
        if self._dirty and not self._is_stopped:
            self._begin()
        else:
            self._is_busy = False

    def _fail(self, error: BaseException, tickets: Round) -> None:
        self._failed = True
        log.critical("fsync failed, so the log directory %s is lost: %r", self._log_dir, error)
        for flushes in {*(flushes for flushes, _, _ in tickets), *self._dirty}:
            flushes.fail(ErrorCode.kafka_storage_error)
        self._on_fatal(error)

    # -- in the thread ----------------------------------------------------------------------

    def _run(self) -> None:
        choice = SyncChoice(has_whole=self._file_system is not None)
        while (tickets := self._rounds.get()) is not None:
            error: BaseException | None = None
            try:
                self._sync([ticket for _, _, ticket in tickets], choice)
            except Exception as raised:  # noqa: BLE001 - after any error nothing is durable
                error = raised
            self._loop.call_soon_threadsafe(self._end, tickets, error)

    def _sync(self, tickets: list[FlushJob], choice: SyncChoice) -> None:
        files_count = sum(len(ticket.files) for ticket in tickets)
        began = time.monotonic()
        is_whole = choice.is_whole(files_count, began)
        if is_whole:
            self._sync_whole(tickets)
        elif len(tickets) < SHARED_TICKETS_MIN:
            _run_all(tickets)
        else:
            shares = [tickets[start::THREADS_MAX] for start in range(THREADS_MAX)]
            for done in [self._pool.submit(_run_all, share) for share in shares]:
                done.result()
        ended = time.monotonic()
        choice.record(files_count, ended - began, ended, is_whole=is_whole)

    def _sync_whole(self, tickets: list[FlushJob]) -> None:
        assert self._file_system is not None, "SyncChoice knows whether there is one"
        try:
            self._file_system.sync()
        except OSError as error:
            for ticket in tickets[1:]:
                ticket.failed(error)
            raise tickets[0].failed(error) from error
        for ticket in tickets:
            ticket.mark_done()


def _run_all(tickets: list[FlushJob]) -> None:
    for ticket in tickets:
        ticket.run()
