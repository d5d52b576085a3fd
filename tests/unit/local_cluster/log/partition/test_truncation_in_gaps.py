"""Truncations into gaps that compaction left: the log ends there, over any stop."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from local_cluster.log.config.log_config import LogConfig
from local_cluster.log.disk.files import OsFiles
from local_cluster.log.partition.partition_log import PartitionLog
from local_cluster.records.header import read_header
from local_cluster.wire.errors import KafkaError
from tests.unit.local_cluster.log.faulty_files import FaultyFiles
from tests.unit.local_cluster.log.samples import (
    NOW_MS,
    TOPIC_ID,
    append,
    batch,
    create,
    flush,
    offsets_of,
    reopen,
)

CONFIG = LogConfig(segment_bytes=2_000, index_interval_bytes=50)
GAPS = ["within a segment", "between segments"]
STEPS_MAX = 50


def put(log: PartitionLog, offset: int) -> None:
    """Append a record at an offset, as a follower of a leader that has compacted."""
    later = batch(1)
    later[:8] = offset.to_bytes(8)
    log.as_follower.append(later, [read_header(later)], now_ms=NOW_MS)


def with_a_gap(directory: Path, gap: str, files: OsFiles | None = None) -> PartitionLog:
    """Make a log with the offsets 0 to 2 and 20, flushed."""
    log = create(directory, files, CONFIG)
    append(log, batch(3))
    if gap == "between segments":
        log.writer.roll(NOW_MS, 20)
    put(log, 20)
    flush(log)
    return log


def stopped(log: PartitionLog, directory: Path, stop: str, end_offset_min: int) -> PartitionLog:
    """Close a log, or drop it as a kill does, and open it with its checkpointed offsets."""
    if stop == "clean":
        log.close()
        assert log.flushed_end_offset == log.log_end_offset
    return PartitionLog.open(
        OsFiles(),
        f"{directory}/t-0",
        "t",
        0,
        CONFIG,
        now_ms=NOW_MS,
        topic_id=TOPIC_ID,
        recovery_point=log.flushed_end_offset,
        durable_offset=max(log.flushed_end_offset, end_offset_min),
        end_offset_min=end_offset_min,
        is_clean=stop == "clean",
    )


@pytest.mark.parametrize("stop", ["clean", "killed", "killed after a flush"])
@pytest.mark.parametrize("is_reopened", [False, True])
@pytest.mark.parametrize("gap", GAPS)
@pytest.mark.parametrize("offset", [3, 15, 20])
def test_a_truncated_log_ends_at_the_offset_even_in_a_compaction_gap(
    tmp_path: Path, offset: int, gap: str, is_reopened: bool, stop: str
) -> None:
    """A lower end would be below the high watermark; a leader would assign offsets twice."""
    log = with_a_gap(tmp_path, gap)
    if is_reopened:
        log.close()
        log = reopen(tmp_path, config=CONFIG, recovery_point=21, is_clean=True)
    log.truncation.truncate_to(offset, NOW_MS).run()
    assert log.log_end_offset == offset
    assert offsets_of(log) == [0, 1, 2]
    if stop == "killed after a flush" and log.flusher.needs_flush:
        flush(log)
        assert log.flushed_end_offset == offset
    log = stopped(log, tmp_path, stop, end_offset_min=offset)
    assert log.corruption is None
    assert log.log_end_offset == offset
    assert offsets_of(log) == [0, 1, 2]
    append(log, batch(2))
    log = stopped(log, tmp_path, stop, end_offset_min=offset)
    assert log.corruption is None
    assert offsets_of(log) == [0, 1, 2, offset, offset + 1]
    log.close()


@pytest.mark.parametrize("gap", GAPS)
def test_the_end_counts_as_flushed_once_a_flush_has_covered_the_new_segment(
    tmp_path: Path, gap: str
) -> None:
    log = with_a_gap(tmp_path, gap)
    log.truncation.truncate_to(15, NOW_MS).run()
    assert log.flushed_end_offset == 3
    flush(log)
    assert log.flushed_end_offset == 15
    log.close()


@pytest.mark.parametrize("gap", GAPS)
def test_a_log_is_truncated_in_one_gap_after_another(tmp_path: Path, gap: str) -> None:
    log = with_a_gap(tmp_path, gap)
    for offset in (15, 18, 16, 15, 7):
        log.truncation.truncate_to(offset, NOW_MS).run()
        assert log.log_end_offset == offset
        log = stopped(log, tmp_path, "killed", end_offset_min=offset)
        assert (log.log_end_offset, log.corruption) == (offset, None)
        put(log, 20)
        assert offsets_of(log) == [0, 1, 2, 20]
    log.close()


def test_a_log_is_truncated_before_its_first_batch(tmp_path: Path) -> None:
    log = create(tmp_path, config=CONFIG)
    put(log, 20)
    flush(log)
    log.truncation.truncate_to(15, NOW_MS).run()
    log = stopped(log, tmp_path, "killed", end_offset_min=15)
    assert (log.log_start_offset, log.log_end_offset, log.corruption) == (0, 15, None)
    log.close()


@pytest.mark.parametrize("gap", GAPS)
def test_a_stop_at_any_step_of_a_truncation_is_seen_by_the_next_start(
    tmp_path: Path, gap: str
) -> None:
    """The log is as before, or as after the truncation, or corrupt because it ends too early."""
    ends = set()
    for first in range(STEPS_MAX):
        directory = tmp_path / str(first)
        files = FaultyFiles(first=1 << 30, count=1 << 30, error=errno.EIO, tenths=0)
        log = with_a_gap(directory, gap, files)
        put(log, 30)
        flush(log)
        files.first = len(files.calls) + first
        try:
            log.truncation.truncate_to(15, NOW_MS)
            is_over = True
        except KafkaError:
            is_over = False
        log = stopped(log, directory, "killed", end_offset_min=15)
        assert offsets_of(log) in ([0, 1, 2], [0, 1, 2, 20], [0, 1, 2, 20, 30])
        assert (log.corruption is not None) == (log.log_end_offset < 15)
        ends.add(log.log_end_offset)
        if is_over:
            assert (log.log_end_offset, offsets_of(log)) == (15, [0, 1, 2])
            break
    assert is_over
    assert ends >= {31, 3, 15}


def test_an_empty_segment_preserves_the_log_end_offset_over_a_restart(tmp_path: Path) -> None:
    log = with_a_gap(tmp_path, "between segments")
    log.truncation.truncate_to(20, NOW_MS).run()
    for is_clean in (True, False):
        log.close()
        log = reopen(tmp_path, config=CONFIG, is_clean=is_clean)
        assert log.log_end_offset == 20
    log.close()


def test_retention_continues_behind_an_empty_segment(tmp_path: Path) -> None:
    log = create(tmp_path, config=CONFIG)
    put(log, 20)
    log.truncation.truncate_to(15, NOW_MS).run()
    append(log, batch(1))
    log.writer.roll(NOW_MS)
    assert list(log.segments.base_offsets) == [0, 15, 16]
    later_ms = NOW_MS + 10 * CONFIG.retention_ms
    log.cleanup.apply_retention(later_ms, 15).run()
    assert list(log.segments.base_offsets) == [15, 16]
    log.cleanup.apply_retention(later_ms, 16).run()
    assert list(log.segments.base_offsets) == [16]
    log.close()
