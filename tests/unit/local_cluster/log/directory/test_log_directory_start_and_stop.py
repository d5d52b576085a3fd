"""The cost of a start and a stop: no write, wait or growing cost per partition."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from local_cluster.log.config.log_config import LogConfig
from local_cluster.log.directory.log_directory import LogDirectory
from local_cluster.log.disk.files import LogFile
from tests.unit.local_cluster.log.directory.directory_samples import StandingClock
from tests.unit.local_cluster.log.faulty_files import FaultyFiles
from tests.unit.local_cluster.log.samples import TOPIC_ID, append, batch, flush, offsets_of

PARTITIONS = 30
SEGMENTS = 4
CONFIG = LogConfig(segment_bytes=300, index_interval_bytes=50)


class CountingFiles(FaultyFiles):
    """The real file system; records the calls that change it, and what is opened and read."""

    def __init__(self) -> None:
        super().__init__(first=0, count=0, error=0, tenths=0)
        self.opened: Counter[str] = Counter()
        self.asked = 0

    def open(self, path: str, *, create: bool = False) -> LogFile:
        self.opened[path] += 1
        return super().open(path, create=create)

    def read_bytes(self, path: str) -> bytes:
        self.asked += 1
        return super().read_bytes(path)

    def exists(self, path: str) -> bool:
        self.asked += 1
        return super().exists(path)

    def size_bytes(self, path: str) -> int:
        self.asked += 1
        return super().size_bytes(path)


def opened(root: Path, files: FaultyFiles) -> LogDirectory:
    directory = LogDirectory(root, files, broker_id=1, clock=StandingClock())
    directory.open(cluster_id="c", config=CONFIG)
    return directory


def written(root: Path, *, clean: bool) -> None:
    directory = opened(root, CountingFiles())
    for index in range(PARTITIONS):
        log = directory.get_or_create("t", TOPIC_ID, index, CONFIG)
        for _ in range(SEGMENTS):
            append(log, batch(1, value=b"x" * 150, producer=(-1, -1, -1)))
        assert len(log.segments.all) == SEGMENTS
        flush(log)
        append(log, batch(1, value=b"y"))
    directory.checkpoint()
    directory.close(clean=clean)


def test_a_clean_start_writes_nothing_and_opens_no_closed_segment(tmp_path: Path) -> None:
    written(tmp_path, clean=True)
    files = CountingFiles()
    directory = opened(tmp_path, files)
    assert directory.was_clean
    # The marker of the clean shutdown is removed durably: once, not per partition.
    assert files.calls == ["remove", "sync"]
    opened_logs = [path for path in files.opened if path.endswith(".log")]
    active = {log.segments.active.log_path for log in directory}
    assert set(opened_logs) <= active
    assert max(files.opened[path] for path in opened_logs) == 1
    assert files.asked <= PARTITIONS * (8 + 5 * SEGMENTS)


def test_an_unchanged_log_is_closed_without_a_write(tmp_path: Path) -> None:
    written(tmp_path, clean=True)
    files = CountingFiles()
    directory = opened(tmp_path, files)
    changed = directory.get_or_create("t", TOPIC_ID, 3, CONFIG)
    append(changed, batch(1))
    files.calls.clear()
    files.opened.clear()
    directory.close()
    # Three checkpoints and the marker for all; files of one log only.
    assert {Path(path).parent.name for path in files.opened} <= {"t-3"}
    assert Counter(files.calls)["sync"] <= 16 < PARTITIONS
    again = opened(tmp_path, CountingFiles())
    assert again.was_clean
    counts = {log.partition: len(offsets_of(log)) for log in again}
    assert counts == {index: SEGMENTS + 1 + (index == 3) for index in range(PARTITIONS)}


def test_after_a_crash_only_unflushed_records_are_checked(tmp_path: Path) -> None:
    written(tmp_path, clean=False)
    files = CountingFiles()
    directory = opened(tmp_path, files)
    assert not directory.was_clean
    read = {path for path in files.opened if path.endswith(".log")}
    assert read == {log.segments.active.log_path for log in directory}
    assert {len(offsets_of(log)) for log in directory} == {SEGMENTS + 1}


def test_creating_partitions_does_not_wait_for_the_disk(tmp_path: Path) -> None:
    files = CountingFiles()
    directory = opened(tmp_path, files)
    files.calls.clear()
    for index in range(PARTITIONS):
        directory.get_or_create("t", TOPIC_ID, index, CONFIG)
    assert "sync" not in files.calls
    assert len(files.calls) <= PARTITIONS * 8
