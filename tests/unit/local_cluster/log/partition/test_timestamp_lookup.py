"""Offsets by time, exact to the record."""

from __future__ import annotations

from pathlib import Path

import pytest

from local_cluster.log.config.log_config import LogConfig
from local_cluster.records.batch import NewRecord
from tests.support.compacted_batches import encode_cleaned
from tests.unit.local_cluster.log.samples import NOW_MS, append, batch, create, records_of


@pytest.mark.parametrize("codec", [0, 1, 2, 3, 4])
def test_the_first_record_at_or_after_a_time(tmp_path: Path, codec: int) -> None:
    log = create(tmp_path, config=LogConfig(segment_bytes=600, index_interval_bytes=100))
    # Timestamps go up and down over batches, and grow inside each.
    for step in (10, 40, 20, 60, 30, 80, 5, 90):
        append(log, batch(4, timestamp_ms=step, codec=codec), epoch=step // 50)
    records = records_of(log)
    for timestamp_ms in range(96):
        expected = next((r for r in records if r.timestamp_ms >= timestamp_ms), None)
        found = log.reader.offset_for_timestamp(timestamp_ms)
        if expected is None:
            assert found is None
        else:
            assert found is not None
            assert (found.offset, found.timestamp_ms) == (expected.offset, expected.timestamp_ms)
            assert found.leader_epoch == log.leader_epochs.epoch_of(found.offset)


@pytest.mark.parametrize("codec", [0, 1, 2, 3, 4])
def test_a_base_timestamp_of_no_record_is_not_found(tmp_path: Path, codec: int) -> None:
    log = create(tmp_path)
    records = [NewRecord(NOW_MS + at, b"k", None) for at in (3, 0, 2)]
    append(log, encode_cleaned(records, horizon_ms=NOW_MS + 500, has_bit=False, codec=codec))
    append(log, batch(1, timestamp_ms=NOW_MS + 400))
    places = {NOW_MS: (0, NOW_MS + 3), NOW_MS + 3: (0, NOW_MS + 3), NOW_MS + 4: (3, NOW_MS + 400)}
    for timestamp_ms, place in places.items():
        found = log.reader.offset_for_timestamp(timestamp_ms)
        assert found is not None
        assert (found.offset, found.timestamp_ms) == place
    assert log.reader.offset_for_timestamp(NOW_MS + 401) is None


def test_a_time_below_the_log_start_finds_nothing_before_it(tmp_path: Path) -> None:
    log = create(tmp_path)
    append(log, batch(4, timestamp_ms=100))
    append(log, batch(4, timestamp_ms=200))
    log.cleanup.advance_log_start(2)
    found = log.reader.offset_for_timestamp(0)
    assert found is not None
    assert (found.offset, found.timestamp_ms) == (2, 102)


def test_the_record_with_the_largest_time(tmp_path: Path) -> None:
    log = create(tmp_path)
    assert log.reader.max_timestamp() is None
    append(log, batch(3, timestamp_ms=100))
    append(log, batch(3, timestamp_ms=500))
    append(log, batch(3, timestamp_ms=300))
    newest = log.reader.max_timestamp()
    assert newest is not None
    assert (newest.offset, newest.timestamp_ms) == (5, 502)


def test_log_append_time_is_that_of_the_batch(tmp_path: Path) -> None:
    log = create(tmp_path, config=LogConfig(log_append_time=True))
    append(log, batch(3, timestamp_ms=1), now_ms=NOW_MS)
    append(log, batch(3, timestamp_ms=1), now_ms=NOW_MS + 10)
    found = log.reader.offset_for_timestamp(NOW_MS + 1)
    assert found is not None
    assert (found.offset, found.timestamp_ms) == (3, NOW_MS + 10)
