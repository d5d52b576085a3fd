"""Group commit: one round of fsync makes durable whatever was appended before it began.

Appends mark their partition dirty. While a round runs in worker threads the next appends gather,
so the number of rounds follows the disk and not the number of requests. An fsync error is never
retried (the kernel may have dropped the dirty pages): it is fatal to the log directory, and the
broker stops.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from local_cluster.log.partition_log import FlushTicket
from local_cluster.replication.partition import Partition
from local_cluster.wire.errors import ErrorCode

THREADS_MAX: Final = 4
"""Threads that fsync side by side; a round is split over them."""

_log = logging.getLogger(__name__)


class GroupCommit:
    """Runs rounds of fsync over the dirty partitions of one log directory."""

    def __init__(self, on_fatal: Callable[[BaseException], None]) -> None:
        self._on_fatal = on_fatal
        self._dirty: dict[Partition, None] = {}
        self._wanted = asyncio.Event()
        self._pool = ThreadPoolExecutor(THREADS_MAX, thread_name_prefix="fsync")
        self._task: asyncio.Task[None] | None = None
        self._failed = False

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="group-commit")

    async def stop(self) -> None:
        """Finish the round that runs; what is dirty then is flushed by closing the logs."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._pool.shutdown(wait=True)

    def request(self, partition: Partition) -> None:
        """Make what this partition has appended so far durable soon."""
        if self._failed:
            partition.fail_parked(ErrorCode.kafka_storage_error)
            return
        self._dirty[partition] = None
        self._wanted.set()

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            dirty, self._dirty = list(self._dirty), {}
            tickets = [
                (partition, ticket)
                for partition in dirty
                if (ticket := partition.log.begin_flush()) is not None
            ]
            shares = [tickets[start::THREADS_MAX] for start in range(THREADS_MAX)]
            try:
                await asyncio.gather(
                    *(
                        loop.run_in_executor(self._pool, _fsync_all, [t for _, t in share])
                        for share in shares
                        if share
                    )
                )
            except OSError as error:
                self._fail(error, [partition for partition, _ in tickets])
                return
            for partition, ticket in tickets:
                partition.log.complete_flush(ticket)
                partition.flushed()

    def _fail(self, error: OSError, partitions: list[Partition]) -> None:
        self._failed = True
        _log.critical("fsync failed, the log directory is lost to this broker: %r", error)
        for partition in {*partitions, *self._dirty}:
            partition.fail_parked(ErrorCode.kafka_storage_error)
        self._on_fatal(error)


def _fsync_all(tickets: list[FlushTicket]) -> None:
    for ticket in tickets:
        ticket.run()
