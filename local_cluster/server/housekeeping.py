"""What a broker does every few seconds or minutes: checkpoints, retention, old files, full disks.

Whatever waits for the disk runs in a worker thread; the decisions are taken on the loop.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Callable
from typing import Final

from local_cluster.clock import Clock
from local_cluster.log.directory.log_directory import LogDirectory
from local_cluster.log.directory.log_store import LogStore
from local_cluster.log.disk.disk_work import LogDirectoryError
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
STRAY_DELETE_DELAY_MS: Final = 24 * 3_600_000
"""Default of heliograph.stray.delete.delay.ms: how long what nobody assigns here is kept by a
broker that runs. What ran since the last check of retention before a crash does not count."""
FIRST_FLUSH_INTERVAL_MS: Final = 5_000
"""With `flush: page_cache`, how old a log becomes before it is surely there, and whose it is."""

_log = logging.getLogger(__name__)


class Housekeeping:
    """The periodic work on the log directories of a broker."""

    def __init__(
        self,
        settings: BrokerSettings,
        directories: LogStore,
        replicas: ReplicaSet,
        clock: Clock,
    ) -> None:
        self._settings = settings
        self._directories = directories
        self._replicas = replicas
        self._clock = clock
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
            high_watermarks = self.high_watermarks()
            for directory in self._directories.live:
                await self._guarded(directory, directory.prepare_checkpoint(high_watermarks).run)

    async def _retention(self) -> None:
        interval_ms = self._settings.config_int(
            "log.retention.check.interval.ms", RETENTION_CHECK_INTERVAL_MS
        )
        while True:
            await asyncio.sleep(interval_ms / 1000)
            for directory in self._directories.live:
                await self._guarded(directory, directory.strays.prepare_notes().run)
                await self._remove_old(directory)

    async def _remove_old(self, directory: LogDirectory) -> None:
        for partition in tuple(self._replicas):
            if self._directories.of(partition.topic, partition.partition) is not directory:
                continue
            try:
                deletion = partition.log.cleanup.apply_retention(
                    self._clock.now_ms(), partition.high_watermark
                )
            except KafkaError as error:
                # One bad log must not keep the others from shrinking.
                _log.error("%s: retention: %s", partition.log, error)
                continue
            if deletion.paths:
                partition.log_start_moved()
                await self._guarded(directory, deletion.run)
            else:
                await asyncio.sleep(0)
        directory.drop_old_strays(
            self._settings.config_int("heliograph.stray.delete.delay.ms", STRAY_DELETE_DELAY_MS)
        )
        await self._guarded(directory, directory.collect_garbage().run)

    async def _space(self) -> None:
        """Make a full disk writable again as soon as it takes a probe."""
        while True:
            await asyncio.sleep(SPACE_PROBE_INTERVAL_MS / 1000)
            for directory in self._directories.live:
                if directory.disk.is_full:
                    await self._make_space(directory)

    async def _make_space(self, directory: LogDirectory) -> None:
        await self._remove_old(directory)
        try:
            await asyncio.to_thread(directory.prepare_probe().run)
        except OSError as error:
            directory.disk.note(error)
            return
        directory.disk.freed()
        self._replicas.resume()

    async def _flushes(self) -> None:
        rounds = itertools.cycle(range(PAGE_CACHE_FLUSH_INTERVAL_MS // FIRST_FLUSH_INTERVAL_MS))
        while True:
            await asyncio.sleep(FIRST_FLUSH_INTERVAL_MS / 1000)
            is_first_only = next(rounds) > 0
            for partition in tuple(self._replicas):
                if is_first_only and partition.log.flushed_end_offset:
                    continue
                log = partition.log
                home = self._directories.of(partition.topic, partition.partition)
                ticket = log.flusher.begin_flush()
                if ticket is None:
                    continue
                try:
                    await asyncio.to_thread(ticket.run)
                except LogDirectoryError as error:
                    # A failed fsync is final whatever its errno: the pages may be gone.
                    if home is not None:
                        self._directories.fail(home, error)
                    continue
                # The partition may have another log by now, in another log directory.
                log.flusher.complete_flush(ticket)

    async def _guarded(self, directory: LogDirectory, run: Callable[[], object]) -> bool:
        """Run in a worker thread; an error of the disk itself there ends the directory."""
        try:
            await asyncio.to_thread(run)
        except OSError as error:
            _log.error("put off: %s", error)
            directory.disk.note(error)
            return False
        return True
