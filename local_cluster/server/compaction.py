"""Compaction beside the loop: chooses logs, has a process of its own rewrite them, swaps.

Every log.cleaner.backoff.ms the logs that are due are compacted, the dirtiest first, one at a time.
The process (`python -m local_cluster.compactor`) is started for the first log that is due, and
again after it died. Groups of segments are swapped in as it reports them; when all of them are on
the disk, directory included, the log's cleaned offset moves.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import local_cluster
from local_cluster.clock import Clock
from local_cluster.compactor import JOB
from local_cluster.log.compaction.cleanable import is_roll_due
from local_cluster.log.compaction.compaction_job import CleanedGroup
from local_cluster.log.compaction.compaction_round import CompactionRound, find_due, plan_round
from local_cluster.log.compaction.key_offset_map import LOAD_FACTOR
from local_cluster.log.directory.log_store import LogStore
from local_cluster.log.disk.disk_health import SPACE_ERRORS
from local_cluster.log.disk.files import OsFiles
from local_cluster.replication.partition import Partition
from local_cluster.settings import BrokerSettings
from local_cluster.wire.errors import KafkaError

BACKOFF_MS: Final = 15_000
"""Default of log.cleaner.backoff.ms."""
DEDUPE_BUFFER_BYTES: Final = 128 * 1024 * 1024
"""Default of log.cleaner.dedupe.buffer.size."""
UNCLEANABLE_RETRY_MS: Final = 600_000
"""How long a log is left alone after a round over it failed."""
EVENT_BYTES_MAX: Final = 16 * 1024 * 1024
"""What the compactor says in one line; with a group of segments all of their offsets are in it."""
STOP_SECONDS_MAX: Final = 5.0

_log = logging.getLogger(__name__)


class CompactorDiedError(Exception):
    """The process ended in the middle of a round."""


class Compaction:
    """Compacts the logs of one broker. `start` and `stop` it on the loop."""

    def __init__(
        self,
        settings: BrokerSettings,
        replicas: Iterable[Partition],
        directories: LogStore,
        clock: Clock,
    ) -> None:
        config = settings.config
        self._is_enabled = settings.config_bool("log.cleaner.enable", True)
        self._backoff_ms = settings.config_int("log.cleaner.backoff.ms", BACKOFF_MS)
        self._key_bytes_max = settings.config_int(
            "log.cleaner.dedupe.buffer.size", DEDUPE_BUFFER_BYTES
        )
        self._load_factor = float(config.get("log.cleaner.io.buffer.load.factor", LOAD_FACTOR))
        self._bytes_per_second = float(config.get("log.cleaner.io.max.bytes.per.second", 0))
        self._replicas = replicas
        self._directories = directories
        self._clock = clock
        self._files = OsFiles()
        self._process: asyncio.subprocess.Process | None = None
        self._task: asyncio.Task[None] | None = None
        self._left_alone_until_ms: dict[tuple[str, int], int] = {}

    def start(self) -> None:
        if self._is_enabled:
            self._task = asyncio.create_task(self._run(), name="compaction")

    async def stop(self) -> None:
        """End the process; what it wrote and nobody took is removed by the next start."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self._end_process()

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._backoff_ms / 1000)
            try:
                for partition in await self._choose():
                    await self._compact_or_leave(partition)
            except TimeoutError:
                _log.warning("the compactor was killed and does not end; compaction goes on later")

    async def _compact_or_leave(self, partition: Partition) -> None:
        """What goes wrong over one log leaves that log alone for a while, and no other."""
        try:
            await self._compact(partition)
        except (KafkaError, OSError) as error:
            self._leave_alone(partition, error)
        except Exception:  # noqa: BLE001 - whatever it is, the other logs are compacted
            _log.exception("%s is not compacted", partition.log)
            self._leave_alone(partition)
            # What it says next would be taken for the answer to another job.
            await self._end_process()

    def _leave_alone(self, partition: Partition, error: Exception | None = None) -> None:
        """Not choose a log again before its time, as Kafka's uncleanable partitions."""
        if error is not None:
            _log.warning("%s is left alone by compaction: %s", partition.log, error)
        key = (partition.topic, partition.partition)
        self._left_alone_until_ms[key] = self._clock.now_ms() + UNCLEANABLE_RETRY_MS

    async def _choose(self) -> list[Partition]:
        """The partitions that are due, the dirtiest first."""
        due: list[tuple[float, Partition]] = []
        for partition in tuple(self._replicas):
            try:
                dirty_ratio = self._dirty_ratio(partition)
            except (KafkaError, OSError) as error:
                # A closed segment that cannot be read, an active one that cannot be rolled.
                self._leave_alone(partition, error)
                continue
            if dirty_ratio is not None:
                due.append((dirty_ratio, partition))
            await asyncio.sleep(0)
        due.sort(key=lambda item: item[0], reverse=True)
        return [partition for _, partition in due]

    def _dirty_ratio(self, partition: Partition) -> float | None:
        """How dirty a log is, None where it is not due. Raises KafkaError or OSError."""
        log = partition.log
        if not log.config.is_compacted or log.failure is not None or log.corruption is not None:
            return None
        if self._directories.future_home(log.topic, log.partition) is not None:
            return None  # its copy would have to be compacted as well
        now_ms = self._clock.now_ms()
        if self._left_alone_until_ms.get((log.topic, log.partition), 0) > now_ms:
            return None
        if is_roll_due(log.segments.all[-1], log.config, now_ms):
            log.writer.roll(now_ms)
        cleanable = find_due(
            log,
            cleaned_offset=self._cleaned_offset(partition),
            last_stable_offset=log.reader.last_stable_offset(partition.high_watermark),
            now_ms=now_ms,
        )
        return None if cleanable is None else cleanable.dirty_ratio

    def _cleaned_offset(self, partition: Partition) -> int:
        """How far the log is clean; beyond its end between a truncation and its checkpoint."""
        return self._directories.cleaned_offset(partition.topic, partition.partition)

    async def _compact(self, partition: Partition) -> None:
        """Rounds over one log until it is clean; several where its keys do not fit at once."""
        log = partition.log
        key = (log.topic, log.partition)
        home = self._directories.of(*key)
        while True:
            planned = plan_round(
                log,
                cleaned_offset=self._cleaned_offset(partition),
                last_stable_offset=log.reader.last_stable_offset(partition.high_watermark),
                now_ms=self._clock.now_ms(),
                key_bytes_max=self._key_bytes_max,
                load_factor=self._load_factor,
            )
            if planned is None:
                return
            try:
                end_offset = await self._do(planned)
            except (CompactorDiedError, OSError) as error:
                _log.warning("the compactor ended over %s and is started again: %r", log, error)
                await self._end_process()
                return
            if end_offset is None:
                self._leave_alone(partition)
                return
            if planned.is_void:
                return
            try:
                await asyncio.to_thread(self._files.open_for_sync(log.directory).sync)
            except FileNotFoundError:
                return
            except OSError as error:
                if home is not None:
                    self._directories.fail(home, error)
                return
            if planned.truncations == log.state.truncations and log.failure is None:
                self._directories.set_cleaned_offset(*key, end_offset)
            if end_offset >= planned.job.end_offset:
                return

    async def _do(self, planned: CompactionRound) -> int | None:
        """Have the process do a round; where it got to, None where the log cannot be compacted.

        Raises CompactorDiedError or OSError.
        """
        process = await self._ensure_process()
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(JOB.dump_json(planned.job) + b"\n")
        await process.stdin.drain()
        while True:
            line = await process.stdout.readline()
            if not line.endswith(b"\n"):
                raise CompactorDiedError(f"exit code {await process.wait()}")
            event: dict[str, Any] = json.loads(line)
            if "cleaned" in event:
                cleaned = event["cleaned"]
                await self._take_over(
                    planned, CleanedGroup(tuple(cleaned["replaced"]), cleaned["size_bytes"])
                )
                if planned.is_void:
                    # Nothing that it still writes is wanted.
                    await self._end_process()
                    return planned.job.start_offset
            elif "compacted" in event:
                totals = event["compacted"]["totals"]
                _log.info(
                    "%s is compacted up to %d: %d of %d records, %d of %d batches are left",
                    planned.log,
                    event["compacted"]["end_offset"],
                    totals["records_kept"],
                    totals["records_read"],
                    totals["batches_kept"],
                    totals["batches_read"],
                )
                end_offset: int = event["compacted"]["end_offset"]
                return end_offset
            else:
                if planned.log.failure is not None or planned.log_changed:
                    # Files went away under it; nothing is wrong with the log.
                    planned.is_void = True
                    return planned.job.start_offset
                if event["errno"] in SPACE_ERRORS:
                    log = planned.log
                    home = self._directories.of(log.topic, log.partition)
                    if home is not None:
                        home.disk.note(OSError(event["errno"], event["failed"]))
                    planned.is_void = True
                    return planned.job.start_offset
                _log.error("%s cannot be compacted: %s", planned.log, event["failed"])
                return None

    async def _take_over(self, planned: CompactionRound, cleaned: CleanedGroup) -> None:
        try:
            deletion = planned.take_over(cleaned)
        except KafkaError as error:
            planned.is_void = True
            _log.error("%s", error)
            return
        if deletion is None:
            _log.info("%s changed while it was compacted; another time", planned.log)
            return
        try:
            await asyncio.to_thread(deletion.run)
        except OSError as error:
            _log.warning("old segments stay until the next start: %s", error)

    async def _ensure_process(self) -> asyncio.subprocess.Process:
        if self._process is not None and self._process.returncode is None:
            return self._process
        root = str(Path(local_cluster.__file__).parent.parent)
        python_path = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "local_cluster.compactor",
            f"--parent={os.getpid()}",
            f"--bytes-per-second={self._bytes_per_second}",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=EVENT_BYTES_MAX,
            env=os.environ | {"PYTHONPATH": python_path},
        )
        _log.info("compactor started with pid %d", self._process.pid)
        return self._process

    async def _end_process(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        if process.returncode is None:
            process.kill()
        await asyncio.wait_for(process.wait(), STOP_SECONDS_MAX)
