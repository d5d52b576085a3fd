"""Rolling, retention, truncation, deletion: which segments exist and who can still read."""

from __future__ import annotations

from pathlib import Path

import pytest

from local_cluster.log.config.log_config import LogConfig
from local_cluster.log.partition.partition_log import PartitionLog
from local_cluster.records.header import patch_base_offset, read_header
from local_cluster.wire.errors import ErrorCode, KafkaError
from tests.unit.local_cluster.log.samples import (
    NOW_MS,
    append,
    bases,
    batch,
    create,
    offsets_of,
    read_all,
    reopen,
)

DAY_MS = 86_400_000


def on_disk(tmp_path: Path) -> list[int]:
    return bases(list((tmp_path / "t-0").glob("*.log")))


def test_roll_by_size(tmp_path: Path) -> None:
    size = len(batch(1))
    log = create(tmp_path, config=LogConfig(segment_bytes=3 * size))
    for _ in range(7):
        append(log, batch(1))
    assert log.segments.base_offsets == (0, 3, 6)
    assert on_disk(tmp_path) == [0, 3, 6]
    assert log.segments.size_bytes == 7 * size
    assert offsets_of(log) == list(range(7))


def test_roll_by_the_time_of_the_messages(tmp_path: Path) -> None:
    log = create(tmp_path, config=LogConfig(segment_ms=1000))
    for timestamp_ms in (5000, 5500, 6000, 6001, 4000, 7002):
        append(log, batch(1, timestamp_ms=timestamp_ms))
    assert log.segments.base_offsets == (0, 3, 5)


def test_roll_by_the_clock_where_messages_have_no_time(tmp_path: Path) -> None:
    log = create(tmp_path, config=LogConfig(segment_ms=1000))
    for now_ms in (NOW_MS, NOW_MS + 1000, NOW_MS + 1001):
        append(log, batch(1, timestamp_ms=-1), now_ms=now_ms)
    assert log.segments.base_offsets == (0, 2)


def test_the_time_to_roll_survives_a_restart(tmp_path: Path) -> None:
    config = LogConfig(segment_ms=1000)
    log = create(tmp_path, config=config)
    append(log, batch(1, timestamp_ms=5000))
    log.close()
    again = reopen(tmp_path, config=config, is_clean=True)
    append(again, batch(1, timestamp_ms=6000))
    append(again, batch(1, timestamp_ms=6001))
    assert again.segments.base_offsets == (0, 2)


def test_roll_when_an_offset_is_too_far_for_an_index(tmp_path: Path) -> None:
    log = create(tmp_path)
    for base in (0, 2**31 - 3, 2**31, 2**33):
        follow(log, base)
    # Three records: the last of the second batch is just within reach of the first segment.
    assert log.segments.base_offsets == (0, 2**31, 2**33)
    assert offsets_of(reopen(tmp_path)) == offsets_of(log)
    assert len(offsets_of(log)) == 12
    # The same for several batches of one fetch, and after an empty segment that begins too early.
    far = [batch(1), batch(1)]
    for buffer, offset in zip(far, (2**34, 2**36), strict=True):
        patch_base_offset(buffer, 0, offset)
    headers = [read_header(buffer) for buffer in far]
    log.writer.roll(NOW_MS)
    log.as_follower.append(far[0] + far[1], headers, now_ms=NOW_MS)
    assert list(log.segments.base_offsets)[3:] == [2**33 + 3, 2**34, 2**36]
    assert offsets_of(log)[12:] == [2**34, 2**36]
    log.close()
    for is_clean in (True, False):
        assert offsets_of(reopen(tmp_path, is_clean=is_clean)) == offsets_of(log)


def follow(log: PartitionLog, base_offset: int) -> None:
    """Append a batch of three records at an offset that the leader assigned."""
    buffer = batch(3)
    patch_base_offset(buffer, 0, base_offset)
    log.as_follower.append(buffer, [read_header(buffer)], now_ms=NOW_MS)


def test_roll_when_an_index_is_full(tmp_path: Path) -> None:
    config = LogConfig(index_interval_bytes=0, segment_index_bytes=80)
    log = create(tmp_path, config=config)
    for index in range(12):
        append(log, batch(1, timestamp_ms=NOW_MS + index))
    # The time index has room for six entries, one of them for closing; the first batch has none.
    assert log.segments.base_offsets == (0, 6)
    for path in (tmp_path / "t-0").glob("*index"):
        assert path.stat().st_size <= 80


def test_jitter_rolls_earlier_but_always_at_the_same_time(tmp_path: Path) -> None:
    config = LogConfig(segment_ms=1000, segment_jitter_ms=900)
    rolled = []
    for name in ("a", "b"):
        log = create(tmp_path / name, config=config)
        for timestamp_ms in range(1002):
            append(log, batch(1, timestamp_ms=timestamp_ms))
        rolled.append(log.segments.base_offsets[1])
    assert rolled[0] == rolled[1]
    assert 100 <= rolled[0] <= 1000


def test_retention_by_time_keeps_what_is_young_or_not_committed(tmp_path: Path) -> None:
    size = len(batch(1))
    log = create(tmp_path, config=LogConfig(segment_bytes=2 * size, retention_ms=DAY_MS))
    for index in range(8):
        append(log, batch(1, timestamp_ms=NOW_MS + index * DAY_MS))
    assert len(log.cleanup.apply_retention(NOW_MS + 2 * DAY_MS, high_watermark=8)) == 0
    now_ms = NOW_MS + 5 * DAY_MS + 1
    assert len(log.cleanup.apply_retention(now_ms, high_watermark=3)) == 1
    deletion = log.cleanup.apply_retention(now_ms, high_watermark=8)
    assert [segment.base_offset for segment in deletion.segments] == [2]
    assert log.log_start_offset == 4
    assert offsets_of(log) == [4, 5, 6, 7]
    deletion.run()
    assert on_disk(tmp_path) == [4, 6]
    assert not [path for path in deletion.paths if Path(path).exists()]
    with pytest.raises(KafkaError) as refused:
        log.reader.read(3, bytes_max=1, offset_limit=8, at_least_one_batch=True)
    assert refused.value.code is ErrorCode.offset_out_of_range


def test_retention_may_empty_the_log_and_appends_continue(tmp_path: Path) -> None:
    log = create(tmp_path, config=LogConfig(retention_ms=1000))
    append(log, batch(3), epoch=2)
    assert len(log.cleanup.apply_retention(NOW_MS + 5000, high_watermark=2)) == 0
    assert len(log.cleanup.apply_retention(NOW_MS + 5000, high_watermark=3)) == 1
    assert (log.log_start_offset, log.log_end_offset) == (3, 3)
    append(log, batch(1), epoch=2)
    log.close()
    again = reopen(tmp_path, is_clean=True)
    assert offsets_of(again) == [3]
    assert again.leader_epochs.epoch_of(3) == 2


def test_retention_by_size(tmp_path: Path) -> None:
    size = len(batch(1))
    log = create(
        tmp_path,
        config=LogConfig(segment_bytes=2 * size, retention_bytes=5 * size, retention_ms=-1),
    )
    for _ in range(9):
        append(log, batch(1))
    assert len(log.cleanup.apply_retention(NOW_MS, high_watermark=9)) == 2
    assert log.log_start_offset == 4


def test_compacted_topics_lose_only_what_lies_before_the_log_start(tmp_path: Path) -> None:
    size = len(batch(1))
    config = LogConfig(
        segment_bytes=2 * size, retention_ms=1, retention_bytes=1, is_deleted_by_retention=False
    )
    log = create(tmp_path, config=config)
    for _ in range(6):
        append(log, batch(1))
    assert len(log.cleanup.apply_retention(NOW_MS + DAY_MS, high_watermark=6)) == 0
    log.cleanup.advance_log_start(3)
    assert len(log.cleanup.apply_retention(NOW_MS + DAY_MS, high_watermark=6)) == 1
    assert log.segments.base_offsets[0] == 2
    assert log.log_start_offset == 3


def test_slices_outlive_their_segment(tmp_path: Path) -> None:
    size = len(batch(1))
    log = create(tmp_path, config=LogConfig(segment_bytes=2 * size, retention_ms=1000))
    for _ in range(6):
        append(log, batch(1))
    piece = log.reader.read(0, bytes_max=1 << 20, offset_limit=6, at_least_one_batch=True)
    before = piece.read()
    log.cleanup.apply_retention(NOW_MS + DAY_MS, high_watermark=6).run()
    assert on_disk(tmp_path) == [6]
    assert piece.read() == before
    log.delete(f"{tmp_path}/gone").run()
    assert piece.read() == before


def test_slices_outlive_their_topic(tmp_path: Path) -> None:
    log = create(tmp_path)
    append(log, batch(2))
    piece = log.reader.read(0, bytes_max=1 << 20, offset_limit=2, at_least_one_batch=True)
    before = piece.read()
    log.delete(f"{tmp_path}/t-0.x-delete").run()
    assert not list(tmp_path.iterdir())
    assert piece.read() == before
    with pytest.raises(KafkaError):
        append(log, batch(1))


@pytest.mark.parametrize("offset", range(22))
def test_truncation_keeps_the_whole_batches_before(tmp_path: Path, offset: int) -> None:
    size = len(batch(2))
    config = LogConfig(segment_bytes=3 * size, index_interval_bytes=100)
    log = create(tmp_path, config=config)
    for index in range(10):
        append(log, batch(2, timestamp_ms=NOW_MS + index), epoch=index // 4)
    log.truncation.truncate_to(offset, NOW_MS).run()
    kept = min(offset // 2 * 2, 20)
    assert log.log_end_offset == kept
    assert offsets_of(log) == list(range(kept))
    assert log.leader_epochs.latest == ((kept - 1) // 8 if kept else -1)
    newest = log.reader.max_timestamp()
    assert (newest.timestamp_ms if newest else None) == (NOW_MS + kept // 2 if kept else None)
    append(log, batch(1), epoch=7)
    assert offsets_of(log) == list(range(kept + 1))
    log.close()
    assert offsets_of(reopen(tmp_path, config=config, is_clean=True)) == list(range(kept + 1))


def test_truncating_below_the_first_segment_starts_over_there(tmp_path: Path) -> None:
    log = create(tmp_path, config=LogConfig(retention_ms=1))
    append(log, batch(4))
    log.cleanup.apply_retention(NOW_MS + DAY_MS, high_watermark=4)
    append(log, batch(1))
    log.truncation.truncate_to(2, NOW_MS).run()
    assert (log.log_start_offset, log.log_end_offset) == (2, 2)


def test_truncating_fully_starts_over_anywhere(tmp_path: Path) -> None:
    log = create(tmp_path)
    append(log, batch(4, producer=(9, 0, 0)), epoch=3)
    log.truncation.truncate_fully(100, NOW_MS).run()
    assert (log.log_start_offset, log.log_end_offset) == (100, 100)
    assert log.producers.get(9) is None
    assert log.leader_epochs.latest == -1
    assert append(log, batch(1)).base_offset == 100
    log.close()
    assert offsets_of(reopen(tmp_path, is_clean=True)) == [100]


def test_readers_that_continue_after_a_truncation_see_the_new_batches(tmp_path: Path) -> None:
    log = create(tmp_path)
    for _ in range(4):
        append(log, batch(2, value=b"old"))
    read_all(log, 100)
    log.truncation.truncate_to(4, NOW_MS)
    for _ in range(3):
        append(log, batch(1, value=b"newer and longer"))
    assert offsets_of(log) == list(range(7))
    piece = log.reader.read(5, bytes_max=1, offset_limit=7, at_least_one_batch=True)
    assert piece.next_offset == 6
