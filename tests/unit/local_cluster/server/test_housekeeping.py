"""Flushes with `flush: page_cache`, and periodic work after an unexpected error."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from local_cluster.log.config.log_config import LogConfig
from local_cluster.log.directory.log_directories import LogDirectories
from local_cluster.log.disk.files import OsFiles
from local_cluster.log.partition.partition_log import PartitionLog
from local_cluster.replication.partition import Partition
from local_cluster.replication.replica_set import ReplicaSet
from local_cluster.server import housekeeping
from local_cluster.server.housekeeping import FlushIntervals, Housekeeping
from local_cluster.settings import BrokerSettings, FlushMode, Listener
from tests.unit.local_cluster.log.samples import NOW_MS, TOPIC_ID, append, batch

WAIT_SECONDS_MAX = 60.0


class StandingClock:
    def now_ms(self) -> int:
        return NOW_MS

    def monotonic_ms(self) -> int:
        return 0


class Replicas:
    """The replicas of a broker, as housekeeping iterates over them."""

    def __init__(self) -> None:
        self.partitions: list[Partition] = []
        self.errors = 0
        """How many of the next iterations raise an unexpected error."""

    def add(self, log: PartitionLog) -> None:
        self.partitions.append(
            Partition(
                log.topic,
                log.partition,
                log.topic_id or uuid.UUID(int=0),
                log,
                flusher=None,
                now_ms=lambda: NOW_MS,
                high_watermark=0,
            )
        )

    def __iter__(self) -> Iterator[Partition]:
        if self.errors:
            self.errors -= 1
            raise ZeroDivisionError("an unexpected error")
        return iter(self.partitions)


def settings(flush: FlushMode) -> BrokerSettings:
    return BrokerSettings(
        cluster="c",
        broker_id=1,
        listeners=(Listener(name="L", host="h", port=0),),
        inter_broker_listener="L",
        zookeeper_connect="unused",
        log_dirs=("unused",),
        ready_file="unused",
        flush=flush,
    )


async def until_flushed(log: PartitionLog, end_offset: int) -> None:
    async with asyncio.timeout(WAIT_SECONDS_MAX):
        while log.flushed_end_offset < end_offset:
            await asyncio.sleep(0.01)


async def test_the_first_records_of_a_log_are_flushed_long_before_the_next_ones(
    tmp_path: Path,
) -> None:
    clock = StandingClock()
    directories = LogDirectories([tmp_path], OsFiles(), broker_id=1, clock=clock)
    directories.open(cluster_id="c", flushes=False)
    replicas = Replicas()
    keeping = Housekeeping(
        settings("page_cache"),
        directories,
        cast(ReplicaSet, replicas),
        clock,
        flush_intervals=FlushIntervals(first_ms=10, all_ms=3_600_000),
    )
    keeping.start()
    # The very first round flushes every log. There is none yet.
    await asyncio.sleep(0.1)
    logs = [directories.get_or_create("t", TOPIC_ID, each, LogConfig()) for each in (0, 1)]
    for log in logs:
        append(log, batch(2))
        replicas.add(log)
    for log in logs:
        await until_flushed(log, 2)
    append(logs[0], batch(1))
    late = directories.get_or_create("t", TOPIC_ID, 2, LogConfig())
    append(late, batch(1))
    replicas.add(late)
    await until_flushed(late, 1)
    assert logs[0].flushed_end_offset == 2
    await keeping.stop()
    for directory in directories.all:
        directory.close(clean=False)


async def test_an_unexpected_error_does_not_end_the_checkpoints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(housekeeping, "CHECKPOINT_INTERVAL_MS", 10)
    clock = StandingClock()
    directories = LogDirectories([tmp_path], OsFiles(), broker_id=1, clock=clock)
    directories.open(cluster_id="c")
    replicas = Replicas()
    replicas.errors = 1
    replicas.add(directories.get_or_create("t", TOPIC_ID, 0, LogConfig()))
    keeping = Housekeeping(settings("fsync"), directories, cast(ReplicaSet, replicas), clock)
    keeping.start()
    checkpoint = tmp_path / "replication-offset-checkpoint"
    async with asyncio.timeout(WAIT_SECONDS_MAX):
        while not checkpoint.exists() or "t 0 0" not in checkpoint.read_text():
            await asyncio.sleep(0.01)
    assert replicas.errors == 0
    await keeping.stop()
    for directory in directories.all:
        directory.close(clean=False)
