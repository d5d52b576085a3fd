"""Group commit: one round of syncing makes durable whatever was appended before it began.

Appends mark their partition dirty. One thread of its own syncs, a round at a time; while it does,
the next appends gather, so the number of rounds follows the disk and not the number of requests,
and the loop is woken once a round. log/disk/file_system.py chooses how the dirty files are synced.

A sync error is never retried (the kernel may have dropped the dirty pages): it is fatal to the log
directory, whose replicas go offline.
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

from local_cluster.log.disk.file_system import FileSystem, SyncChoice
from local_cluster.log.partition.partition_log import FlushJob, PartitionLog
from local_cluster.replication.partition_flushes import PartitionFlushes
from local_cluster.wire.errors import ErrorCode

THREADS_MAX: Final = 4
"""Threads that sync side by side where a round goes file by file."""
SHARED_TICKETS_MIN: Final = 4
"""A round over fewer logs is not split: waking a thread costs more than a short wait."""
RETRY_SECONDS: Final = 1.0
"""Before a log whose flush could not even begin is tried again."""

_log = logging.getLogger(__name__)

Round = Sequence[tuple[PartitionFlushes, PartitionLog, FlushJob]]


class GroupCommit:
    """Runs rounds over the dirty partitions of one log directory."""

    def __init__(self, log_dir: str, on_fatal: Callable[[BaseException], None]) -> None:
        self._log_dir = log_dir
        self._on_fatal = on_fatal
        self._dirty: dict[PartitionFlushes, None] = {}
        self._is_busy = False
        self._failed = False
        self._is_stopped = False
        self._rounds: SimpleQueue[Round | None] = SimpleQueue()
        self._loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._run, name="group-commit", daemon=True)
        self._pool = ThreadPoolExecutor(THREADS_MAX, thread_name_prefix="fsync")
        self._file_system: FileSystem | None = None

    def start(self) -> None:
        """Begin with rounds. The log directory is there. Raises OSError."""
        self._file_system = FileSystem.of(self._log_dir)
        self._thread.start()

    async def stop(self) -> None:
        """Finish the round that runs; what is dirty then is flushed by closing the logs."""
        self._is_stopped = True
        self._rounds.put(None)
        if self._thread.is_alive():
            await asyncio.to_thread(self._thread.join)
        self._pool.shutdown(wait=True)
        if self._file_system is not None:
            self._file_system.close()
            self._file_system = None

    def request(self, partition: PartitionFlushes) -> None:
        """Make what this partition has appended so far durable soon."""
        if self._failed:
            partition.fail_parked(ErrorCode.kafka_storage_error)
            return
        self._dirty[partition] = None
        if not self._is_busy and not self._is_stopped:
            # Not at once: the other requests of this turn of the loop join the round.
            self._is_busy = True
            self._loop.call_soon(self._begin)

    # -- on the loop ------------------------------------------------------------------------

    def _begin(self) -> None:
        dirty, self._dirty = self._dirty, {}
        tickets = []
        for partition in dirty:
            if not partition.is_flushed_by(self):
                # It moved to another log directory, or does now, and is flushed with that one.
                partition.request_flush()
                continue
            ticket = partition.log.flusher.begin_flush()
            if ticket is not None:
                tickets.append((partition, partition.log, ticket))
            elif partition.log.flusher.needs_flush:
                # No space or no descriptor for it just now; its producers wait.
                self._loop.call_later(RETRY_SECONDS, self.request, partition)
        self._is_busy = bool(tickets)
        if tickets:
            self._rounds.put(tickets)

    def _end(self, done: Round, error: BaseException | None) -> None:
        if error is not None:
            self._fail(error, done)
            return
        for partition, log, ticket in done:
            # Of the log that it was made for: the partition may have another one by now.
            log.flusher.complete_flush(ticket)
            partition.flushed()
        if self._dirty and not self._is_stopped:
            self._begin()
        else:
            self._is_busy = False

    def _fail(self, error: BaseException, tickets: Round) -> None:
        self._failed = True
        _log.critical("fsync failed, the log directory is lost to this broker: %r", error)
        for partition in {*(partition for partition, _, _ in tickets), *self._dirty}:
            partition.fail_parked(ErrorCode.kafka_storage_error)
        self._on_fatal(error)

    # -- in the thread ----------------------------------------------------------------------

    def _run(self) -> None:
        choice = SyncChoice(has_whole=self._file_system is not None)
        while (tickets := self._rounds.get()) is not None:
            error: BaseException | None = None
            try:
                self._sync([ticket for _, _, ticket in tickets], choice)
            except Exception as raised:  # noqa: BLE001 - whatever it is, nothing is durable
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
        assert self._file_system is not None, "chosen only where there is one"
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
