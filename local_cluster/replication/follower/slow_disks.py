"""Followed replicas whose disk takes long over a flush, or over the end of a truncation."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable

from local_cluster.replication.partition import Partition
from local_cluster.wire.errors import ErrorCode, KafkaError

log = logging.getLogger(__name__)


class SlowDisks:
    """The replicas that wait for their disk. No fetcher fetches for them meanwhile."""

    def __init__(self, on_ready: Callable[[Partition], None]) -> None:
        """`on_ready` takes a replica when its last wait has ended."""
        self._on_ready = on_ready
        self._waits: dict[Partition, set[asyncio.Future[None]]] = {}

    def __contains__(self, partition: Partition) -> bool:
        return partition in self._waits

    def add(self, partition: Partition, wait: asyncio.Future[None]) -> None:
        """Let a replica wait until its disk is done."""
        self._waits.setdefault(partition, set()).add(wait)
        wait.add_done_callback(lambda _: self._ended(partition, wait))

    def _ended(self, partition: Partition, wait: asyncio.Future[None]) -> None:
        disk_error(wait)
        waits = self._waits[partition]
        waits.discard(wait)
        if not waits:
            del self._waits[partition]
            self._on_ready(partition)

    async def cancel(self) -> None:
        """Cancel every wait."""
        waits = [wait for each in self._waits.values() for wait in each]
        for wait in waits:
            wait.cancel()
        await asyncio.gather(*waits, return_exceptions=True)


def flush_waits(partitions: Iterable[Partition]) -> dict[asyncio.Future[None], Partition]:
    """Return a wait for each replica that has appended what is not durable yet."""
    return {wait: each for each in partitions if (wait := each.flushes.wait()) is not None}


def disk_error(wait: asyncio.Future[None]) -> ErrorCode | None:
    """Return why an ended wait failed, None if it did not. Log an unexpected error."""
    error = None if wait.cancelled() else wait.exception()
    if isinstance(error, KafkaError):
        return error.code
    if error is not None:
        log.error("the end of a truncation failed", exc_info=error)
        return ErrorCode.unknown_server_error
    return None
