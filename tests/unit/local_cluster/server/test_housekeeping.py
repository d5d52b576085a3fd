"""Housekeeping with `flush: page_cache`: a log is flushed soon after it got its first records."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from local_cluster.log.config.log_config import LogConfig
from local_cluster.log.directory.log_store import LogStore
from local_cluster.log.disk.files import OsFiles
from local_cluster.server import housekeeping
from local_cluster.server.housekeeping import Housekeeping
from tests.unit.local_cluster.log.samples import NOW_MS, TOPIC_ID, append, batch

WAIT_SECONDS_MAX = 60.0


class StandingClock:
    def now_ms(self) -> int:
        return NOW_MS

    def monotonic_ms(self) -> int:
        return 0


async def test_the_first_records_of_a_log_are_flushed_long_before_the_next_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(housekeeping, "FIRST_FLUSH_INTERVAL_MS", 10)
    monkeypatch.setattr(housekeeping, "PAGE_CACHE_FLUSH_INTERVAL_MS", 3_600_000)
    clock = StandingClock()
    directories = LogStore([tmp_path], OsFiles(), broker_id=1, clock=clock)
    directories.open(cluster_id="c", flushes=False)
    replicas: list[Any] = []
    settings = SimpleNamespace(flush="page_cache", config_int=lambda name, default: default)
    keeping = Housekeeping(cast(Any, settings), directories, cast(Any, replicas), clock)
    keeping.start()
    # The first round of all flushes everything; nothing is there yet.
    await asyncio.sleep(0.1)
    logs = [directories.get_or_create("t", TOPIC_ID, each, LogConfig()) for each in (0, 1)]
    for log in logs:
        append(log, batch(2))
        replicas.append(SimpleNamespace(topic="t", partition=log.partition, log=log))
    async with asyncio.timeout(WAIT_SECONDS_MAX):
        while any(log.flushed_end_offset < 2 for log in logs):
            await asyncio.sleep(0.01)
    append(logs[0], batch(1))
    late = directories.get_or_create("t", TOPIC_ID, 2, LogConfig())
    append(late, batch(1))
    replicas.append(SimpleNamespace(topic="t", partition=2, log=late))
    async with asyncio.timeout(WAIT_SECONDS_MAX):
        while late.flushed_end_offset < 1:
            await asyncio.sleep(0.01)
    assert logs[0].flushed_end_offset == 2
    await keeping.stop()
    for directory in directories.all:
        directory.close(clean=False)
