"""Followed replicas whose disk takes long over a flush, or over what a truncation left to do."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable

from local_cluster.replication.partition import Partition
from local_cluster.wire.errors import ErrorCode, KafkaError

_log = logging.getLogger(__name__)


class SlowDisks:
    """What waits aside for its disk, and may not be fetched for before, from whomever."""

    def __init__(self, on_settled: Callable[[Partition], None]) -> None:
        """`on_settled` is told of a replica when nothing of it waits any more."""
        self._on_settled = on_settled
        self._waits: dict[Partition, set[asyncio.Future[None]]] = {}

    def __contains__(self, partition: Partition) -> bool:
        return partition in self._waits

    def add(self, partition: Partition, wait: asyncio.Future[None]) -> None:
        """Have a replica wait until its disk is done."""
        self._waits.setdefault(partition, set()).add(wait)
        wait.add_done_callback(lambda _: self._settled(partition, wait))

    def _settled(self, partition: Partition, wait: asyncio.Future[None]) -> None:
        note_end(wait)
        waits = self._waits[partition]
        waits.discard(wait)
        if not waits:
            del self._waits[partition]
            self._on_settled(partition)

    async def cancel(self) -> None:
        """Wait for nothing any more."""
        waits = [wait for each in self._waits.values() for wait in each]
        for wait in waits:
            wait.cancel()
        await asyncio.gather(*waits, return_exceptions=True)


def undurable(partitions: Iterable[Partition]) -> dict[asyncio.Future[None], Partition]:
    """Who has appended what is not on the disk yet, by the waits for that."""
    return {wait: each for each in partitions if (wait := each.durable()) is not None}


def note_end(wait: asyncio.Future[None]) -> ErrorCode | None:
    """What became of a wait for a disk; where it failed, why."""
    error = None if wait.cancelled() else wait.exception()
    if isinstance(error, KafkaError):
        return error.code
    if error is not None:
        _log.error("what a truncation left to do failed", exc_info=error)
        return ErrorCode.unknown_server_error
    return None
