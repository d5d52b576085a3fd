"""A replica moves to another log directory; the process may end after any step."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from local_cluster.log.config.log_config import LogConfig
from local_cluster.log.directory.log_directory import LogDirectory
from local_cluster.log.directory.log_store import LogStore
from local_cluster.log.disk.disk_work import FlushJob, LogDirectoryError
from local_cluster.log.disk.files import OsFiles
from local_cluster.log.partition.partition_log import PartitionLog
from local_cluster.log.state import checkpoints as c
from local_cluster.records.header import iter_headers
from tests.unit.local_cluster.log.directory.directory_samples import StandingClock
from tests.unit.local_cluster.log.samples import (
    NOW_MS,
    TOPIC_ID,
    append,
    batch,
    flush,
    offsets_of,
    read_all,
)

RECORDS = 7
FUTURE = f"t-0.{TOPIC_ID.hex}-future"
PRODUCER = (5, 0, 0)


def started(root: Path) -> LogStore:
    directories = LogStore([root / "a", root / "b"], OsFiles(), broker_id=1, clock=StandingClock())
    directories.open(cluster_id="c")
    return directories


class Move:
    """The move of t-0 from a to b, step by step."""

    def __init__(self, root: Path) -> None:
        self.directories = started(root)
        self.source, self.target = self.directories.all
        self.log = self.directories.get_or_create("t", TOPIC_ID, 0, LogConfig())
        append(self.log, batch(3))
        append(self.log, batch(4, producer=PRODUCER), epoch=2)
        flush(self.log)
        self.source.checkpoint({("t", 0): RECORDS})

    def create(self) -> None:
        self.copy = self.target.create_future("t", TOPIC_ID, 0, LogConfig())

    def copy_half(self) -> None:
        self._append(
            self.log.reader.read(0, bytes_max=1, offset_limit=3, at_least_one_batch=True).read()
        )

    def copy_rest(self) -> None:
        piece = self.log.reader.read(
            3, bytes_max=1 << 20, offset_limit=RECORDS, at_least_one_batch=True
        )
        self._append(piece.read())
        self.copy.flusher.complete_flush(self._synced(self.copy))

    def swap(self) -> None:
        self.copy.relocation.take_over(self.log.relocation)
        assert self.directories.swap("t", 0) == (self.source, self.log)
        self.log.state.fail("moved")

    def write(self) -> None:
        """Append a record after the swap."""
        append(self.copy, batch(1), epoch=2)

    def make_durable(self) -> None:
        self.copy.flusher.complete_flush(self._synced(self.copy))

    def checkpoint(self) -> None:
        self.target.checkpoint({("t", 0): RECORDS})

    def discard(self) -> None:
        self.source.discard(self.log)

    def sync(self) -> None:
        self.source.sync()

    def unmark(self) -> None:
        self.copy.relocation.unmark()

    def clean(self) -> None:
        self.source.collect_garbage().run()

    def _append(self, content: bytes) -> None:
        headers = [header for _, header in iter_headers(memoryview(content))]
        self.copy.as_follower.append(memoryview(content), headers, now_ms=NOW_MS)

    def _synced(self, log: PartitionLog) -> FlushJob:
        ticket = log.flusher.begin_full_flush()
        ticket.run()
        return ticket

    @property
    def steps(self) -> list[Callable[[], None]]:
        return [
            self.create,
            self.copy_half,
            self.copy_rest,
            self.swap,
            self.write,
            self.make_durable,
            self.checkpoint,
            self.discard,
            self.sync,
            self.unmark,
            self.clean,
        ]

    def end(self) -> None:
        for directory in self.directories.all:
            directory.close(clean=False)


CHECKPOINTS = (c.RECOVERY_POINTS, c.LOG_START_OFFSETS, c.HIGH_WATERMARKS)
SWAP = 3
"""The number of the step."""


@pytest.mark.parametrize("last", range(11))
def test_a_stop_after_any_step_of_a_move_leaves_one_replica(tmp_path: Path, last: int) -> None:
    move = Move(tmp_path)
    for step in move.steps[: last + 1]:
        step()
    expected = read_all(move.copy if last >= SWAP else move.log)
    move.end()
    for _ in range(2):  # a second start finds nothing else
        directories = started(tmp_path)
        home = directories.of("t", 0)
        assert home is directories.all[1 if last >= SWAP else 0]
        (log,) = directories
        assert read_all(log) == expected
        assert log.corruption is None
        assert log.leader_epochs.latest == 2
        known = log.producers.get(PRODUCER[0])
        assert known is not None
        interrupted = directories.interrupted_moves()
        if last < SWAP:
            assert interrupted == [(("t", 0), TOPIC_ID, directories.all[1])]
            assert list((tmp_path / "b" / FUTURE).iterdir()) == []
        else:
            assert interrupted == []
            assert not (tmp_path / "b" / "t-0" / "moved-here").exists()
        for directory in directories.all:
            directory.collect_garbage().run()
        for directory in directories.all:
            directory.close(clean=False)
    names = {path.name for path in tmp_path.glob("*/*") if path.is_dir()}
    assert names == ({"t-0"} if last >= SWAP else {"t-0", FUTURE})


def files_that_name_it(directory: Path) -> list[bool]:
    """Return which checkpoint files name the replica."""
    return ["t 0" in (directory / name).read_text() for name in CHECKPOINTS]


def swapped_with_deletions(root: Path) -> Move:
    """Do a move up to its swap; records before offset 5 were deleted and checkpointed before."""
    move = Move(root)
    for step in move.steps[:SWAP]:
        step()
    move.log.cleanup.advance_log_start(5)
    move.source.checkpoint({("t", 0): RECORDS})
    move.swap()
    return move


def test_deleted_records_stay_deleted_over_a_stop_in_the_swap(tmp_path: Path) -> None:
    move = swapped_with_deletions(tmp_path)
    assert move.copy.log_start_offset == 5
    move.end()
    directories = started(tmp_path)
    (log,) = directories
    assert (log.log_start_offset, log.log_end_offset) == (5, RECORDS)
    for directory in directories.all:
        directory.close(clean=False)


def test_the_offsets_of_the_former_log_stay_until_it_is_discarded(tmp_path: Path) -> None:
    """A power failure may lose the rename: then the former log is the replica."""
    move = swapped_with_deletions(tmp_path)
    move.source.checkpoint({})
    assert files_that_name_it(tmp_path / "a") == [True] * len(CHECKPOINTS)
    for step in move.steps[SWAP + 1 :]:
        step()
    move.source.checkpoint({})
    assert files_that_name_it(tmp_path / "a") == [False] * len(CHECKPOINTS)
    move.end()


def test_two_directories_without_a_mark_are_refused(tmp_path: Path) -> None:
    move = Move(tmp_path)
    for step in move.steps:
        step()
    move.end()
    (tmp_path / "a" / "t-0").mkdir()
    with pytest.raises(LogDirectoryError, match="nobody knows which is right"):
        started(tmp_path)


def test_a_mark_stays_while_a_directory_cannot_be_read(tmp_path: Path) -> None:
    move = Move(tmp_path)
    for step in move.steps[: SWAP + 3]:
        step()
    expected = offsets_of(move.copy)
    move.end()
    away = tmp_path / "away"
    (tmp_path / "a").rename(away)
    (tmp_path / "a").write_text("no directory")
    without = started(tmp_path)
    assert [offsets_of(log) for log in without] == [expected]
    for directory in without.live:
        directory.close(clean=False)
    (tmp_path / "a").unlink()
    away.rename(tmp_path / "a")
    again = started(tmp_path)
    assert [offsets_of(log) for log in again] == [expected]
    assert again.of("t", 0) is again.all[1]
    for directory in again.all:
        directory.close(clean=False)


def test_a_topic_is_deleted_with_its_copy(tmp_path: Path) -> None:
    move = Move(tmp_path)
    move.create()
    move.copy_half()
    assert move.target.partitions_count == 1
    assert move.directories.delete_topic("t", TOPIC_ID)
    for directory in move.directories.all:
        directory.collect_garbage().run()
    assert not [path for path in tmp_path.glob("*/*") if path.is_dir()]
    assert move.copy.failure is not None
    move.end()


def test_an_interrupted_copy_may_be_given_up(tmp_path: Path) -> None:
    move = Move(tmp_path)
    move.create()
    move.end()
    directories = started(tmp_path)
    directories.drop_future("t", 0)
    assert directories.interrupted_moves() == []
    for directory in directories.all:
        directory.collect_garbage().run()
        directory.close(clean=False)
    assert not (tmp_path / "b" / FUTURE).exists()


def test_a_new_partition_is_created_in_its_preferred_directory(tmp_path: Path) -> None:
    directories = started(tmp_path)
    second: LogDirectory = directories.all[1]
    assert directories.find(str(tmp_path / "b")) is second
    assert directories.find("b") is None
    directories.prefer("t", 4, second)
    for index in (0, 4, 5):
        directories.get_or_create("t", TOPIC_ID, index, LogConfig())
    assert directories.of("t", 4) is second
    for directory in directories.all:
        directory.close(clean=False)
