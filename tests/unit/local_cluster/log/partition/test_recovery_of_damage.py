"""Opening a log directory after a clean shutdown, after a crash, and with damaged logs."""

from __future__ import annotations

from pathlib import Path

import pytest

from local_cluster.log.directory.log_directory import LogDirectory
from local_cluster.log.disk.files import OsFiles
from local_cluster.log.partition.partition_log import PartitionLog
from local_cluster.log.state import checkpoints
from tests.unit.local_cluster.log.directory.directory_samples import StandingClock, made, opened
from tests.unit.local_cluster.log.samples import NOW_MS, TOPIC_ID, append, batch, flush, offsets_of


def test_a_clean_shutdown_is_trusted_once(tmp_path: Path) -> None:
    directory = opened(tmp_path)
    append(made(directory), batch(3), epoch=4)
    append(made(directory, 1), batch(2))
    directory.close(high_watermarks={("t", 0): 3})
    marker = tmp_path / checkpoints.CLEAN_SHUTDOWN
    assert marker.exists()
    again = opened(tmp_path)
    assert again.was_clean
    assert not marker.exists()
    assert again.offsets.high_watermark(("t", 0)) == 3
    assert again.offsets.high_watermark(("t", 1)) == 0
    log = again.get("t", 0)
    assert log is not None
    assert log.topic_id == TOPIC_ID
    assert offsets_of(log) == [0, 1, 2]
    assert log.flushed_end_offset == 3
    again.close(clean=False)
    third = opened(tmp_path)
    assert not third.was_clean
    assert len(list(third)) == 2
    third.close()


def test_a_checkpoint_keeps_start_offsets_and_recovery_points(tmp_path: Path) -> None:
    directory = opened(tmp_path)
    log = made(directory)
    append(log, batch(1))
    append(log, batch(4))
    flush(log)
    append(log, batch(1))
    log.cleanup.advance_log_start(2)
    directory.checkpoint({("t", 0): 5, ("gone", 0): 9})
    directory.close(clean=False)
    points = (tmp_path / checkpoints.RECOVERY_POINTS).read_bytes()
    assert checkpoints.decode_offsets(points) == {("t", 0): 5}
    again = opened(tmp_path)
    reopened = again.get("t", 0)
    assert reopened is not None
    assert reopened.log_start_offset == 2
    assert reopened.log_end_offset == 6
    assert reopened.flushed_end_offset == 5
    assert again.offsets.high_watermark(("t", 0)) == 5
    assert again.offsets.high_watermark(("gone", 0)) == 0
    again.close()


def test_bit_rot_below_the_high_watermark_is_not_a_torn_tail(tmp_path: Path) -> None:
    directory = opened(tmp_path)
    log = made(directory)
    append(log, batch(1))
    flush(log)
    directory.checkpoint({("t", 0): 1})
    path = Path(log.segments.active.log_path)
    directory.close(clean=False)
    path.write_bytes(path.read_bytes()[:-1] + b"!")
    for _ in range(3):
        # Neither checkpoints nor stops declare it whole: every start finds the damage.
        again = opened(tmp_path)
        damaged = again.get("t", 0)
        assert damaged is not None
        assert damaged.corruption is not None
        again.checkpoint({("t", 0): damaged.log_end_offset})
        again.close()
        assert not (tmp_path / checkpoints.CLEAN_SHUTDOWN).exists()


def left_behind(tmp_path: Path, *, is_clean: bool) -> Path:
    """Flush and commit two batches of a record each; return their file."""
    directory = opened(tmp_path)
    log = made(directory)
    append(log, batch(1))
    append(log, batch(1))
    flush(log)
    directory.checkpoint({("t", 0): 2})
    path = Path(log.segments.active.log_path)
    directory.close(clean=is_clean, high_watermarks={("t", 0): 2})
    return path


def found_again(tmp_path: Path, *, flushes: bool = True) -> PartitionLog:
    directory = LogDirectory(tmp_path, OsFiles(), broker_id=1, clock=StandingClock())
    directory.open(cluster_id="c", flushes=flushes)
    log = directory.get("t", 0)
    assert log is not None
    directory.close()
    return log


@pytest.mark.parametrize("flushes", [True, False])
@pytest.mark.parametrize("is_clean", [True, False])
@pytest.mark.parametrize("is_file_left", [True, False])
def test_a_log_that_lost_its_end_is_corrupt(
    tmp_path: Path, flushes: bool, is_clean: bool, is_file_left: bool
) -> None:
    path = left_behind(tmp_path, is_clean=is_clean)
    if is_file_left:
        path.write_bytes(path.read_bytes()[: len(batch(1))])
    else:
        path.unlink()
    log = found_again(tmp_path, flushes=flushes)
    assert log.log_end_offset == int(is_file_left)
    # With page_cache nothing shows after a crash how much of it was ever on the disk.
    assert (log.corruption is not None) == (is_clean or flushes)
    if flushes:
        assert found_again(tmp_path).corruption is not None, "until it is fetched again"


def test_a_truncated_log_is_whole(tmp_path: Path) -> None:
    directory = opened(tmp_path)
    log = made(directory)
    append(log, batch(1))
    append(log, batch(1))
    flush(log)
    directory.checkpoint({("t", 0): 1})
    log.truncation.truncate_to(1, NOW_MS).run()
    directory.close(clean=False)
    again = found_again(tmp_path)
    assert again.corruption is None
    assert again.log_end_offset == 1


def test_after_a_clean_shutdown_a_log_that_ends_elsewhere_is_checked(tmp_path: Path) -> None:
    path = left_behind(tmp_path, is_clean=True)
    content = bytearray(path.read_bytes())
    content[len(batch(1)) + 24] ^= 1  # of the last offset delta
    path.write_bytes(content)
    log = found_again(tmp_path)
    assert log.corruption is not None
    assert log.log_end_offset == 1
    assert path.read_bytes() == content


def test_after_a_clean_shutdown_nothing_is_truncated_and_the_next_crash_finds_the_damage(
    tmp_path: Path,
) -> None:
    path = left_behind(tmp_path, is_clean=True)
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    again = opened(tmp_path)
    log = again.get("t", 0)
    assert log is not None
    assert (log.corruption, log.log_end_offset) == (None, 2)
    assert path.read_bytes() == content
    again.close(clean=False)
    assert found_again(tmp_path).corruption is not None
    assert path.read_bytes() == content


@pytest.mark.parametrize(("flushes", "known"), [(True, 1), (False, 2)])
def test_a_high_watermark_is_checkpointed_only_over_flushed_records(
    tmp_path: Path, flushes: bool, known: int
) -> None:
    directory = LogDirectory(tmp_path, OsFiles(), broker_id=1, clock=StandingClock())
    directory.open(cluster_id="c", flushes=flushes)
    log = made(directory)
    append(log, batch(1))
    flush(log)
    append(log, batch(1))
    directory.checkpoint({("t", 0): 2})
    assert directory.offsets.high_watermark(("t", 0)) == known
    flush(log)
    directory.checkpoint({("t", 0): 2})
    assert directory.offsets.high_watermark(("t", 0)) == 2
    directory.close()
