"""A stray that comes back is opened with the offsets that its checkpoints had."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Callable
from pathlib import Path
from random import Random
from uuid import UUID

import pytest

from local_cluster.log.config.log_config import LogConfig
from local_cluster.log.directory.log_directory import LogDirectory
from local_cluster.log.directory.offset_checkpoints import STRAY_OFFSETS
from local_cluster.log.disk.files import Files, LogFile, OsFiles
from local_cluster.wire.errors import ErrorCode, KafkaError
from tests.sim.broker.sim_disk import SimDisk
from tests.unit.local_cluster.log.directory.directory_samples import StandingClock, made
from tests.unit.local_cluster.log.faulty_files import FaultyFiles
from tests.unit.local_cluster.log.samples import TOPIC_ID, append, batch, flush, offsets_of

KEY = ("t", 0)
CHECKPOINT_FILES = 4
STRAY = f"t-0.{TOPIC_ID.hex}-stray"


def opened(root: Path, files: Files) -> LogDirectory:
    directory = LogDirectory(root, files, broker_id=1, clock=StandingClock())
    directory.open(cluster_id="c")
    return directory


def killed(directory: LogDirectory, files: Files) -> LogDirectory:
    """Kill the process and start its successor."""
    directory.close(clean=False)
    return opened(Path(directory.path), files)


def stopped(directory: LogDirectory, files: Files) -> LogDirectory:
    directory.close()
    return opened(Path(directory.path), files)


def written(root: Path, files: Files) -> LogDirectory:
    """Make a directory with a log of the offsets 0 to 9, all committed, 0 to 5 deleted."""
    directory = opened(root, files)
    log = made(directory)
    for _ in range(10):
        append(log, batch(1))
    flush(log)
    directory.checkpoint({KEY: 10})
    log.cleanup.advance_log_start(6)
    return directory


def require_as_it_was(directory: LogDirectory) -> None:
    log = made(directory)
    assert (log.log_start_offset, log.log_end_offset, log.flushed_end_offset) == (6, 10, 10)
    assert directory.offsets.high_watermark(KEY) == 10
    assert offsets_of(log) == [6, 7, 8, 9]


def the_same(directory: LogDirectory, _files: Files) -> LogDirectory:
    return directory


@pytest.mark.parametrize("then", [the_same, killed, stopped])
@pytest.mark.parametrize("before", [the_same, killed, stopped])
def test_a_stray_comes_back_unchanged(
    tmp_path: Path,
    before: Callable[[LogDirectory, Files], LogDirectory],
    then: Callable[[LogDirectory, Files], LogDirectory],
) -> None:
    files = OsFiles()
    directory = written(tmp_path, files)
    for _ in range(2):
        directory.set_aside(*KEY)
        directory = before(directory, files)
        require_as_it_was(directory)
        # No checkpoint was written since, unless the process was stopped.
        directory = then(directory, files)
        require_as_it_was(directory)
    directory.close()


def test_stray_offsets_do_not_count_once_a_checkpoint_names_the_log(tmp_path: Path) -> None:
    directory = written(tmp_path, OsFiles())
    directory.set_aside(*KEY)
    log = made(directory)
    append(log, batch(1))
    flush(log)
    log.cleanup.advance_log_start(8)
    directory.checkpoint({KEY: 11})
    directory = killed(directory, OsFiles())
    log = made(directory)
    assert (log.log_start_offset, log.flushed_end_offset) == (8, 11)
    assert directory.offsets.high_watermark(KEY) == 11
    directory.close()


class KilledFiles(OsFiles):
    """The real file system of a process that is killed after `left` replaced files."""

    left = 1000

    def replace(self, path: str, content: bytes, *, durable: bool) -> None:
        if not self.left:
            raise OSError(errno.EIO, "the process is gone")
        self.left -= 1
        super().replace(path, content, durable=durable)


@pytest.mark.parametrize("files_written", range(5))
def test_a_checkpoint_interrupted_by_a_kill_loses_no_offsets(
    tmp_path: Path, files_written: int
) -> None:
    files = KilledFiles()
    directory = written(tmp_path, files)
    directory.set_aside(*KEY)
    directory = killed(directory, files)
    require_as_it_was(directory)
    directory.offsets.set_cleaned(KEY, 7)
    files.left = files_written
    is_whole = files_written == CHECKPOINT_FILES
    with contextlib.nullcontext() if is_whole else pytest.raises(OSError, match="gone"):
        directory.checkpoint()
    assert not files.left
    directory = killed(directory, OsFiles())
    require_as_it_was(directory)
    directory.close()


class NoRenames(OsFiles):
    def rename(self, path: str, new_path: str) -> None:
        raise OSError(errno.ENOSPC, "injected", path)


def test_stray_offsets_of_a_log_that_stayed_do_not_count(tmp_path: Path) -> None:
    directory = opened(tmp_path, NoRenames())
    log = made(directory)
    for _ in range(3):
        append(log, batch(1))
    flush(log)
    with pytest.raises(KafkaError):
        directory.set_aside(*KEY)
    log.cleanup.advance_log_start(2)
    directory.checkpoint()
    directory = killed(directory, OsFiles())
    assert made(directory).log_start_offset == 2
    directory.close()


def test_another_incarnation_is_not_opened_with_stray_offsets(tmp_path: Path) -> None:
    directory = written(tmp_path, OsFiles())
    directory.set_aside(*KEY)
    log = directory.get_or_create("t", UUID(int=8), 0, LogConfig())
    assert (log.log_start_offset, log.log_end_offset) == (0, 0)
    assert directory.offsets.high_watermark(KEY) == 0
    directory.set_aside(*KEY)
    require_as_it_was(directory)
    directory.close()


@pytest.mark.parametrize("seed", range(20))
def test_a_power_failure_loses_no_offsets_of_a_stray(seed: int) -> None:
    random, disk = Random(seed), SimDisk()
    directory = written(Path("/d"), disk)
    directory.set_aside(*KEY)
    for steps in (0, 1):
        if steps:
            require_as_it_was(directory)
        disk.power_lost(random)
        directory.close(clean=False)
        directory = opened(Path("/d"), disk)
    require_as_it_was(directory)
    directory.close()


def test_a_corrupt_stray_is_not_shortened(tmp_path: Path) -> None:
    directory = written(tmp_path, OsFiles())
    directory.checkpoint()
    path = Path(made(directory).segments.active.log_path)
    directory.close(clean=False)
    # The damage looks like an unwritten page: only the offsets show that it was written.
    content = path.read_bytes()
    damaged = content[: len(content) // 2] + bytes(len(content) - len(content) // 2)
    path.write_bytes(damaged)
    directory = opened(tmp_path, OsFiles())
    assert made(directory).corruption is not None
    for _ in range(2):
        directory.set_aside(*KEY)
        assert made(directory).corruption is not None
        assert path.read_bytes() == damaged
        directory = killed(directory, OsFiles())
        assert made(directory).corruption is not None
        assert path.read_bytes() == damaged
    directory.close()


class ReadFiles(FaultyFiles):
    """The real file system; records what was opened."""

    def __init__(self) -> None:
        super().__init__(first=0, count=0, error=0, tenths=0)
        self.opened: set[str] = set()

    def open(self, path: str, *, create: bool = False) -> LogFile:
        self.opened.add(path)
        return super().open(path, create=create)


def test_only_unflushed_records_of_a_stray_are_checked(tmp_path: Path) -> None:
    files = ReadFiles()
    directory = opened(tmp_path, files)
    log = directory.get_or_create("t", TOPIC_ID, 0, LogConfig(segment_bytes=100))
    for _ in range(5):
        append(log, batch(1))
    flush(log)
    assert len(log.segments.all) > 1
    directory.set_aside(*KEY)
    files.opened.clear()
    log = made(directory)
    assert {path for path in files.opened if path.endswith(".log")} == {
        log.segments.active.log_path
    }
    directory.close()


@pytest.mark.parametrize("note", [b"", b"0\n3\n"])
def test_a_stray_with_unreadable_offsets_stays_set_aside(tmp_path: Path, note: bytes) -> None:
    directory = written(tmp_path, OsFiles())
    directory.set_aside(*KEY)
    path = tmp_path / STRAY / STRAY_OFFSETS
    right = path.read_bytes()
    path.write_bytes(note)
    with pytest.raises(KafkaError, match=STRAY) as refusal:
        made(directory)
    assert refusal.value.code == ErrorCode.kafka_storage_error
    assert directory.strays.has(*KEY, TOPIC_ID)
    path.write_bytes(right)
    require_as_it_was(directory)
    directory.close()


def test_a_log_with_unreadable_stray_offsets_is_offline_until_they_can_be_read(
    tmp_path: Path,
) -> None:
    directory = written(tmp_path, OsFiles())
    directory.set_aside(*KEY)
    require_as_it_was(directory)
    directory.close(clean=False)
    path = tmp_path / "t-0" / STRAY_OFFSETS
    right = path.read_bytes()
    path.write_bytes(b"")
    for _ in range(2):
        directory = opened(tmp_path, OsFiles())
        assert KEY in directory.offline
        directory.checkpoint()
        directory.close()
    path.write_bytes(right)
    directory = opened(tmp_path, OsFiles())
    require_as_it_was(directory)
    directory.close()


def test_a_stray_without_offsets_comes_back_whole(tmp_path: Path) -> None:
    directory = written(tmp_path, OsFiles())
    directory.set_aside(*KEY)
    (tmp_path / STRAY / STRAY_OFFSETS).unlink()
    assert offsets_of(made(directory)) == list(range(10))
    directory.close()


def test_a_log_whose_offsets_cannot_be_written_is_not_set_aside(tmp_path: Path) -> None:
    files = FaultyFiles(first=0, count=0, error=errno.ENOSPC, tenths=0)
    directory = written(tmp_path, files)
    files.first, files.count = len(files.calls), 1
    with pytest.raises(KafkaError):
        directory.set_aside(*KEY)
    assert files.failed
    assert directory.disk.is_full
    require_as_it_was(directory)
    directory.set_aside(*KEY)
    require_as_it_was(directory)
    directory.close()
