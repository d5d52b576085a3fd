"""Stray logs: set aside, kept for a time, brought back or deleted."""

from __future__ import annotations

from pathlib import Path

import pytest

from local_cluster.log.config.log_config import LogConfig
from local_cluster.log.directory.log_directory import LogDirectory
from local_cluster.log.directory.stray_logs import KEPT_MS
from local_cluster.log.disk.files import OsFiles
from tests.unit.local_cluster.log.directory.directory_samples import made, opened
from tests.unit.local_cluster.log.samples import NOW_MS, TOPIC_ID, append, batch, offsets_of


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
    """A broker process after a restart of its machine, with a monotonic clock that starts over."""
    clock.at_ms = 0
    directory = LogDirectory(path, OsFiles(), broker_id=1, clock=clock)
    directory.open(cluster_id="c")
    return directory


def run_that_sets_aside(path: Path, clock: HandClock) -> LogDirectory:
    """Start a process whose only log, of one record, is set aside at once."""
    directory = run_at(path, clock)
    append(made(directory), batch(1))
    directory.set_aside("t", 0)
    return directory


def is_kept_at(at_ms: int, directory: LogDirectory, clock: HandClock) -> bool:
    """Return whether the stray exists at that time of the process, if it is kept 100 ms."""
    clock.at_ms = at_ms
    directory.drop_old_strays(100)
    return directory.strays.has("t", 0, TOPIC_ID)


def test_a_stray_is_deleted_after_its_time(tmp_path: Path) -> None:
    clock = HandClock()
    directory = run_that_sets_aside(tmp_path, clock)
    assert directory.get("t", 0) is None
    assert directory.strays.has("t", 0, TOPIC_ID)
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


def test_a_start_continues_to_count_how_long_a_stray_is_kept(tmp_path: Path) -> None:
    clock = HandClock()
    directory = run_that_sets_aside(tmp_path, clock)
    clock.at_ms = 30
    directory.strays.prepare_notes().run()
    clock.at_ms = 35
    directory.close(clean=False)

    # Neither the time in which no broker ran nor a jump of the wall clock counts.
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


def test_a_stray_that_came_back_and_is_set_aside_again_counts_from_zero(tmp_path: Path) -> None:
    clock = HandClock()
    directory = run_that_sets_aside(tmp_path, clock)
    clock.at_ms = 90
    late = directory.strays.prepare_notes()
    late.run()
    assert offsets_of(made(directory)) == [0]
    assert not (tmp_path / "t-0" / KEPT_MS).exists()
    late.run()  # it creates nothing for a stray that came back
    assert not (tmp_path / STRAY).exists()
    # The stray may have come back while a worker wrote.
    (tmp_path / "t-0" / KEPT_MS).write_bytes(b"90")
    directory.set_aside("t", 0)
    directory.close(clean=False)
    again = run_at(tmp_path, clock)
    assert is_kept_at(99, again, clock)
    again.close()


@pytest.mark.parametrize("note", [b"", b"-5", b"9" * 16, b"soon", b"\xb2"])
def test_an_invalid_note_does_not_delete_a_stray(tmp_path: Path, note: bytes) -> None:
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
