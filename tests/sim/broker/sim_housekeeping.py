"""The housekeeping of a simulated broker: checkpoints, garbage collection, probes of full disks."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from random import Random

from local_cluster.log.directory.log_directory import LogDirectory
from local_cluster.log.directory.log_store import LogStore
from local_cluster.log.disk.disk_work import Deletion
from local_cluster.replication.partition import Partition
from local_cluster.replication.replica_set import ReplicaSet

CHECKPOINT_SECONDS = 2.0
SPACE_PROBE_SECONDS = 0.5


class SimHousekeeping:
    """What server/housekeeping.py and server/broker.py do in threads, in virtual time."""

    def __init__(self, directories: LogStore, replicas: ReplicaSet, random: Random) -> None:
        self._directories = directories
        self._replicas = replicas
        self._random = random

    def high_watermarks(self) -> dict[tuple[str, int], int]:
        """Return the high watermarks of all replicas."""
        return {(p.topic, p.partition): p.high_watermark for p in self._replicas}

    async def run(self) -> None:
        """Run until cancelled."""
        await asyncio.gather(self._write_checkpoints(), self._probe_full_disks())

    async def checkpoint(self, partitions: Collection[tuple[str, int]]) -> None:
        """Checkpoint the offsets of these partitions, after a moment."""
        homes = dict.fromkeys(self._directories.of(*each) for each in partitions)
        for home in homes:
            if home is not None:
                checkpoint = home.prepare_checkpoint(self.high_watermarks())
                await asyncio.sleep(self._random.uniform(0.001, 0.01))
                checkpoint.run()

    async def checkpoint_directory(self, directory: LogDirectory) -> None:
        """Checkpoint one directory at once."""
        directory.checkpoint(self.high_watermarks())

    async def after_truncation(self, replica: Partition, deletion: Deletion) -> None:
        """Delete the truncated files and checkpoint, with retries while the disk is full."""
        directory = self._directories.of(replica.topic, replica.partition)
        while directory is not None and directory in self._directories.live:
            checkpoint = directory.prepare_checkpoint(self.high_watermarks())
            await asyncio.sleep(self._random.uniform(0.001, 0.01))
            try:
                deletion.run()
                checkpoint.run()
                return
            except OSError as error:
                directory.disk.note(error)
                if not directory.disk.is_full:
                    self._directories.fail(directory, error)
                    return
            await asyncio.sleep(SPACE_PROBE_SECONDS)

    async def _write_checkpoints(self) -> None:
        while True:
            await asyncio.sleep(CHECKPOINT_SECONDS)
            for directory in self._directories.live:
                try:
                    directory.checkpoint(self.high_watermarks())
                    directory.collect_garbage().run()
                except OSError as error:
                    directory.disk.note(error)

    async def _probe_full_disks(self) -> None:
        """Resume writes on a full disk once a probe succeeds."""
        while True:
            await asyncio.sleep(SPACE_PROBE_SECONDS)
            for directory in self._directories.live:
                if not directory.disk.is_full:
                    continue
                try:
                    directory.prepare_probe().run()
                except OSError as error:
                    directory.disk.note(error)
                    continue
                directory.disk.freed()
                self._replicas.resume()
