"""What a broker does every few seconds or minutes: checkpoints, retention, old files, full disks.

Whatever waits for the disk runs in a worker thread; the decisions are taken on the loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from local_cluster.clock import Clock
from local_cluster.log.directory import LogDirectory
from local_cluster.log.tickets import LogDirectoryError
from local_cluster.replication.replica_set import ReplicaSet
from local_cluster.settings import BrokerSettings
from local_cluster.wire.errors import KafkaError

CHECKPOINT_INTERVAL_MS: Final = 5_000
"""How often high watermarks and recovery points are written, as Kafka does."""
RETENTION_CHECK_INTERVAL_MS: Final = 300_000
"""Default of log.retention.check.interval.ms."""
SPACE_PROBE_INTERVAL_MS: Final = 1_000
"""While the disk is full: how often old segments are looked for and a probe is written."""
PAGE_CACHE_FLUSH_INTERVAL_MS: Final = 60_000
"""With `flush: page_cache`, how much of the log a start after a crash has to read again."""

_log = logging.getLogger(__name__)


class Housekeeping:
    """The periodic work on one log directory."""

    def __init__(
        self,
        settings: BrokerSettings,
        directory: LogDirectory,
        replicas: ReplicaSet,
        clock: Clock,
        on_fatal: Callable[[BaseException], None],
    ) -> None:
        self._settings = settings
        self._directory = directory
        self._replicas = replicas
        self._clock = clock
        self._on_fatal = on_fatal
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Begin; `stop` ends it."""
        self._tasks.append(asyncio.create_task(self._checkpoints(), name="checkpoints"))
        self._tasks.append(asyncio.create_task(self._retention(), name="retention"))
        self._tasks.append(asyncio.create_task(self._space(), name="space"))
        if self._settings.flush == "page_cache":
            self._tasks.append(asyncio.create_task(self._flushes(), name="flushes"))

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def high_watermarks(self) -> dict[tuple[str, int], int]:
        """Of every replica here, for the checkpoint."""
        return {
            (partition.topic, partition.partition): partition.high_watermark
            for partition in self._replicas
        }

    async def _checkpoints(self) -> None:
        while True:
            await asyncio.sleep(CHECKPOINT_INTERVAL_MS / 1000)
            checkpoint = self._directory.prepare_checkpoint(self.high_watermarks())
            await self._guarded(checkpoint.run)

    async def _retention(self) -> None:
        interval_ms = self._settings.config_int(
            "log.retention.check.interval.ms", RETENTION_CHECK_INTERVAL_MS
        )
        while True:
            await asyncio.sleep(interval_ms / 1000)
            await self._remove_old()

    async def _remove_old(self) -> None:
        for partition in tuple(self._replicas):
            try:
                deletion = partition.log.apply_retention(
                    self._clock.now_ms(), partition.high_watermark
                )
            except KafkaError as error:
                # One bad log must not keep the others from shrinking.
                _log.error("%s: retention: %s", partition.log, error)
                continue
            if deletion.paths:
                partition.log_start_moved()
                await self._guarded(deletion.run)
            else:
                await asyncio.sleep(0)
        await self._guarded(self._directory.collect_garbage().run)

    async def _space(self) -> None:
        """Make a full disk writable again as soon as it takes a probe."""
        disk = self._directory.disk
        while True:
            await asyncio.sleep(SPACE_PROBE_INTERVAL_MS / 1000)
            if not disk.is_full:
                continue
            await self._remove_old()
            try:
                await asyncio.to_thread(self._directory.prepare_probe().run)
            except OSError as error:
                disk.note(error)
                continue
            disk.freed()
            self._replicas.resume()

    async def _flushes(self) -> None:
        while True:
            await asyncio.sleep(PAGE_CACHE_FLUSH_INTERVAL_MS / 1000)
            for partition in tuple(self._replicas):
                ticket = partition.log.begin_flush()
                if ticket is None:
                    continue
                try:
                    await asyncio.to_thread(ticket.run)
                except LogDirectoryError as error:
                    # A failed fsync is final whatever its errno: the pages may be gone.
                    self._on_fatal(error)
                    return
                partition.log.complete_flush(ticket)

    async def _guarded(self, run: Callable[[], object]) -> bool:
        """Run in a worker thread; an error of the disk itself there ends the broker."""
        try:
            await asyncio.to_thread(run)
        except OSError as error:
            _log.error("put off: %s", error)
            self._directory.disk.note(error)
            return False
        return True
