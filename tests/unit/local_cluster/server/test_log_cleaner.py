"""Compaction of several logs: an error in one of them does not affect the others."""

from __future__ import annotations

import asyncio
import errno
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from local_cluster.controller.member.current_configs import CurrentConfigs
from local_cluster.controller.model.metadata_cache import Changes, MetadataCache
from local_cluster.log.compaction.compaction_round import plan_round
from local_cluster.log.config.log_config import LogConfig
from local_cluster.log.directory.log_store import LogStore
from local_cluster.log.disk.files import LogFile, OsFiles
from local_cluster.log.partition.partition_log import PartitionLog
from local_cluster.server import log_cleaner
from local_cluster.server.log_cleaner import UNCLEANABLE_RETRY_MS, LogCleaner
from local_cluster.settings import BrokerSettings, Listener
from tests.unit.local_cluster.log.compaction.compaction_samples import put
from tests.unit.local_cluster.log.samples import NOW_MS, TOPIC_ID, records_of

WAIT_SECONDS_MAX = 60.0
CONFIG = LogConfig(is_compacted=True, segment_bytes=2000, min_cleanable_dirty_ratio=0.0)


SETTINGS = BrokerSettings(
    cluster="c",
    broker_id=1,
    listeners=(Listener(name="L", host="h", port=0),),
    inter_broker_listener="L",
    zookeeper_connect="unused",
    log_dirs=("unused",),
    ready_file="unused",
    config={"log.cleaner.backoff.ms": "10"},
)


@dataclass
class Replica:
    """A replica whose whole log is committed."""

    topic: str
    partition: int
    log: PartitionLog

    @property
    def high_watermark(self) -> int:
        return self.log.log_end_offset


class HandClock:
    def __init__(self) -> None:
        self.ms = NOW_MS

    def now_ms(self) -> int:
        return self.ms

    def monotonic_ms(self) -> int:
        return self.ms


class BadSector(OsFiles):
    """Files of partition 0 raise errors by their suffix: reads of segments, writes of snapshots."""

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
    """Return two logs with closed dirty segments, after a clean stop: no segment is open."""
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
    directories: LogStore,
    logs: list[PartitionLog],
    clock: HandClock,
    metadata: MetadataCache | None = None,
) -> AsyncIterator[LogCleaner]:
    replicas = [Replica("t", log.partition, log) for log in logs]
    configs = CurrentConfigs(SETTINGS, metadata or MetadataCache(1))
    running = LogCleaner(configs, replicas, directories, clock)
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
async def test_only_a_log_that_cannot_be_read_or_rolled_is_skipped_for_a_while(
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


async def test_only_a_log_whose_round_cannot_be_planned_is_skipped(
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

    monkeypatch.setattr(log_cleaner, "plan_round", plan_or_fail)
    async with compacting(directories, logs, clock):
        await until_compacted(directories, logs[1])
    assert asked.count(0) == 1


async def test_limits_change_while_the_cleaner_runs(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    clock, metadata = HandClock(), MetadataCache(1)
    never = {"log.cleaner.backoff.ms": "3600000"}
    metadata.broker_configs = {"1": never}
    directories = filled(tmp_path, OsFiles(), clock)
    logs = [directories.get_or_create("t", TOPIC_ID, each, CONFIG) for each in (0, 1)]
    async with compacting(directories, logs[:1], clock, metadata) as cleaner:
        metadata.broker_configs = {"1": {"log.cleaner.backoff.ms": "10"}}
        cleaner.apply(Changes(broker_configs=True))
        await until_compacted(directories, logs[0])
        started = "the compactor runs with pid"
        assert caplog.text.count(started) == 1
        rate = "log.cleaner.io.max.bytes.per.second"
        metadata.broker_configs = {"1": {rate: "1e9"}}
        cleaner.apply(Changes(broker_configs=True))
        cleaned = directories.cleaned_offset("t", 0)
        for index in range(40):
            put(logs[0], (b"k%d" % (index % 3), b"x" * 100))
        async with asyncio.timeout(WAIT_SECONDS_MAX):
            while directories.cleaned_offset("t", 0) == cleaned:
                await asyncio.sleep(0.01)
        assert caplog.text.count(started) == 2, "the rate is that of a new process"
