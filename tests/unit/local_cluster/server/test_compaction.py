"""Compaction of several logs: what is wrong with one of them is no business of the others."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from local_cluster.log.compaction.compaction_round import plan_round
from local_cluster.log.config.log_config import LogConfig
from local_cluster.log.directory.log_store import LogStore
from local_cluster.log.disk.files import LogFile, OsFiles
from local_cluster.log.partition.partition_log import PartitionLog
from local_cluster.server import compaction
from local_cluster.server.compaction import UNCLEANABLE_RETRY_MS, Compaction
from tests.unit.local_cluster.log.compaction.compaction_samples import put
from tests.unit.local_cluster.log.samples import NOW_MS, TOPIC_ID, records_of

WAIT_SECONDS_MAX = 60.0
CONFIG = LogConfig(is_compacted=True, segment_bytes=2000, min_cleanable_dirty_ratio=0.0)


class HandClock:
    def __init__(self) -> None:
        self.ms = NOW_MS

    def now_ms(self) -> int:
        return self.ms

    def monotonic_ms(self) -> int:
        return self.ms


class BadSector(OsFiles):
    """The segments of partition 0 cannot be read, or its snapshots not be written."""

    errors: dict[str, int]

    def __init__(self) -> None:
        self.errors = {}

    def _check(self, path: str) -> None:
        for suffix, number in self.errors.items():
            if "/t-0/" in path and path.endswith(suffix):
                raise OSError(number, "injected", path)

    def open(self, path: str, *, create: bool = False) -> LogFile:
        self._check(path)
        return super().open(path, create=create)

    def replace(self, path: str, content: bytes, *, durable: bool) -> None:
        self._check(path)
        super().replace(path, content, durable=durable)


def filled(path: Path, files: OsFiles, clock: HandClock) -> LogStore:
    """Two logs with closed dirty segments, after a clean stop: no segment is open."""
    for is_first in (True, False):
        directories = LogStore([path], files, broker_id=1, clock=clock)
        directories.open(cluster_id="c", config=CONFIG)
        for partition in (0, 1):
            log = directories.get_or_create("t", TOPIC_ID, partition, CONFIG)
            for index in range(40 if is_first else 0):
                put(log, (b"k%d" % (index % 3), b"x" * 100))
        if is_first:
            for directory in directories.all:
                directory.close(clean=True)
    return directories


@asynccontextmanager
async def compacting(
    directories: LogStore, logs: list[PartitionLog], clock: HandClock
) -> AsyncIterator[Compaction]:
    settings = SimpleNamespace(
        config={},
        config_bool=lambda name, default: default,
        config_int=lambda name, default: 10 if name == "log.cleaner.backoff.ms" else default,
    )
    replicas = [
        SimpleNamespace(
            topic="t", partition=log.partition, log=log, high_watermark=log.log_end_offset
        )
        for log in logs
    ]
    running = Compaction(cast(Any, settings), cast(Any, replicas), directories, clock)
    running.start()
    try:
        yield running
    finally:
        await running.stop()
        for directory in directories.all:
            directory.close(clean=False)


async def until_compacted(directories: LogStore, log: PartitionLog) -> None:
    async with asyncio.timeout(WAIT_SECONDS_MAX):
        while not directories.cleaned_offset("t", log.partition):
            await asyncio.sleep(0.01)
    assert len(records_of(log)) < 40


@pytest.mark.parametrize(
    ("suffix", "error"), [(".log", errno.EIO), (".snapshot", errno.ENOSPC)], ids=["read", "roll"]
)
async def test_a_log_that_cannot_be_read_or_rolled_is_left_alone_for_a_while_and_no_other(
    tmp_path: Path, suffix: str, error: int
) -> None:
    clock, files = HandClock(), BadSector()
    directories = filled(tmp_path, files, clock)
    logs = [directories.get_or_create("t", TOPIC_ID, each, CONFIG) for each in (0, 1)]
    if suffix == ".snapshot":
        logs[0].state.update_config(LogConfig(is_compacted=True, max_compaction_lag_ms=1))
        clock.ms += 1000
    files.errors = {suffix: error}
    async with compacting(directories, logs, clock):
        await until_compacted(directories, logs[1])
        assert not directories.cleaned_offset("t", 0)
        assert directories.all[0].disk.is_full is (error == errno.ENOSPC)
        files.errors = {}
        clock.ms += UNCLEANABLE_RETRY_MS
        await until_compacted(directories, logs[0])


async def test_a_round_that_cannot_be_planned_leaves_its_log_alone_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = HandClock()
    directories = filled(tmp_path, OsFiles(), clock)
    logs = [directories.get_or_create("t", TOPIC_ID, each, CONFIG) for each in (0, 1)]
    asked: list[int] = []

    def plan_or_fail(log: PartitionLog, **options: Any) -> Any:
        asked.append(log.partition)
        if log is logs[0]:
            raise OSError(errno.EIO, "injected")
        return plan_round(log, **options)

    monkeypatch.setattr(compaction, "plan_round", plan_or_fail)
    async with compacting(directories, logs, clock):
        await until_compacted(directories, logs[1])
    assert asked.count(0) == 1
