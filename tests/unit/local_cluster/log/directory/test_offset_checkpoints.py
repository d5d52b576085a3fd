"""The checkpoints of a log that was truncated, or that failed in the middle of it."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Callable
from pathlib import Path

import pytest

from local_cluster.log.config.log_config import LogConfig
from local_cluster.log.directory.log_directory import LogDirectory
from local_cluster.log.disk.files import LogFile, OsFiles
from local_cluster.log.partition.partition_log import PartitionLog
from local_cluster.log.segment.segment import Segment
from local_cluster.log.state import checkpoints as c
from local_cluster.wire.errors import ErrorCode, KafkaError
from tests.unit.local_cluster.log.compaction.compaction_samples import compact, put
from tests.unit.local_cluster.log.directory.directory_samples import StandingClock, opened
from tests.unit.local_cluster.log.samples import NOW_MS, TOPIC_ID, flush, records_of

DAY_MS = 24 * 3600 * 1000
CONFIG = LogConfig(is_compacted=True, is_deleted_by_retention=False, min_cleanable_dirty_ratio=0.0)
KEY = ("t", 0)


class FullDisk(OsFiles):
    """The real file system; while it is full no file is created, replaced or renamed."""

    is_full = False
    fits_calls: int | None = None
    """How many such calls succeed before it is full; None for any number."""

    def open(self, path: str, *, create: bool = False) -> LogFile:
        if create and not self.exists(path):
            self._check()
        return super().open(path, create=create)

    def replace(self, path: str, content: bytes, *, durable: bool) -> None:
        self._check()
        super().replace(path, content, durable=durable)

    def rename(self, path: str, new_path: str) -> None:
        self._check()
        super().rename(path, new_path)

    def _check(self) -> None:
        if self.fits_calls is not None:
            self.is_full = self.fits_calls <= 0
            self.fits_calls -= 1
        if self.is_full:
            raise OSError(errno.ENOSPC, "injected")


def log_of(directory: LogDirectory) -> PartitionLog:
    return directory.get_or_create("t", TOPIC_ID, 0, CONFIG)


def killed(directory: LogDirectory, files: OsFiles | None = None) -> LogDirectory:
    """Kill the process and start its successor."""
    path = Path(directory.path)
    directory.close(clean=False)
    return opened(path, files=files)


def append_value_and_tombstone(log: PartitionLog) -> None:
    """Offsets 0 to 7 in closed segments: `k` is written at 0 and deleted at 2."""
    for value in (b"v1", b"other", None, b"another"):
        key = b"k" if value in (b"v1", None) else value
        put(log, (key, value), (b"filler", b"x"))
        log.writer.roll(NOW_MS)


def compacted(path: Path, files: OsFiles | None = None) -> LogDirectory:
    """Make a directory with a log that is compacted up to 8, and a checkpoint of that."""
    directory = opened(path, files=files)
    log = log_of(directory)
    append_value_and_tombstone(log)
    done = compact(log)
    assert done is not None
    assert done.end_offset == 8
    directory.offsets.set_cleaned(KEY, done.end_offset)
    directory.checkpoint({KEY: 8})
    return directory


def assert_nothing_is_clean_after_a_kill(directory: LogDirectory) -> None:
    """Check that the records of the log count as dirty, whatever was there before."""
    directory = killed(directory)
    assert directory.offsets.cleaned(KEY) == 0
    directory.close()


def test_a_deleted_key_stays_deleted_on_a_replica_that_was_fetched_again(tmp_path: Path) -> None:
    """The leader may have compacted nothing yet, and the process may be killed at any time."""
    directory = compacted(tmp_path)
    log = log_of(directory)
    deletion = log.truncation.truncate_fully(0, NOW_MS)
    checkpoint = directory.prepare_checkpoint({KEY: 0})
    deletion.run()
    checkpoint.run()
    append_value_and_tombstone(log)
    directory = killed(directory)
    log = log_of(directory)
    put(log, (b"newer", b"x"))
    log.writer.roll(NOW_MS)
    now_ms = NOW_MS
    for _ in range(3):
        now_ms += 2 * DAY_MS
        done = compact(log, cleaned_offset=directory.offsets.cleaned(KEY), now_ms=now_ms)
        if done is not None:
            directory.offsets.set_cleaned(KEY, done.end_offset)
        put(log, (b"newer", b"x"), now_ms=now_ms)
        log.writer.roll(now_ms)
    assert [record.value for record in records_of(log) if record.key == b"k"] in ([], [None])
    directory.close()


def test_records_left_by_a_truncation_stay_clean(tmp_path: Path) -> None:
    directory = compacted(tmp_path)
    log = log_of(directory)
    put(log, (b"newer", b"x"))
    log.truncation.truncate_to(8, NOW_MS).run()
    directory.checkpoint()
    assert directory.offsets.cleaned(KEY) == 8
    log.truncation.truncate_to(5, NOW_MS).run()
    directory.checkpoint()
    assert 0 < directory.offsets.cleaned(KEY) == log.log_end_offset < 8
    directory.close()


def test_a_kill_before_the_checkpoint_of_a_truncation_is_seen_by_the_next_start(
    tmp_path: Path,
) -> None:
    directory = compacted(tmp_path)
    log_of(directory).truncation.truncate_fully(0, NOW_MS).run()
    directory = killed(directory)
    append_value_and_tombstone(log_of(directory))
    # Killed again, before any checkpoint of that process.
    assert_nothing_is_clean_after_a_kill(directory)


def test_a_checkpoint_that_a_full_disk_refuses_is_written_by_the_next(tmp_path: Path) -> None:
    files = FullDisk()
    directory = compacted(tmp_path, files)
    log = log_of(directory)
    log.truncation.truncate_fully(0, NOW_MS).run()
    files.is_full = True
    with pytest.raises(OSError, match="injected"):
        directory.checkpoint()
    files.is_full = False
    directory.checkpoint()
    append_value_and_tombstone(log)
    assert_nothing_is_clean_after_a_kill(directory)


def test_a_log_that_failed_in_a_truncation_is_not_clean_when_it_is_opened_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = FullDisk()
    directory = compacted(tmp_path, files)
    refuse_creation_once(monkeypatch, log_of(directory))
    files.is_full = True
    directory.reopen_offline()
    assert directory.disk.is_full, "nothing is appended before the checkpoints are written"
    files.is_full = False
    directory.disk.freed()
    directory.reopen_offline()
    append_value_and_tombstone(log_of(directory))
    assert_nothing_is_clean_after_a_kill(directory)


def test_a_start_on_a_full_disk_writes_its_due_checkpoint_once_there_is_space(
    tmp_path: Path,
) -> None:
    files = FullDisk()
    directory = compacted(tmp_path, files)
    log_of(directory).truncation.truncate_fully(0, NOW_MS).run()
    files.is_full = True
    directory.close(clean=False)
    directory = LogDirectory(tmp_path, files, broker_id=1, clock=StandingClock())
    directory.open(cluster_id="c")
    assert directory.disk.is_full
    files.is_full = False
    directory.disk.freed()
    directory.reopen_offline()
    append_value_and_tombstone(log_of(directory))
    assert_nothing_is_clean_after_a_kill(directory)


def test_a_new_log_is_not_clean_by_a_checkpoint_that_is_being_written(tmp_path: Path) -> None:
    directory = compacted(tmp_path)
    directory.offsets.set_cleaned(KEY, 8)
    under_way = directory.prepare_checkpoint()
    directory.delete_topic("t", TOPIC_ID)
    under_way.run()
    append_value_and_tombstone(log_of(directory))
    assert_nothing_is_clean_after_a_kill(directory)


def test_deleted_records_stay_deleted_when_a_log_is_opened_again(tmp_path: Path) -> None:
    files = FullDisk()
    directory = opened(tmp_path, files=files)
    log = log_of(directory)
    append_value_and_tombstone(log)
    log.cleanup.advance_log_start(5)
    directory.checkpoint()
    end_in_a_swap(files, log)
    directory.reopen_offline()
    assert log_of(directory) is not log
    assert log_of(directory).log_start_offset == 5
    directory.checkpoint()
    directory = killed(directory)
    assert log_of(directory).log_start_offset == 5
    directory.close()


def test_unflushed_records_do_not_count_as_flushed_when_a_log_is_opened_again(
    tmp_path: Path,
) -> None:
    """The recovery point of the start was valid only for the log of then."""
    files = FullDisk()
    directory = opened(tmp_path, files=files)
    append_value_and_tombstone(log_of(directory))
    flush(log_of(directory))
    directory.checkpoint({KEY: 4})
    directory = killed(directory, files)
    log = log_of(directory)
    assert log.flushed_end_offset == 8
    log.truncation.truncate_to(4, NOW_MS).run()
    directory.checkpoint()
    append_value_and_tombstone(log)
    end_in_a_swap(files, log)
    directory.reopen_offline()
    again = log_of(directory)
    assert again.log_end_offset == 12
    assert again.flushed_end_offset == 4
    assert again.flusher.needs_flush
    directory.close()


def test_the_offsets_of_a_log_that_cannot_be_opened_again_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = FullDisk()
    directory = opened(tmp_path, files=files)
    log = log_of(directory)
    append_value_and_tombstone(log)
    flush(log)
    log.cleanup.advance_log_start(5)
    end_in_a_swap(files, log)
    with monkeypatch.context() as failing:
        failing.setattr(PartitionLog, "open", refuse_to_open)
        directory.reopen_offline()
    assert KEY in directory.offline
    directory.checkpoint()
    assert noted(directory, c.RECOVERY_POINTS) == {KEY: 8}
    assert noted(directory, c.LOG_START_OFFSETS) == {KEY: 5}
    directory = killed(directory)
    assert (log_of(directory).log_start_offset, log_of(directory).flushed_end_offset) == (5, 8)
    directory.close()


def test_the_recovery_point_of_a_log_that_failed_in_a_truncation_is_not_beyond_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next records there were never flushed, so a torn tail of them is no damage."""
    directory = opened(tmp_path)
    log = log_of(directory)
    append_value_and_tombstone(log)
    flush(log)
    directory.checkpoint()
    refuse_creation_once(monkeypatch, log)
    directory.reopen_offline()
    assert log_of(directory).log_end_offset == 0
    assert noted(directory, c.RECOVERY_POINTS) == {KEY: 0}
    directory.close()


CHANGES: dict[str, Callable[[PartitionLog], object]] = {
    "cut": lambda log: log.truncation.truncate_to(3, NOW_MS).run(),
    "begun anew": lambda log: log.truncation.truncate_fully(5, NOW_MS).run(),
    "emptied": lambda log: log.truncation.truncate_fully(0, NOW_MS).run(),
    "compacted": compact,
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_log_is_opened_again_with_its_offsets_after_any_refused_call(
    tmp_path: Path, what: str
) -> None:
    refused = 0
    for fits_calls in range(100):
        files = FullDisk()
        directory = opened(tmp_path / str(fits_calls), files=files)
        log = log_of(directory)
        append_value_and_tombstone(log)
        flush(log)
        put(log, (b"unflushed", b"x"))
        log.cleanup.advance_log_start(3)
        before = {record.offset: record for record in records_of(log)}
        files.fits_calls = fits_calls
        with contextlib.suppress(KafkaError):
            CHANGES[what](log)
        files.fits_calls, files.is_full = None, False
        directory.disk.freed()
        is_over = log.failure is None
        if not is_over:
            refused += 1
            directory.reopen_offline()
            assert log_of(directory) is not log
            log = log_of(directory)
            assert noted(directory, c.RECOVERY_POINTS) == {KEY: log.flushed_end_offset}
            assert log.corruption is None
            assert log.log_start_offset >= min(3, log.log_end_offset)
            assert log.flushed_end_offset <= 8
            assert {r.offset: r for r in records_of(log)}.items() <= before.items()
        directory.close(clean=False)
        if is_over:
            break
    assert is_over
    assert refused >= 3


def end_in_a_swap(files: FullDisk, log: PartitionLog) -> None:
    """Fail a log as a full disk does that refuses a rename of a swap."""
    files.is_full = True
    with pytest.raises(KafkaError, match="cannot take over a compacted segment"):
        compact(log)
    files.is_full = False
    assert log.failure is not None


def refuse_to_open(*_: object, **__: object) -> PartitionLog:
    raise KafkaError(ErrorCode.kafka_storage_error, "injected")


def noted(directory: LogDirectory, name: str) -> dict[tuple[str, int], int]:
    return c.decode_offsets((Path(directory.path) / name).read_bytes())


def refuse_creation_once(monkeypatch: pytest.MonkeyPatch, log: PartitionLog) -> None:
    """Fail a log in the middle of a full truncation."""

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, "injected")

    with monkeypatch.context() as full:
        full.setattr(Segment, "create", refuse)
        with pytest.raises(KafkaError, match="cannot be truncated"):
            log.truncation.truncate_fully(0, NOW_MS)
