"""Group commit of a simulated broker: its rounds take time instead of a thread."""

from __future__ import annotations

import asyncio
from random import Random
from typing import TYPE_CHECKING, Any

from local_cluster.log.disk.disk_work import LogDirectoryError
from local_cluster.log.partition.partition_log import PartitionLog
from local_cluster.replication.partition_flushes import PartitionFlushes
from local_cluster.wire.errors import ErrorCode

if TYPE_CHECKING:
    from tests.sim.broker.sim_broker import SimBroker

RETRY_SECONDS = 0.5


class SimFlusher:
    """Group commit whose rounds take a while."""

    def __init__(self, broker: SimBroker, random: Random) -> None:
        self._broker = broker
        self._life = broker.life
        self._random = random
        self._dirty: dict[PartitionFlushes, None] = {}
        self._is_busy = False
        self.is_slow = False

    def request(self, partition: PartitionFlushes) -> None:
        self._dirty[partition] = None
        if not self._is_busy:
            self._is_busy = True
            asyncio.get_running_loop().call_soon(self._begin)

    @property
    def _is_over(self) -> bool:
        """Whether the process that it flushes for is gone."""
        return self._life != self._broker.life or not self._broker.is_alive

    def _begin(self) -> None:
        if self._is_over:
            return
        dirty, self._dirty = self._dirty, {}
        tickets = []
        for partition in dirty:
            if not partition.is_flushed_by(self):
                # It changes its log directory just now, and asks again.
                continue
            ticket = partition.log.flusher.begin_flush()
            if ticket is not None:
                tickets.append((partition, partition.log, ticket))
            elif partition.log.failure is not None:
                partition.fail_parked(ErrorCode.kafka_storage_error)
            elif partition.log.flusher.needs_flush:
                asyncio.get_running_loop().call_later(RETRY_SECONDS, self.request, partition)
        self._is_busy = bool(tickets)
        if tickets:
            seconds = self._random.uniform(0.05, 0.6 if self.is_slow else 0.06) / 10
            asyncio.get_running_loop().call_later(seconds, self._end, tickets)

    def _end(self, tickets: list[tuple[PartitionFlushes, PartitionLog, Any]]) -> None:
        if self._is_over:
            return
        for _, log, ticket in tickets:
            try:
                ticket.run()
            except LogDirectoryError as error:
                self._broker.directory_failed(log, error)
        for partition, log, ticket in tickets:
            if ticket.is_done:
                # Of the log that it was made for: the partition may have another one by now.
                log.flusher.complete_flush(ticket)
                partition.flushed()
            else:
                partition.fail_parked(ErrorCode.kafka_storage_error)
        if self._dirty:
            self._begin()
        else:
            self._is_busy = False
