"""Opening the files that a clean shutdown, a crash or a bad disk left."""

from __future__ import annotations

from pathlib import Path

import pytest

from local_cluster.log.config.log_config import LogConfig
from local_cluster.log.partition.partition_log import PartitionLog
from local_cluster.log.segment.scan import SECTOR_BYTES
from local_cluster.records.batch import iter_records
from local_cluster.wire.errors import ErrorCode, KafkaError
from tests.unit.local_cluster.log.samples import (
    NOW_MS,
    append,
    bases,
    batch,
    create,
    flush,
    offsets_of,
    read_all,
    reopen,
)

SEGMENTS = LogConfig(segment_bytes=700, index_interval_bytes=100)


def filled(tmp_path: Path, count: int = 30, config: LogConfig = SEGMENTS) -> PartitionLog:
    log = create(tmp_path, config=config)
    for index in range(count):
        append(log, batch(2, timestamp_ms=NOW_MS + index), epoch=index // 12)
    return log


def files(tmp_path: Path, pattern: str) -> list[Path]:
    return sorted((tmp_path / "t-0").glob(pattern))


def flip(path: Path, position: int) -> None:
    content = bytearray(path.read_bytes())
    content[position] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("is_clean", [True, False])
def test_a_reopened_log_is_complete(tmp_path: Path, is_clean: bool) -> None:
    log = filled(tmp_path)
    content, epochs = read_all(log), log.leader_epochs.entries
    latest, newest = log.reader.offset_for_timestamp(NOW_MS + 17), log.reader.max_timestamp()
    if is_clean:
        log.close()
    again = reopen(tmp_path, config=SEGMENTS, is_clean=is_clean)
    assert read_all(again) == content
    assert again.leader_epochs.entries == epochs
    assert again.segments.base_offsets == log.segments.base_offsets
    assert again.corruption is None
    assert again.torn_bytes == 0
    assert again.reader.offset_for_timestamp(NOW_MS + 17) == latest
    assert again.reader.max_timestamp() == newest
    assert again.flushed_end_offset == (60 if is_clean else 0)
    append(again, batch(1), epoch=9)
    assert offsets_of(again) == list(range(61))


def test_indexes_rebuilt_after_a_crash_are_those_of_a_clean_stop(tmp_path: Path) -> None:
    filled(tmp_path / "clean").close()
    filled(tmp_path / "crashed")
    reopen(tmp_path / "crashed", config=SEGMENTS).close()
    for pattern in ("*.index", "*.timeindex", "leader-epoch-checkpoint"):
        left, right = files(tmp_path / "clean", pattern), files(tmp_path / "crashed", pattern)
        assert [path.name for path in left] == [path.name for path in right]
        assert [path.read_bytes() for path in left] == [path.read_bytes() for path in right]


@pytest.mark.parametrize("is_clean", [True, False])
@pytest.mark.parametrize("pattern", ["*.index", "*.timeindex", "leader-epoch-checkpoint"])
@pytest.mark.parametrize("damage", ["remove", "cut", "empty"])
def test_missing_and_broken_files_are_rebuilt(
    tmp_path: Path, is_clean: bool, pattern: str, damage: str
) -> None:
    log = filled(tmp_path)
    content, epochs = read_all(log), log.leader_epochs.entries
    log.close()
    for path in files(tmp_path, pattern):
        match damage:
            case "remove":
                path.unlink()
            case "cut":
                path.write_bytes(path.read_bytes()[:-1])
            case "empty" if pattern == "leader-epoch-checkpoint":
                path.write_bytes(b"")
    again = reopen(tmp_path, config=SEGMENTS, is_clean=is_clean, recovery_point=60)
    assert read_all(again) == content
    assert again.leader_epochs.entries == epochs
    for index in range(30):
        found = again.reader.offset_for_timestamp(NOW_MS + index)
        assert found is not None
        assert found.timestamp_ms == NOW_MS + index


def test_a_torn_tail_is_truncated_and_the_log_continues(tmp_path: Path) -> None:
    log = filled(tmp_path)
    path = Path(log.segments.active.log_path)
    path.write_bytes(path.read_bytes() + bytes(batch(3))[:-5])
    again = reopen(tmp_path, config=SEGMENTS)
    assert again.corruption is None
    assert again.torn_bytes == len(batch(3)) - 5
    append(again, batch(1))
    assert offsets_of(again) == list(range(61))


def test_pages_that_never_reached_the_disk_are_a_torn_tail(tmp_path: Path) -> None:
    log = filled(tmp_path, 4, LogConfig())
    size = len(batch(2))
    content = bytearray(Path(log.segments.active.log_path).read_bytes())
    content[size * 2 : size * 3] = bytes(size)
    Path(log.segments.active.log_path).write_bytes(content)
    again = reopen(tmp_path, recovery_point=4, durable_offset=4)
    assert again.corruption is None
    assert again.log_end_offset == 4


@pytest.mark.parametrize("where", ["first segment", "before the tail", "durable tail"])
def test_bit_rot_is_never_truncated(tmp_path: Path, where: str) -> None:
    log = filled(tmp_path)
    names = files(tmp_path, "*.log")
    size = len(batch(2))
    sizes = {path: path.stat().st_size for path in names}
    match where:
        case "first segment":
            flip(names[0], size + 70)
            whole, durable = 2, 0
        case "before the tail":
            flip(names[-1], 70)
            whole, durable = bases(names)[-1], 0
        case _:
            flip(names[-1], names[-1].stat().st_size - 1)
            whole, durable = 58, 60
    del log
    again = reopen(tmp_path, config=SEGMENTS, durable_offset=durable)
    assert again.corruption is not None
    assert again.log_end_offset == whole
    assert [record.offset for record in iter_records(read_all(again))] == list(range(whole))
    with pytest.raises(KafkaError) as refused:
        append(again, batch(1))
    assert refused.value.code is ErrorCode.kafka_storage_error
    assert again.flusher.begin_flush() is None
    again.close()
    assert {path: path.stat().st_size for path in files(tmp_path, "*.log")} == sizes
    # Only a truncation on purpose makes it writable again, and then it stays so.
    again.truncation.truncate_to(whole, NOW_MS).run()
    append(again, batch(1))
    assert offsets_of(reopen(tmp_path, config=SEGMENTS)) == list(range(whole + 1))


@pytest.mark.parametrize(
    ("at", "half_a_batch_follows"),
    [(at, False) for at in (8, 11, 16, 17, 23, 60, -1)] + [(at, True) for at in (17, 23, 60, -1)],
)
def test_a_damaged_last_batch_is_not_a_torn_tail(
    tmp_path: Path, at: int, half_a_batch_follows: bool
) -> None:
    log = filled(tmp_path, 4, LogConfig())
    path, size = Path(log.segments.active.log_path), len(batch(2))
    flip(path, 3 * size + at % size)
    if half_a_batch_follows:
        path.write_bytes(path.read_bytes() + bytes(batch(3))[:-5])
    before = path.read_bytes()
    for _ in range(2):
        again = reopen(tmp_path)
        assert again.corruption is not None
        assert again.log_end_offset == 6
        again.close()
        assert path.read_bytes() == before


@pytest.mark.parametrize("sector", range(4))
def test_a_batch_with_an_unwritten_sector_is_torn(tmp_path: Path, sector: int) -> None:
    log = create(tmp_path)
    append(log, batch(1))
    append(log, batch(1, value=b"x" * 1600))
    path = Path(log.segments.active.log_path)
    content = bytearray(path.read_bytes())
    assert 3 * SECTOR_BYTES < len(content) < 4 * SECTOR_BYTES
    start = max(sector * SECTOR_BYTES, len(batch(1)))
    stop = min((sector + 1) * SECTOR_BYTES, len(content))
    content[start:stop] = bytes(stop - start)
    path.write_bytes(content)
    again = reopen(tmp_path)
    assert again.corruption is None
    assert again.log_end_offset == 1
    assert path.stat().st_size == len(batch(1))


@pytest.mark.parametrize("in_first", [12, 16, 17, 30, 60])
@pytest.mark.parametrize("is_first_written", [False, True])
def test_a_header_with_an_unwritten_sector_is_torn(
    tmp_path: Path, in_first: int, is_first_written: bool
) -> None:
    log = create(tmp_path)
    filler = SECTOR_BYTES - in_first - len(batch(1, value=b"x" * 300))
    append(log, batch(1, value=b"x" * (300 + filler)))
    append(log, batch(1, value=b"x" * 200))
    path = Path(log.segments.active.log_path)
    content = bytearray(path.read_bytes())
    start = SECTOR_BYTES - in_first
    lost = slice(SECTOR_BYTES, len(content)) if is_first_written else slice(start, SECTOR_BYTES)
    content[lost] = bytes(len(content[lost]))
    path.write_bytes(content)
    again = reopen(tmp_path)
    assert again.corruption is None
    assert again.log_end_offset == 1
    assert path.stat().st_size == start


def test_a_damaged_length_before_the_tail_is_not_a_torn_tail(tmp_path: Path) -> None:
    filled(tmp_path, 4, LogConfig())
    [path] = files(tmp_path, "*.log")
    flip(path, len(batch(2)) + 8)  # the highest byte of the second batch's length
    again = reopen(tmp_path)
    assert again.corruption is not None
    assert again.log_end_offset == 2


def test_segments_below_the_recovery_point_are_not_read(tmp_path: Path) -> None:
    log = filled(tmp_path)
    flush(log)
    names = files(tmp_path, "*.log")
    flip(names[0], 70)
    again = reopen(tmp_path, config=SEGMENTS, recovery_point=60, durable_offset=60)
    assert again.corruption is None
    assert again.log_end_offset == 60


def test_batches_that_a_crash_left_unflushed_are_flushed_before_they_count(tmp_path: Path) -> None:
    filled(tmp_path)
    again = reopen(tmp_path, config=SEGMENTS, recovery_point=10)
    assert again.flushed_end_offset == 10
    ticket = again.flusher.begin_flush()
    assert ticket is not None
    ticket.run()
    again.flusher.complete_flush(ticket)
    assert again.flushed_end_offset == 60


def test_leftovers_of_deletions_are_removed(tmp_path: Path) -> None:
    filled(tmp_path).close()
    leftover = tmp_path / "t-0" / "00000000000000000000.log.deleted"
    leftover.write_bytes(b"x")
    reopen(tmp_path, config=SEGMENTS, is_clean=True)
    assert not leftover.exists()


def test_an_empty_segment_after_a_roll_is_opened(tmp_path: Path) -> None:
    log = filled(tmp_path)
    log.writer.roll(NOW_MS)
    again = reopen(tmp_path, config=SEGMENTS)
    assert again.segments.base_offsets[-1] == 60
    append(again, batch(1))
    assert offsets_of(again) == list(range(61))


def test_a_tail_torn_before_an_empty_segment_is_truncated(tmp_path: Path) -> None:
    log = filled(tmp_path)
    last = Path(log.segments.active.log_path)
    log.writer.roll(NOW_MS)
    last.write_bytes(last.read_bytes()[:-3])
    again = reopen(tmp_path, config=SEGMENTS)
    assert again.corruption is None
    assert again.log_end_offset == 58
    append(again, batch(1))
    again.close()
    assert offsets_of(reopen(tmp_path, config=SEGMENTS, is_clean=True)) == list(range(59))


def test_a_leader_epoch_file_older_than_a_truncation_does_not_count(tmp_path: Path) -> None:
    log = create(tmp_path)
    append(log, batch(1), epoch=0)
    append(log, batch(2), epoch=0)
    append(log, batch(1), epoch=1)
    flush(log)
    log.truncation.truncate_to(1, NOW_MS)
    append(log, batch(1), epoch=1)
    again = reopen(tmp_path, recovery_point=log.flushed_end_offset)
    assert [again.leader_epochs.epoch_of(offset) for offset in (0, 1)] == [0, 1]


def test_leader_epochs_that_are_on_the_disk_are_not_written_again(tmp_path: Path) -> None:
    """After a crash a log can be flushed on a full disk."""
    log = create(tmp_path)
    append(log, batch(2), epoch=1)
    append(log, batch(2), epoch=3)
    flush(log)
    path = tmp_path / "t-0" / "leader-epoch-checkpoint"
    before = path.stat().st_ino
    again = reopen(tmp_path)
    flush(again)
    assert path.stat().st_ino == before
    append(again, batch(1), epoch=4)
    flush(again)
    assert path.stat().st_ino != before
    assert [entry.epoch for entry in reopen(tmp_path).leader_epochs.entries] == [1, 3, 4]


def test_the_log_start_offset_is_kept(tmp_path: Path) -> None:
    log = filled(tmp_path)
    log.cleanup.advance_log_start(33)
    log.close()
    again = reopen(tmp_path, config=SEGMENTS, is_clean=True, log_start_offset=33)
    assert again.log_start_offset == 33
    assert again.leader_epochs.epoch_of(33) == 1
    with pytest.raises(KafkaError):
        again.reader.read(32, bytes_max=1, offset_limit=60, at_least_one_batch=True)
