"""Several log directories of one broker: where partitions go, and what a failed one takes."""

from __future__ import annotations

import errno
import shutil
from pathlib import Path
from uuid import UUID

import pytest

from local_cluster.log.config.log_config import LogConfig
from local_cluster.log.directory.log_directory import LogDirectory
from local_cluster.log.directory.log_store import LogStore
from local_cluster.log.disk.disk_work import DirectoryNotOursError, LogDirectoryError
from local_cluster.log.disk.files import OsFiles
from local_cluster.log.state import checkpoints
from local_cluster.wire.errors import ErrorCode, KafkaError
from tests.unit.local_cluster.log.directory.directory_samples import StandingClock
from tests.unit.local_cluster.log.samples import TOPIC_ID, append, batch, flush, offsets_of

OTHER_ID = UUID(int=7)


class Setup:
    def __init__(self, root: Path, names: str = "ab", *, cluster_id: str = "c") -> None:
        self.failed: list[LogDirectory] = []
        self.directories = LogStore(
            [root / name for name in names],
            OsFiles(),
            broker_id=1,
            clock=StandingClock(),
            on_failed=lambda directory, _: self.failed.append(directory),
        )
        self.directories.open(cluster_id=cluster_id)

    def made(self, partition: int, topic: str = "t", topic_id: UUID = TOPIC_ID) -> str:
        """Create a partition; return the name of its directory."""
        self.directories.get_or_create(topic, topic_id, partition, LogConfig())
        return self.home(partition, topic)

    def home(self, partition: int, topic: str = "t") -> str:
        directory = self.directories.of(topic, partition)
        assert directory is not None
        return Path(directory.path).name

    def fail(self, name: str) -> None:
        (directory,) = [each for each in self.directories.all if Path(each.path).name == name]
        self.directories.fail(directory, OSError(errno.EIO, "injected"))

    def close(self) -> None:
        for directory in self.directories.all:
            directory.close(clean=directory in self.directories.live)


def test_new_partitions_go_to_the_directory_with_the_fewest(tmp_path: Path) -> None:
    setup = Setup(tmp_path, "abc")
    assert [setup.made(index) for index in range(4)] == ["a", "b", "c", "a"]
    setup.directories.delete_replica("t", 1)
    assert [setup.made(index) for index in (4, 5, 6)] == ["b", "b", "c"]
    assert setup.made(0) == "a", "it exists already"
    setup.close()


def test_a_full_disk_gets_new_partitions_only_if_all_are_full(tmp_path: Path) -> None:
    setup = Setup(tmp_path)
    first, second = setup.directories.all
    first.disk.note(OSError(errno.ENOSPC, "injected"))
    assert [setup.made(index) for index in range(2)] == ["b", "b"]
    second.disk.note(OSError(errno.ENOSPC, "injected"))
    assert setup.made(2) == "a"
    setup.close()


def test_every_directory_has_its_own_owner_checkpoints_and_clean_shutdown(tmp_path: Path) -> None:
    setup = Setup(tmp_path)
    for index in range(2):
        setup.made(index)
        log = setup.directories.get("t", index)
        assert log is not None
        append(log, batch(index + 1))
        flush(log)
    for directory in setup.directories.all:
        directory.checkpoint({("t", 0): 1, ("t", 1): 2})
    setup.close()
    for index, name in enumerate("ab"):
        points = (tmp_path / name / checkpoints.HIGH_WATERMARKS).read_bytes()
        assert checkpoints.decode_offsets(points) == {("t", index): index + 1}
        owner = (tmp_path / name / checkpoints.META_PROPERTIES).read_bytes()
        assert checkpoints.decode_meta_properties(owner) == (1, "c")
    # The order of the settings does not matter for logs that exist.
    again = Setup(tmp_path, "ba")
    assert [again.home(index) for index in range(2)] == ["a", "b"]
    assert [again.directories.high_watermark("t", index) for index in range(2)] == [1, 2]
    found = list(again.directories)
    assert sorted(offsets_of(log) for log in found) == [[0], [0, 1]]
    again.close()


def test_partitions_of_a_failed_directory_are_not_re_created_elsewhere(tmp_path: Path) -> None:
    setup = Setup(tmp_path)
    assert [setup.made(index) for index in range(2)] == ["a", "b"]
    log = setup.directories.get("t", 0)
    assert log is not None
    setup.fail("a")
    setup.fail("a")
    assert [Path(each.path).name for each in setup.failed] == ["a"], "reported once"
    assert log.failure is not None
    assert setup.directories.get("t", 0) is None
    with pytest.raises(KafkaError) as refused:
        setup.made(0)
    assert refused.value.code is ErrorCode.kafka_storage_error
    assert setup.made(1) == "b"
    assert setup.made(2) == "b", "new partitions go to the others"
    assert setup.home(0) == "a"
    setup.close()
    healed = Setup(tmp_path)
    assert [healed.home(index) for index in range(3)] == ["a", "b", "b"]
    healed.close()


def test_a_topic_is_deleted_only_in_live_directories(tmp_path: Path) -> None:
    setup = Setup(tmp_path)
    assert [setup.made(index) for index in range(2)] == ["a", "b"]
    assert [setup.made(index, "u", OTHER_ID) for index in range(2)] == ["a", "b"]
    assert setup.directories.delete_topic("u", OTHER_ID)
    setup.fail("a")
    assert not setup.directories.delete_topic("t", TOPIC_ID), "one replica is out of reach"
    setup.close()
    healed = Setup(tmp_path)
    assert [log.partition for log in healed.directories] == [0]
    assert healed.directories.delete_topic("t", TOPIC_ID)
    assert not list(healed.directories)
    healed.close()


def test_a_directory_that_cannot_be_read_at_the_start_is_left_out(tmp_path: Path) -> None:
    setup = Setup(tmp_path)
    assert [setup.made(index) for index in range(2)] == ["a", "b"]
    setup.close()
    (tmp_path / "a" / checkpoints.META_PROPERTIES).write_bytes(b"\xff")
    without = Setup(tmp_path)
    assert without.directories.has_unread
    assert [Path(each.path).name for each in without.directories.live] == ["b"]
    assert without.directories.of("t", 0) is None
    assert not without.directories.delete_topic("x", OTHER_ID), "it may hold that topic, too"
    without.close()
    (tmp_path / "b" / checkpoints.META_PROPERTIES).write_bytes(b"\xff")
    with pytest.raises(LogDirectoryError):
        Setup(tmp_path)


def test_a_directory_of_another_owner_is_not_a_failed_disk(tmp_path: Path) -> None:
    setup = Setup(tmp_path)
    setup.close()
    with pytest.raises(DirectoryNotOursError, match="of cluster c"):
        Setup(tmp_path, "a", cluster_id="other")
    Setup(tmp_path, "cab").close()


def test_two_copies_of_a_partition_stop_the_start(tmp_path: Path) -> None:
    setup = Setup(tmp_path)
    setup.made(0)
    setup.close()
    shutil.copytree(tmp_path / "a" / "t-0", tmp_path / "b" / "t-0")
    with pytest.raises(DirectoryNotOursError, match=r"t-0 is in .*/a and in .*/b"):
        Setup(tmp_path)
    shutil.rmtree(tmp_path / "b" / "t-0")
    Setup(tmp_path).close()
