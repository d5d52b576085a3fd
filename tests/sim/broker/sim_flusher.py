"""Group commit of a simulated broker; a round takes virtual time instead of a thread."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any, Protocol

from local_cluster.log.disk.tickets import LogDirectoryError
from local_cluster.log.partition.partition_log import PartitionLog
from local_cluster.replication.log_flushes import LogFlushes
from local_cluster.wire.errors import ErrorCode

RETRY_SECONDS = 0.5


class FlushedBroker(Protocol):
    """The broker of a flusher."""

    life: int
    is_alive: bool

    def directory_failed(self, log: PartitionLog, error: BaseException) -> None:
        """An fsync of a log failed."""
        ...


class SimFlusher:
    """Group commit whose rounds take a while."""

    def __init__(self, broker: FlushedBroker, random: Random) -> None:
        self._broker = broker
        self._life = broker.life
        self._random = random
        self._dirty: dict[LogFlushes, None] = {}
        self._is_busy = False
        self.is_slow = False

    def request(self, flushes: LogFlushes) -> None:
        self._dirty[flushes] = None
        if not self._is_busy:
            self._is_busy = True
            asyncio.get_running_loop().call_soon(self._begin)

    @property
    def _is_over(self) -> bool:
        """Whether the process of this flusher is gone."""
        return self._life != self._broker.life or not self._broker.is_alive

    def _begin(self) -> None:
        if self._is_over:
            return
        dirty, self._dirty = self._dirty, {}
        tickets = []
        for flushes in dirty:
            if not flushes.is_flushed_by(self):
                # It moves to another log directory, and requests a flush again.
                continue
            ticket = flushes.log.begin_flush()
            if ticket is not None:
                tickets.append((flushes, flushes.log, ticket))
            elif flushes.log.failure is not None:
                flushes.fail(ErrorCode.kafka_storage_error)
            elif flushes.log.needs_flush:
                asyncio.get_running_loop().call_later(RETRY_SECONDS, self.request, flushes)
        self._is_busy = bool(tickets)
        if tickets:
            seconds = self._random.uniform(0.05, 0.6 if self.is_slow else 0.06) / 10
            asyncio.get_running_loop().call_later(seconds, self._end, tickets)

    def _end(self, tickets: list[tuple[LogFlushes, PartitionLog, Any]]) -> None:
        if self._is_over:
            return
        for _, log, ticket in tickets:
            try:
                ticket.run()
            except LogDirectoryError as error:
                self._broker.directory_failed(log, error)
        for flushes, log, ticket in tickets:
            if ticket.is_done:
                # The ticket belongs to this log; the partition may have another one by now.
                log.complete_flush(ticket)
                flushes.flushed()
            else:
                flushes.fail(ErrorCode.kafka_storage_error)
        if self._dirty:
            self._begin()
        else:
            self._is_busy = False
