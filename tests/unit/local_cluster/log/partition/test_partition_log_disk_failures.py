"""ENOSPC, EIO, short writes and failed fsyncs: nothing half visible, nothing wrongly flushed."""

from __future__ import annotations

import errno
import gc
from pathlib import Path

import pytest

from local_cluster.log.config.log_config import LogConfig
from local_cluster.log.disk.disk_health import DiskState
from local_cluster.log.disk.disk_work import LogDirectoryError
from local_cluster.wire.errors import ErrorCode, KafkaError
from tests.unit.local_cluster.log.samples import (
    NOW_MS,
    FailingFiles,
    append,
    batch,
    create,
    flush,
    offsets_of,
    read_all,
    reopen,
)


@pytest.mark.parametrize("error", [0, errno.ENOSPC, errno.EIO])
@pytest.mark.parametrize("fits_bytes", [0, 1, 60, 70])
def test_a_failed_write_leaves_the_log_unchanged(
    tmp_path: Path, error: int, fits_bytes: int
) -> None:
    disk = FailingFiles()
    state = DiskState("d")
    log = create(tmp_path, disk, disk=state)
    append(log, batch(2, producer=(9, 0, 0)))
    before = read_all(log)
    disk.fits_bytes, disk.error = fits_bytes, error
    with pytest.raises(KafkaError) as refused:
        append(log, batch(3, producer=(9, 0, 2)), epoch=8)
    assert refused.value.code is ErrorCode.kafka_storage_error
    assert log.log_end_offset == 2
    assert log.leader_epochs.epoch_of(1) == 0
    assert Path(log.segments.active.log_path).read_bytes() == before
    assert offsets_of(log) == [0, 1]
    with pytest.raises(KafkaError) as refused:
        append(log, batch(3, producer=(9, 0, 2)))
    assert refused.value.code is ErrorCode.kafka_storage_error
    # A repetition is acknowledged again, whatever state the disk is in.
    assert append(log, batch(2, producer=(9, 0, 0))) == (0, 1, -1, 0, True)
    if error == errno.EIO:
        state.freed()
        assert state.refusal is not None, "only a restart clears a failed disk"
        log = reopen(tmp_path)
    state.freed()
    # The disk works again, and the producer retries with the same sequence.
    assert append(log, batch(3, producer=(9, 0, 2))) == (2, 4, -1, 0, False)
    assert offsets_of(log) == [0, 1, 2, 3, 4]
    assert offsets_of(reopen(tmp_path)) == [0, 1, 2, 3, 4]


def test_a_failed_write_that_cannot_be_undone_fails_the_log(tmp_path: Path) -> None:
    disk = FailingFiles()
    log = create(tmp_path, disk)
    append(log, batch(2))
    disk.fits_bytes, disk.error, disk.truncate_fails = 70, errno.EIO, True
    with pytest.raises(KafkaError):
        append(log, batch(3))
    disk.truncate_fails = False
    assert log.failure is not None
    with pytest.raises(KafkaError):
        append(log, batch(1))
    assert offsets_of(log) == [0, 1]
    again = reopen(tmp_path)
    assert again.torn_bytes == 70
    assert offsets_of(again) == [0, 1]


@pytest.mark.parametrize("truncate_fails", [True, False])
def test_an_index_that_cannot_be_written_is_written_at_the_next_roll(
    tmp_path: Path, truncate_fails: bool
) -> None:
    disk = FailingFiles()
    config = LogConfig(segment_bytes=1000, index_interval_bytes=50)
    state = DiskState("d")
    log = create(tmp_path, disk, config, state)
    for _ in range(8):
        append(log, batch(1, value=b"x" * 40))
    disk.fits_bytes, disk.error, disk.truncate_fails = 5, errno.ENOSPC, truncate_fails
    with pytest.raises(KafkaError):
        append(log, batch(1, value=b"x" * 400))
    disk.truncate_fails = False
    state.freed()
    append(log, batch(1, value=b"x" * 500))
    assert log.segments.base_offsets == (0, 8)
    log.close()
    first = tmp_path / "t-0" / "00000000000000000000.index"
    written = first.read_bytes()
    first.unlink()
    again = reopen(tmp_path, config=config, is_clean=True)
    assert offsets_of(again) == list(range(9))
    assert first.read_bytes() == written
    assert len(written) > 8


def test_after_a_failed_roll_the_old_segment_stays_active(tmp_path: Path) -> None:
    disk = FailingFiles()
    state = DiskState("d")
    log = create(tmp_path, disk, LogConfig(segment_bytes=300), state)
    append(log, batch(1, value=b"x" * 100))
    disk.create_fails = True
    with pytest.raises(KafkaError) as refused:
        append(log, batch(1, value=b"y" * 100))
    assert refused.value.code is ErrorCode.kafka_storage_error
    state.freed()
    assert append(log, batch(1, value=b"z" * 10)).base_offset == 1
    disk.create_fails = False
    assert append(log, batch(1, value=b"y" * 100)).base_offset == 2
    assert log.segments.base_offsets == (0, 2)
    log.close()
    for is_clean in (True, False):
        assert offsets_of(reopen(tmp_path, is_clean=is_clean)) == [0, 1, 2]


def test_flushed_end_offset_moves_only_when_the_job_completes(tmp_path: Path) -> None:
    disk = FailingFiles()
    log = create(tmp_path, disk)
    append(log, batch(2))
    assert log.flushed_end_offset == 0
    first = log.flusher.begin_flush()
    append(log, batch(1))
    second = log.flusher.begin_flush()
    assert first is not None
    assert second is not None
    second.run()
    first.run()
    log.flusher.complete_flush(second)
    log.flusher.complete_flush(first)
    assert log.flushed_end_offset == 3
    assert log.flusher.begin_flush() is None


def test_a_flush_covers_metadata_directories_epochs_and_rolled_segments(tmp_path: Path) -> None:
    disk = FailingFiles()
    log = create(tmp_path, disk, LogConfig(segment_bytes=300))
    append(log, batch(1, value=b"x" * 100))
    append(log, batch(1, value=b"x" * 100), epoch=3)
    flush(log)
    assert {
        "00000000000000000000.log",
        "00000000000000000000.index",
        "00000000000000000000.timeindex",
        "00000000000000000001.log",
        "leader-epoch-checkpoint",
        "partition.metadata",
        "t-0",
        tmp_path.name,
    } <= set(disk.synced)
    disk.synced.clear()
    append(log, batch(1, value=b"y"), epoch=3)
    flush(log)
    assert disk.synced == ["00000000000000000001.log"]


def test_a_log_that_is_never_flushed_holds_no_deleted_file_open(tmp_path: Path) -> None:
    log = create(tmp_path, config=LogConfig(segment_bytes=300, retention_ms=1000))
    for _ in range(20):
        append(log, batch(1, value=b"x" * 100))
    log.cleanup.apply_retention(NOW_MS + 5000, high_watermark=20).run()
    gc.collect()
    links = [link.readlink() for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
    held = [link for link in links if str(link).startswith(f"{tmp_path}/t-0")]
    assert [link.name for link in held] == ["00000000000000000020.log"]
    append(log, batch(1))
    flush(log)
    assert log.flushed_end_offset == 21


def test_segments_that_roll_during_a_flush_are_left_for_the_next(tmp_path: Path) -> None:
    disk = FailingFiles()
    log = create(tmp_path, disk, LogConfig(segment_bytes=300))
    append(log, batch(1, value=b"x" * 100))
    ticket = log.flusher.begin_flush()
    assert ticket is not None
    append(log, batch(1, value=b"x" * 100))
    ticket.run()
    log.flusher.complete_flush(ticket)
    assert log.flushed_end_offset == 1
    disk.synced.clear()
    flush(log)
    assert {"t-0", "00000000000000000000.index", "00000000000000000001.log"} <= set(disk.synced)


def test_a_failed_fsync_fails_the_log_and_is_never_retried(tmp_path: Path) -> None:
    disk = FailingFiles()
    log = create(tmp_path, disk)
    append(log, batch(1))
    ticket = log.flusher.begin_flush()
    assert ticket is not None
    disk.sync_fails = True
    with pytest.raises(LogDirectoryError) as failed:
        ticket.run()
    assert failed.value.code is ErrorCode.kafka_storage_error
    disk.sync_fails = False
    assert log.flushed_end_offset == 0
    assert log.flusher.begin_flush() is None
    with pytest.raises(KafkaError) as refused:
        append(log, batch(1))
    assert refused.value.code is ErrorCode.kafka_storage_error
    with pytest.raises(AssertionError):
        log.flusher.complete_flush(ticket)


def test_a_flush_of_truncated_bytes_counts_nothing(tmp_path: Path) -> None:
    log = create(tmp_path)
    append(log, batch(4))
    append(log, batch(4))
    ticket = log.flusher.begin_flush()
    assert ticket is not None
    ticket.run()
    log.truncation.truncate_to(4, 0)
    append(log, batch(6))
    log.flusher.complete_flush(ticket)
    assert log.flushed_end_offset == 0
    flush(log)
    assert log.flushed_end_offset == 10


def test_a_truncation_that_fails_fails_the_log(tmp_path: Path) -> None:
    disk = FailingFiles()
    log = create(tmp_path, disk)
    append(log, batch(1))
    append(log, batch(1))
    disk.truncate_fails = True
    with pytest.raises(KafkaError):
        log.truncation.truncate_to(1, 0)
    disk.truncate_fails = False
    assert log.failure is not None
    with pytest.raises(KafkaError):
        append(log, batch(1))
