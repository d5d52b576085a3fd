"""The log directory: owner, lock, clean and unclean stops, creation and deletion of logs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from uuid import UUID

import pytest

from local_cluster.log import checkpoints
from local_cluster.log.config import LogConfig
from local_cluster.log.directory import LogDirectory
from local_cluster.log.files import OsFiles
from local_cluster.log.partition_directory import parse_log_name
from local_cluster.log.partition_log import PartitionLog
from local_cluster.log.stray_logs import KEPT_MS
from local_cluster.log.tickets import LogDirectoryError
from local_cluster.wire.errors import ErrorCode, KafkaError
from tests.unit.local_cluster.log.samples import (
    NOW_MS,
    TOPIC_ID,
    FailingFiles,
    append,
    batch,
    flush,
    offsets_of,
)


class StandingClock:
    def now_ms(self) -> int:
        return NOW_MS

    def monotonic_ms(self) -> int:
        return 0


def opened(
    path: Path, *, broker_id: int = 1, cluster_id: str = "c", files: OsFiles | None = None
) -> LogDirectory:
    directory = LogDirectory(path, files or OsFiles(), broker_id=broker_id, clock=StandingClock())
    directory.open(cluster_id=cluster_id)
    return directory


def made(directory: LogDirectory, partition: int = 0, topic_id: UUID = TOPIC_ID) -> PartitionLog:
    return directory.get_or_create("t", topic_id, partition, LogConfig())


def test_a_clean_stop_is_trusted_once(tmp_path: Path) -> None:
    directory = opened(tmp_path)
    append(made(directory), batch(3), epoch=4)
    append(made(directory, 1), batch(2))
    directory.close(high_watermarks={("t", 0): 3})
    marker = tmp_path / checkpoints.CLEAN_SHUTDOWN
    assert marker.exists()
    again = opened(tmp_path)
    assert again.was_clean
    assert not marker.exists()
    assert again.high_watermark("t", 0) == 3
    assert again.high_watermark("t", 1) == 0
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
    log.advance_log_start(2)
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
    assert again.high_watermark("t", 0) == 5
    assert again.high_watermark("gone", 0) == 0
    again.close()


def test_bit_rot_below_the_high_watermark_is_no_torn_tail(tmp_path: Path) -> None:
    directory = opened(tmp_path)
    log = made(directory)
    append(log, batch(1))
    flush(log)
    directory.checkpoint({("t", 0): 1})
    path = Path(log.active_path)
    directory.close(clean=False)
    path.write_bytes(path.read_bytes()[:-1] + b"!")
    for _ in range(3):
        # Neither checkpoints nor stops declare it whole, so that it is found every time.
        again = opened(tmp_path)
        damaged = again.get("t", 0)
        assert damaged is not None
        assert damaged.corruption is not None
        again.checkpoint({("t", 0): damaged.log_end_offset})
        again.close()
        assert not (tmp_path / checkpoints.CLEAN_SHUTDOWN).exists()


def left_behind(tmp_path: Path, *, is_clean: bool) -> Path:
    """Two batches of a record each, flushed and committed; the file that they are in."""
    directory = opened(tmp_path)
    log = made(directory)
    append(log, batch(1))
    append(log, batch(1))
    flush(log)
    directory.checkpoint({("t", 0): 2})
    path = Path(log.active_path)
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
def test_a_log_whose_end_is_gone_is_corrupt(
    tmp_path: Path, flushes: bool, is_clean: bool, is_file_left: bool
) -> None:
    path = left_behind(tmp_path, is_clean=is_clean)
    if is_file_left:
        path.write_bytes(path.read_bytes()[: len(batch(1))])
    else:
        path.unlink()
    log = found_again(tmp_path, flushes=flushes)
    assert log.log_end_offset == int(is_file_left)
    # With page_cache nothing says after a crash how much of it ever was on the disk.
    assert (log.corruption is not None) == (is_clean or flushes)
    if flushes:
        assert found_again(tmp_path).corruption is not None, "until it is fetched anew"


def test_a_log_that_was_cut_off_on_purpose_is_whole(tmp_path: Path) -> None:
    directory = opened(tmp_path)
    log = made(directory)
    append(log, batch(1))
    append(log, batch(1))
    flush(log)
    directory.checkpoint({("t", 0): 1})
    log.truncate_to(1, NOW_MS).run()
    directory.close(clean=False)
    again = found_again(tmp_path)
    assert again.corruption is None
    assert again.log_end_offset == 1


def test_after_a_clean_stop_a_log_that_ends_elsewhere_is_read_anew(tmp_path: Path) -> None:
    path = left_behind(tmp_path, is_clean=True)
    content = bytearray(path.read_bytes())
    content[len(batch(1)) + 24] ^= 1  # of the last offset delta
    path.write_bytes(content)
    log = found_again(tmp_path)
    assert log.corruption is not None
    assert log.log_end_offset == 1
    assert path.read_bytes() == content


def test_after_a_clean_stop_nothing_is_cut_and_the_next_crash_finds_the_damage(
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
def test_a_high_watermark_is_not_checkpointed_before_what_it_covers_is_flushed(
    tmp_path: Path, flushes: bool, known: int
) -> None:
    directory = LogDirectory(tmp_path, OsFiles(), broker_id=1, clock=StandingClock())
    directory.open(cluster_id="c", flushes=flushes)
    log = made(directory)
    append(log, batch(1))
    flush(log)
    append(log, batch(1))
    directory.checkpoint({("t", 0): 2})
    assert directory.high_watermark("t", 0) == known
    flush(log)
    directory.checkpoint({("t", 0): 2})
    assert directory.high_watermark("t", 0) == 2
    directory.close()


class HandClock:
    def __init__(self) -> None:
        self.at_ms = 0
        self.wall_ms = NOW_MS

    def now_ms(self) -> int:
        return self.wall_ms

    def monotonic_ms(self) -> int:
        return self.at_ms


STRAY = f"t-0.{TOPIC_ID.hex}-stray"


def run_at(path: Path, clock: HandClock) -> LogDirectory:
    """A run of a broker: its machine was started again, and so was its monotonic clock."""
    clock.at_ms = 0
    directory = LogDirectory(path, OsFiles(), broker_id=1, clock=clock)
    directory.open(cluster_id="c")
    return directory


def run_that_sets_aside(path: Path, clock: HandClock) -> LogDirectory:
    """A run whose only log, of one record, is set aside at its beginning."""
    directory = run_at(path, clock)
    append(made(directory), batch(1))
    directory.set_aside("t", 0)
    return directory


def is_kept_at(at_ms: int, directory: LogDirectory, clock: HandClock) -> bool:
    """Whether the log that was set aside is there at that time of the run, if it is kept 100 ms."""
    clock.at_ms = at_ms
    directory.drop_old_strays(100)
    return directory.has_stray("t", 0, TOPIC_ID)


def test_what_was_set_aside_is_deleted_after_its_time(tmp_path: Path) -> None:
    clock = HandClock()
    directory = run_that_sets_aside(tmp_path, clock)
    assert directory.get("t", 0) is None
    assert directory.has_stray("t", 0, TOPIC_ID)
    assert directory.partitions_count == 0
    assert is_kept_at(99, directory, clock)
    directory.collect_garbage().run()
    assert (tmp_path / STRAY).is_dir()
    assert not is_kept_at(100, directory, clock)
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == [
        f"t-0.{TOPIC_ID.hex}-delete"
    ]
    directory.collect_garbage().run()
    assert not any(path.is_dir() for path in tmp_path.iterdir())
    directory.close()


def test_a_start_goes_on_counting_for_how_long_it_is_kept(tmp_path: Path) -> None:
    clock = HandClock()
    directory = run_that_sets_aside(tmp_path, clock)
    clock.at_ms = 30
    directory.prepare_stray_notes().run()
    clock.at_ms = 35
    directory.close(clean=False)

    # Neither the time in which nothing ran nor a wall clock that jumps is time that it was kept.
    clock.wall_ms += 10**9
    again = run_at(tmp_path, clock)
    assert again.partitions_count == 0
    assert is_kept_at(40, again, clock)
    again.close()

    clock.wall_ms -= 10**10
    last = run_at(tmp_path, clock)
    assert is_kept_at(29, last, clock)
    assert not is_kept_at(30, last, clock)
    last.close()


def test_what_came_back_and_is_set_aside_again_is_counted_anew(tmp_path: Path) -> None:
    clock = HandClock()
    directory = run_that_sets_aside(tmp_path, clock)
    clock.at_ms = 90
    late = directory.prepare_stray_notes()
    late.run()
    assert offsets_of(made(directory)) == [0]
    assert not (tmp_path / "t-0" / KEPT_MS).exists()
    late.run()  # nothing is made in place of what came back
    assert not (tmp_path / STRAY).exists()
    # It may have come back while a worker wrote.
    (tmp_path / "t-0" / KEPT_MS).write_bytes(b"90")
    directory.set_aside("t", 0)
    directory.close(clean=False)
    again = run_at(tmp_path, clock)
    assert is_kept_at(99, again, clock)
    again.close()


@pytest.mark.parametrize("note", [b"", b"-5", b"9" * 16, b"soon", b"\xb2"])
def test_a_note_that_cannot_be_right_is_no_reason_to_delete(tmp_path: Path, note: bytes) -> None:
    clock = HandClock()
    directory = run_that_sets_aside(tmp_path, clock)
    directory.close(clean=False)
    (tmp_path / STRAY / KEPT_MS).write_bytes(note)
    again = run_at(tmp_path, clock)
    assert is_kept_at(99, again, clock)
    assert not is_kept_at(100, again, clock)
    again.close()


def test_strays_of_long_names_stay_apart(tmp_path: Path) -> None:
    directory = opened(tmp_path)
    name = "t" * 249
    for partition in (0, 12):
        append(directory.get_or_create(name, TOPIC_ID, partition, LogConfig()), batch(1))
        directory.set_aside(name, partition)
    assert len([path for path in tmp_path.iterdir() if path.is_dir()]) == 2
    for partition in (0, 12):
        log = directory.get_or_create(name, TOPIC_ID, partition, LogConfig())
        assert (log.partition, log.log_end_offset) == (partition, 1)
    directory.close()


def test_one_process_at_a_time(tmp_path: Path) -> None:
    directory = opened(tmp_path)
    program = (
        "import sys; from pathlib import Path;"
        "from local_cluster.clock import SystemClock;"
        "from local_cluster.log.directory import LogDirectory;"
        "from local_cluster.log.files import OsFiles;"
        "LogDirectory(Path(sys.argv[1]), OsFiles(), broker_id=1, clock=SystemClock()).open()"
    )
    root = Path(__file__).parents[4]
    command = [sys.executable, "-c", program, str(tmp_path)]
    blocked = subprocess.run(command, capture_output=True, text=True, cwd=root, check=False)
    assert blocked.returncode == 1
    assert "in use by another process" in blocked.stderr
    directory.close()
    assert subprocess.run(command, cwd=root, check=False).returncode == 0


def test_a_directory_belongs_to_one_broker_of_one_cluster(tmp_path: Path) -> None:
    opened(tmp_path).close()
    for broker_id, cluster_id in ((2, "c"), (1, "other")):
        with pytest.raises(LogDirectoryError):
            opened(tmp_path, broker_id=broker_id, cluster_id=cluster_id)
    late = LogDirectory(tmp_path, OsFiles(), broker_id=1, clock=StandingClock())
    late.open()
    late.bind_cluster_id("c")
    with pytest.raises(LogDirectoryError):
        late.bind_cluster_id("other")
    late.close()


def test_another_incarnation_of_a_topic_is_refused_until_the_old_is_deleted(
    tmp_path: Path,
) -> None:
    directory = opened(tmp_path)
    append(made(directory), batch(1))
    newer = UUID(int=8)
    with pytest.raises(KafkaError) as refused:
        made(directory, topic_id=newer)
    assert refused.value.code is ErrorCode.inconsistent_topic_id
    directory.delete_topic("t", newer)
    assert directory.get("t", 0) is not None
    directory.delete_topic("t", TOPIC_ID)
    assert directory.get("t", 0) is None
    assert made(directory, topic_id=newer).log_end_offset == 0
    directory.collect_garbage().run()
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_dir()) == ["t-0"]
    directory.close()


@pytest.mark.parametrize("is_restarted", [False, True], ids=["at once", "after a restart"])
def test_a_new_log_is_not_opened_by_the_offsets_of_one_that_had_its_name(
    tmp_path: Path, is_restarted: bool
) -> None:
    """The checkpoints name no topic id, and are written every few seconds only."""
    directory = opened(tmp_path)
    log = made(directory)
    append(log, batch(3))
    append(log, batch(3))
    flush(log)
    log.advance_log_start(4)
    directory.checkpoint({("t", 0): 6})
    directory.delete_topic("t", TOPIC_ID)
    if is_restarted:
        directory.close(clean=False)
        directory = opened(tmp_path)
    newer = made(directory, topic_id=UUID(int=8))
    append(newer, batch(4))
    append(newer, batch(1))
    segment = tmp_path / "t-0" / "00000000000000000000.log"
    directory.fail("the power is gone")
    directory.close(clean=False)
    segment.write_bytes(segment.read_bytes()[:-1])  # a torn tail
    again = opened(tmp_path)
    reopened = again.get("t", 0)
    assert reopened is not None
    assert reopened.corruption is None
    assert (reopened.log_start_offset, reopened.log_end_offset) == (0, 4)
    assert reopened.flushed_end_offset == 0, "nothing of it is known to be on the disk"
    assert again.high_watermark("t", 0) == 0
    again.close()


def test_checkpoints_are_not_written_for_names_that_are_new(tmp_path: Path) -> None:
    directory = opened(tmp_path)
    made(directory)
    directory.checkpoint()
    written = (tmp_path / checkpoints.RECOVERY_POINTS).stat().st_ino
    directory.delete_topic("t", TOPIC_ID)
    made(directory, partition=1, topic_id=UUID(int=8))
    assert (tmp_path / checkpoints.RECOVERY_POINTS).stat().st_ino == written
    directory.checkpoint()  # tells of no former log any more
    written = (tmp_path / checkpoints.RECOVERY_POINTS).stat().st_ino
    made(directory, topic_id=UUID(int=8))
    assert (tmp_path / checkpoints.RECOVERY_POINTS).stat().st_ino == written
    directory.close()


def test_a_deletion_that_did_not_finish_is_finished_by_the_next_start(tmp_path: Path) -> None:
    directory = opened(tmp_path)
    append(made(directory), batch(1))
    directory.delete_topic("t", TOPIC_ID)
    directory.close()
    assert [path for path in tmp_path.iterdir() if path.name.endswith("-delete")]
    again = opened(tmp_path)
    assert not [path for path in tmp_path.iterdir() if path.is_dir()]
    again.close()


def test_nothing_is_deleted_for_lack_of_metadata(tmp_path: Path) -> None:
    directory = opened(tmp_path)
    append(made(directory), batch(2))
    directory.close()
    for name in (checkpoints.PARTITION_METADATA, checkpoints.LEADER_EPOCHS):
        (tmp_path / "t-0" / name).unlink()
    for name in (checkpoints.RECOVERY_POINTS, checkpoints.HIGH_WATERMARKS):
        (tmp_path / name).unlink()
    (tmp_path / "no partition").mkdir()
    again = opened(tmp_path)
    log = again.get("t", 0)
    assert log is not None
    assert offsets_of(log) == [0, 1]
    assert (tmp_path / "no partition").is_dir()
    again.close()


@pytest.mark.parametrize("is_readable", [True, False])
def test_an_unreadable_partition_is_offline_and_the_others_are_not(
    tmp_path: Path, is_readable: bool
) -> None:
    directory = opened(tmp_path)
    append(made(directory), batch(2))
    append(made(directory, 1), batch(2))
    directory.close()
    metadata = tmp_path / "t-0" / checkpoints.PARTITION_METADATA
    if is_readable:
        metadata.write_bytes(b"version: 9\n")
    else:
        metadata.unlink()
        metadata.mkdir()
    again = opened(tmp_path)
    assert again.get("t", 0) is None
    assert ("t", 0) in again.offline
    assert again.get("t", 1) is not None
    with pytest.raises(KafkaError) as refused:
        made(again)
    assert refused.value.code is ErrorCode.kafka_storage_error
    again.close()
    assert not (tmp_path / checkpoints.CLEAN_SHUTDOWN).exists()
    points = (tmp_path / checkpoints.RECOVERY_POINTS).read_bytes()
    assert checkpoints.decode_offsets(points) == {("t", 0): 2, ("t", 1): 2}


def test_a_flush_in_flight_does_not_care_that_its_topic_goes(tmp_path: Path) -> None:
    directory = opened(tmp_path, files=FailingFiles())
    log = made(directory)
    append(log, batch(1), epoch=3)
    ticket = log.begin_flush()
    assert ticket is not None
    directory.delete_topic("t", TOPIC_ID)
    made(directory, topic_id=UUID(int=8))
    directory.collect_garbage().run()
    ticket.run()
    log.complete_flush(ticket)
    assert log.begin_flush() is None
    assert not (tmp_path / "t-0" / checkpoints.LEADER_EPOCHS).exists()
    directory.close()


@pytest.mark.parametrize(
    ("name", "parsed"),
    [
        ("t-0", ("t", 0)),
        ("a-b.c_d-12", ("a-b.c_d", 12)),
        ("t", None),
        ("-1", None),
        ("t-", None),
        ("t-x", None),
        ("t-0.abc-delete", None),
        ("t-\N{SUPERSCRIPT TWO}", None),
    ],
)
def test_names_of_partition_directories(name: str, parsed: tuple[str, int] | None) -> None:
    assert parse_log_name(name) == parsed


@pytest.mark.parametrize("content", [b"", b"version: 0\ntopic"])
def test_a_log_that_lost_its_topic_id_before_its_first_flush_is_made_anew(
    tmp_path: Path, content: bytes
) -> None:
    """A power loss right after the creation: nothing of the log was counted on yet."""
    directory = opened(tmp_path)
    append(made(directory), batch(2))
    (tmp_path / "t-0" / "partition.metadata").write_bytes(content)
    directory.fail("the power is gone")
    directory.close()
    again = opened(tmp_path)
    log = made(again)
    assert (log.log_end_offset, log.topic_id) == (0, TOPIC_ID)
    append(log, batch(1))
    again.close()
    assert made(opened(tmp_path)).log_end_offset == 1


def test_a_log_that_was_counted_on_is_offline_without_its_topic_id(tmp_path: Path) -> None:
    directory = opened(tmp_path)
    log = made(directory)
    append(log, batch(2))
    flush(log)
    directory.close(high_watermarks={("t", 0): 2})
    (tmp_path / "t-0" / "partition.metadata").write_bytes(b"")
    (tmp_path / checkpoints.CLEAN_SHUTDOWN).unlink()
    again = opened(tmp_path)
    with pytest.raises(KafkaError, match=r"partition\.metadata"):
        made(again)
    assert (tmp_path / "t-0" / "00000000000000000000.log").stat().st_size


def test_with_page_cache_a_log_that_was_never_flushed_is_made_anew_whatever_was_committed(
    tmp_path: Path,
) -> None:
    """There the high watermark says nothing of the disk: offline it would stay for ever."""
    directory = opened(tmp_path)
    append(made(directory), batch(2))
    directory.checkpoint({("t", 0): 2})
    (tmp_path / "t-0" / "partition.metadata").write_bytes(b"version: 0\ntopic")
    directory.fail("the power is gone")
    directory.close(clean=False)
    again = LogDirectory(tmp_path, OsFiles(), broker_id=1, clock=StandingClock())
    again.open(cluster_id="c", flushes=False)
    assert not again.offline
    log = made(again)
    assert (log.log_end_offset, log.topic_id) == (0, TOPIC_ID)
    again.close()


def test_a_log_without_metadata_takes_the_topic_id_it_is_told_and_can_be_deleted(
    tmp_path: Path,
) -> None:
    directory = opened(tmp_path)
    append(made(directory), batch(2))
    directory.close()
    (tmp_path / "t-0" / checkpoints.PARTITION_METADATA).unlink()
    again = opened(tmp_path)
    log = made(again)
    assert (log.log_end_offset, log.topic_id) == (2, TOPIC_ID)
    again.close()
    once_more = opened(tmp_path)
    once_more.delete_topic("t", TOPIC_ID)
    assert once_more.get("t", 0) is None
    once_more.close()


def test_an_older_checkpoint_is_not_written_over_a_newer_one(tmp_path: Path) -> None:
    directory = opened(tmp_path)
    older = directory.prepare_checkpoint()
    newer = directory.prepare_checkpoint()
    newer.run()
    path = tmp_path / "recovery-point-offset-checkpoint"
    path.write_text("of the newer one")
    older.run()
    assert path.read_text() == "of the newer one"
    newer.run()
    assert path.read_text() != "of the newer one"


def test_a_directory_of_somebody_else_is_not_written_by_a_stop(tmp_path: Path) -> None:
    directory = opened(tmp_path)
    append(made(directory), batch(3))
    directory.close(high_watermarks={("t", 0): 3})
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}
    stranger = LogDirectory(tmp_path, OsFiles(), broker_id=2, clock=StandingClock())
    with pytest.raises(LogDirectoryError):
        stranger.open(cluster_id="c")
    stranger.close()
    assert before == {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}
