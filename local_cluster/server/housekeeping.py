"""Periodic work on the log directories: checkpoints, retention, full disks, flushes.

Work that waits for the disk runs in a worker thread. The decisions are taken on the loop.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Callable
from typing import Final, NamedTuple

from local_cluster.clock import Clock
from local_cluster.log.directory.log_directories import LogDirectories
from local_cluster.log.directory.log_directory import LogDirectory
from local_cluster.log.disk.tickets import LogDirectoryError
from local_cluster.periodic import Periodic
from local_cluster.replication.partition import Partition
from local_cluster.replication.replica_set import ReplicaSet
from local_cluster.settings import BrokerSettings
from local_cluster.wire.errors import KafkaError

CHECKPOINT_INTERVAL_MS: Final = 5_000
"""How often high watermarks and recovery points are written, as in Kafka."""
RETENTION_CHECK_INTERVAL_MS: Final = 300_000
"""Default of log.retention.check.interval.ms."""
SPACE_PROBE_INTERVAL_MS: Final = 1_000
"""How often old segments are deleted and a probe is written while the disk is full."""
STRAY_DELETE_DELAY_MS: Final = 24 * 3_600_000
"""Default of heliograph.stray.delete.delay.ms: how long a running broker keeps a stray log. The
time between the last retention check and a crash does not count."""


class FlushIntervals(NamedTuple):
    """How often logs are flushed with `flush: page_cache`, in milliseconds."""

    first_ms: int = 5_000
    """How old a log becomes before it is surely on the disk, with its topic id."""
    all_ms: int = 60_000
    """How much of a log a start after a crash has to read again, in time."""


log = logging.getLogger(__name__)


class Housekeeping:
    """The periodic work of one broker. Call `start` and `stop` on the loop."""

    def __init__(
        self,
        settings: BrokerSettings,
        directories: LogDirectories,
        replicas: ReplicaSet,
        clock: Clock,
        *,
        flush_intervals: FlushIntervals | None = None,
    ) -> None:
        self._settings = settings
        self._directories = directories
        self._replicas = replicas
        self._clock = clock
        intervals = flush_intervals or FlushIntervals()
        retention_ms = settings.config_int(
            "log.retention.check.interval.ms", RETENTION_CHECK_INTERVAL_MS
        )
        self._work = [
            Periodic("checkpoints", self._checkpoint, interval_ms=CHECKPOINT_INTERVAL_MS),
            Periodic("retention", self._apply_retention, interval_ms=retention_ms),
            Periodic("full disks", self._probe_full, interval_ms=SPACE_PROBE_INTERVAL_MS),
        ]
        self._flush_rounds = itertools.cycle(range(max(intervals.all_ms // intervals.first_ms, 1)))
        if settings.flush == "page_cache":
            self._work.append(Periodic("flushes", self._flush, interval_ms=intervals.first_ms))

    def start(self) -> None:
        for each in self._work:
            each.start()

    async def stop(self) -> None:
        for each in self._work:
            await each.stop()

    def high_watermarks(self) -> dict[tuple[str, int], int]:
        """Return the high watermark of every replica here, for the checkpoint."""
        return {
            (partition.topic, partition.partition): partition.high_watermark
            for partition in self._replicas
        }

    async def _checkpoint(self) -> None:
        high_watermarks = self.high_watermarks()
        for directory in self._directories.live:
            await self._run(directory, directory.prepare_checkpoint(high_watermarks).run)

    async def _apply_retention(self) -> None:
        for directory in self._directories.live:
            await self._run(directory, directory.prepare_stray_notes().run)
            await self._delete_old(directory)

    async def _delete_old(self, directory: LogDirectory) -> None:
        for partition in tuple(self._replicas):
            if self._directories.of(partition.topic, partition.partition) is not directory:
                continue
            try:
                deletion = partition.log.apply_retention(
                    self._clock.now_ms(), partition.high_watermark
                )
            except KafkaError as error:
                # One bad log must not keep the others from shrinking.
                log.error("retention of %s failed: %s", partition.log, error)
                continue
            if deletion.paths:
                partition.log_start_advanced()
                await self._run(directory, deletion.run)
            else:
                await asyncio.sleep(0)
        directory.drop_old_strays(
            self._settings.config_int("heliograph.stray.delete.delay.ms", STRAY_DELETE_DELAY_MS)
        )
        await self._run(directory, directory.collect_garbage().run)

    async def _probe_full(self) -> None:
        """Make a full disk writable again as soon as it takes a probe."""
        for directory in self._directories.live:
            if not directory.disk.is_full:
                continue
            await self._delete_old(directory)
            try:
                await asyncio.to_thread(directory.prepare_probe().run)
            except OSError as error:
                directory.disk.note(error)
                continue
            directory.disk.freed()
            self._replicas.resume()

    async def _flush(self) -> None:
        """Flush the logs that were never flushed, and at longer intervals all logs."""
        only_first = next(self._flush_rounds) > 0
        for partition in tuple(self._replicas):
            if not only_first or not partition.log.flushed_end_offset:
                await self._flush_log(partition)

    async def _flush_log(self, partition: Partition) -> None:
        flushed_log = partition.log
        home = self._directories.of(partition.topic, partition.partition)
        ticket = flushed_log.begin_flush()
        if ticket is None:
            return
        try:
            await asyncio.to_thread(ticket.run)
        except LogDirectoryError as error:
            # A failed fsync is final whatever its errno: the kernel may have dropped the pages.
            if home is not None:
                self._directories.fail(home, error)
            return
        # The partition may have another log by now, in another log directory.
        flushed_log.complete_flush(ticket)

    async def _run(self, directory: LogDirectory, work: Callable[[], object]) -> None:
        """Run work in a worker thread. An error of the disk itself fails the directory."""
        try:
            await asyncio.to_thread(work)
        except OSError as error:
            log.error("work on log directory %s is put off: %s", directory.path, error)
            directory.disk.note(error)
