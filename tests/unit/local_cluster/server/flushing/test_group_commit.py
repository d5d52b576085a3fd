"""Group commit over a disk that the test controls: what a round covers, and how it fails."""

from __future__ import annotations

import asyncio
import errno
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import cast

import pytest

from local_cluster.log.disk.disk_work import FlushJob, LogDirectoryError
from local_cluster.log.disk.file_system import FileSystem
from local_cluster.replication.log_flushes import LogFlushes
from local_cluster.server.flushing.group_commit import GroupCommit
from local_cluster.wire.errors import ErrorCode


class Disk:
    """Counts syncs of files and of the file system. It may delay or fail them."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.gate.set()
        self.began = threading.Event()
        self.error: OSError | None = None
        self.files = 0
        self.whole = 0

    def sync(self) -> None:
        self.files += 1
        self._wait()

    def sync_whole(self) -> None:
        self.whole += 1
        self._wait()

    def _wait(self) -> None:
        self.began.set()
        assert self.gate.wait(10)
        if self.error is not None:
            raise self.error


class DirtyLog:
    """A log and its flushes in one: an end offset, and a flushed end offset."""

    def __init__(self, disk: Disk) -> None:
        self.log = self
        self.flusher = self
        self.disk = disk
        self.end_offset = 0
        self.flushed_end_offset = 0
        self.failed_with: ErrorCode | None = None
        self.failure: str | None = None
        self.moved = asyncio.Event()
        self.refusals = 0
        """How often a flush cannot begin: no space for the epochs, or no descriptor."""

    @property
    def needs_flush(self) -> bool:
        return self.flushed_end_offset < self.end_offset

    def begin_flush(self) -> FlushJob | None:
        if self.refusals:
            self.refusals -= 1
            return None
        if not self.needs_flush:
            return None
        return FlushJob(
            end_offset=self.end_offset,
            truncations=0,
            sequence=0,
            files=[self.disk],
            on_failure=lambda reason: setattr(self, "failure", reason),
        )

    def complete_flush(self, ticket: FlushJob) -> None:
        assert ticket.is_done
        self.flushed_end_offset = ticket.end_offset

    def is_flushed_by(self, flusher: object) -> bool:
        return True

    def flushed(self) -> None:
        self.moved.set()

    def fail(self, code: ErrorCode) -> None:
        self.failed_with = code


@pytest.fixture
def disk() -> Disk:
    return Disk()


class Setup:
    def __init__(self, disk: Disk, log_dir: Path) -> None:
        self.disk = disk
        self.fatal: list[BaseException] = []
        self.commit = GroupCommit(str(log_dir), self.fatal.append, retry_seconds=0.01)

    def append(self, log: DirtyLog, count: int = 1) -> None:
        log.end_offset += count
        self.commit.request(cast(LogFlushes, log))


@pytest.fixture
async def setup(
    disk: Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Setup]:
    monkeypatch.setattr(FileSystem, "sync", lambda self: disk.sync_whole())
    made = Setup(disk, tmp_path)
    made.commit.start()
    yield made
    disk.gate.set()
    await made.commit.stop()


async def flushed(log: DirtyLog) -> None:
    async with asyncio.timeout(10):
        while log.flushed_end_offset < log.end_offset:
            await log.moved.wait()
            log.moved.clear()


async def test_requests_of_one_turn_are_one_sync(setup: Setup, disk: Disk) -> None:
    log = DirtyLog(disk)
    for _ in range(50):
        setup.append(log)
    await flushed(log)
    assert (disk.files, disk.whole) == (1, 0)


async def test_a_flush_that_cannot_begin_is_retried(setup: Setup, disk: Disk) -> None:
    log = DirtyLog(disk)
    log.refusals = 3
    setup.append(log)
    await flushed(log)
    assert (log.refusals, disk.files) == (0, 1)


async def test_requests_during_a_round_wait_for_the_next(setup: Setup, disk: Disk) -> None:
    log = DirtyLog(disk)
    disk.gate.clear()
    setup.append(log)
    assert await asyncio.to_thread(disk.began.wait, 10)
    setup.append(log, 5)
    await asyncio.sleep(0.02)
    assert log.flushed_end_offset == 0
    disk.gate.set()
    async with asyncio.timeout(10):
        await log.moved.wait()
    # The first round began before the five appends. The second may have ended by now.
    assert log.flushed_end_offset in (1, 6)
    await flushed(log)
    assert disk.files == 2


async def test_many_dirty_logs_are_one_sync_of_the_file_system(setup: Setup, disk: Disk) -> None:
    logs = [DirtyLog(disk) for _ in range(500)]
    for log in logs:
        setup.append(log)
    for log in logs:
        await flushed(log)
    assert (disk.files, disk.whole) == (0, 1)


@pytest.mark.parametrize("count", [1, 2, 40])
async def test_a_failed_sync_is_final_for_every_log(setup: Setup, disk: Disk, count: int) -> None:
    disk.error = OSError(errno.EIO, "Input/output error")
    logs = [DirtyLog(disk) for _ in range(count)]
    for log in logs:
        setup.append(log)
    async with asyncio.timeout(10):
        while not setup.fatal:
            await asyncio.sleep(0.01)
    assert isinstance(setup.fatal[0], LogDirectoryError)
    assert all(log.failed_with for log in logs)
    assert any(log.failure for log in logs)
    syncs = disk.files + disk.whole
    # Never again, even if the disk reports no more errors.
    disk.error = None
    late = DirtyLog(disk)
    setup.append(late)
    assert late.failed_with is ErrorCode.kafka_storage_error
    await asyncio.sleep(0.02)
    assert disk.files + disk.whole == syncs
    assert not any(log.flushed_end_offset for log in (*logs, late))


async def test_a_stop_finishes_the_running_round(setup: Setup, disk: Disk) -> None:
    log = DirtyLog(disk)
    disk.gate.clear()
    setup.append(log)
    assert await asyncio.to_thread(disk.began.wait, 10)
    stopping = asyncio.create_task(setup.commit.stop())
    await asyncio.sleep(0)
    disk.gate.set()
    await stopping
    await flushed(log)


def test_the_real_file_system_is_synced(tmp_path: Path) -> None:
    file_system = FileSystem.of(str(tmp_path))
    if file_system is None:
        pytest.skip("the kernel has no syncfs that reports errors")
    (tmp_path / "file").write_bytes(b"x")
    file_system.sync()
    file_system.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        file_system.sync()


def test_a_directory_of_another_file_system_rules_out_whole_syncs(tmp_path: Path) -> None:
    elsewhere = Path("/dev/shm")
    if not elsewhere.is_dir() or elsewhere.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("no second file system here")
    (tmp_path / "t-0").symlink_to(elsewhere)
    assert FileSystem.of(str(tmp_path)) is None
