"""Compaction against a list of records, and a crash at every step of every swap."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from local_cluster.log.compaction.cleaner import run_job
from local_cluster.log.compaction.compaction_job import Compacted
from local_cluster.log.compaction.compaction_round import plan_round
from local_cluster.log.config.log_config import LogConfig
from local_cluster.log.disk.files import OsFiles
from local_cluster.log.partition.partition_log import PartitionLog
from local_cluster.records.batch import Record
from local_cluster.wire.errors import KafkaError
from tests.unit.local_cluster.log.compaction.compaction_samples import NoThrottle, compact, put
from tests.unit.local_cluster.log.samples import NOW_MS, create, read_all, records_of, reopen

RETENTION_MS = 1000
CONFIG = LogConfig(
    is_compacted=True,
    is_deleted_by_retention=False,
    segment_bytes=700,
    index_interval_bytes=100,
    min_cleanable_dirty_ratio=0.0,
    delete_retention_ms=RETENTION_MS,
)

Pairs = list[tuple[bytes, bytes | None]]

pair = st.tuples(
    st.integers(0, 5).map(lambda number: b"k%d" % number),
    st.one_of(st.none(), st.binary(max_size=40)),
)
step = st.one_of(
    st.lists(pair, min_size=1, max_size=6),
    st.just("roll"),
    st.sampled_from(["compact", "compact small", "restart", "crash"]),
    st.integers(1, 1500),
)


def latest(records: list[Record]) -> dict[bytes | None, bytes | None]:
    """Return the latest value of every key, tombstones applied."""
    values = {record.key: record.value for record in records}
    return {key: value for key, value in values.items() if value is not None}


@settings(max_examples=60, deadline=None)
@given(steps=st.lists(step, max_size=30), codec=st.sampled_from([0, 0, 4]))
def test_any_mix_keeps_the_latest_values_and_every_offset(
    steps: list[Pairs | str | int], codec: int
) -> None:
    root = Path(tempfile.mkdtemp(prefix="log-compaction-"))
    try:
        log = create(root, config=CONFIG)
        written: dict[int, Record] = {}
        compacted_ms: dict[int, int] = {}
        now_ms, cleaned, sequence = NOW_MS, 0, 0
        for one in steps:
            if isinstance(one, int):
                now_ms += one
            elif isinstance(one, list):
                base = put(log, *one, codec=codec, now_ms=now_ms, producer=(3, 0, sequence))
                sequence += len(one)
                for index, (key, value) in enumerate(one):
                    written[base + index] = Record(base + index, now_ms, key, value)
            elif one == "roll":
                if log.segments.all[-1].size_bytes:
                    log.writer.roll(now_ms)
            elif one.startswith("compact"):
                bytes_max = 24 * 7 if one == "compact small" else 1 << 16
                done = compact(log, cleaned_offset=cleaned, now_ms=now_ms, key_bytes_max=bytes_max)
                if done is not None:
                    cleaned = done.end_offset
                    for offset in written:
                        if offset < cleaned:
                            compacted_ms.setdefault(offset, now_ms)
            elif one == "restart":
                log.close()
                log = reopen(root, config=CONFIG, is_clean=True)
            else:
                log = reopen(root, config=CONFIG)
            check(log, written, compacted_ms, now_ms)
        assert put(log, (b"end", b"1"), producer=(3, 0, sequence)) == len(written)
    finally:
        shutil.rmtree(root)


def check(
    log: PartitionLog,
    written: dict[int, Record],
    compacted_ms: dict[int, int],
    now_ms: int,
) -> None:
    records = records_of(log)
    assert log.log_end_offset == len(written)
    assert all(written[record.offset] == record for record in records)
    offsets = [record.offset for record in records]
    assert offsets == sorted(set(offsets))
    assert latest(records) == latest(list(written.values()))
    there = set(offsets)
    newest = {record.key: offset for offset, record in written.items()}
    for offset, record in written.items():
        if newest[record.key] == offset and record.value is None and offset not in there:
            assert compacted_ms[offset] + RETENTION_MS <= now_ms


def fill(root: Path) -> PartitionLog:
    log = create(root, config=CONFIG)
    for index in range(60):
        put(
            log,
            (b"k%d" % (index % 4), b"v%d" % index + b"x" * 40),
            (b"once%d" % index if index % 9 == 0 else b"t", None if index % 2 else b"y"),
            producer=(5, 0, 2 * index),
        )
    return log


def test_a_second_round_changes_nothing() -> None:
    root = Path(tempfile.mkdtemp(prefix="log-compaction-"))
    try:
        log = fill(root)
        # Segments that shrank are grouped in the next round, so it takes a few.
        sizes: list[int] = []
        while sizes != (sizes := [segment.size_bytes for segment in log.segments.all]):
            assert compact(log) is not None
        assert len(sizes) == 3
        once = read_all(log)
        assert compact(log) is not None
        assert read_all(log) == once
        assert [segment.size_bytes for segment in log.segments.all] == sizes
    finally:
        shutil.rmtree(root)


class Crash(OSError):
    """The process dies here."""


class CrashingFiles(OsFiles):
    """Kills the process before the rename of a given number."""

    def __init__(self, renames_left: int) -> None:
        self.renames_left = renames_left

    def rename(self, path: str, new_path: str) -> None:
        if not self.renames_left:
            raise Crash("here")
        self.renames_left -= 1
        super().rename(path, new_path)


def test_a_crash_at_every_step_of_the_swap_loses_nothing() -> None:
    """Crash at each step, and for every third one at each step of the recovery as well."""
    root = Path(tempfile.mkdtemp(prefix="log-compaction-"))
    try:
        pristine = fill(root / "pristine")
        expected = latest(records_of(pristine))
        # Segments that shrank in a first round are grouped in the second, seven into one.
        assert compact(pristine) is not None
        pristine.close()
        crashes = 0
        finished = False
        while not finished:
            work = root / f"work{crashes}"
            shutil.copytree(root / "pristine", work)
            finished = swap_until(work, crashes)
            assert finished or list((work / "t-0").glob("*.swap")) or crashes_between(work)
            second = 0 if crashes % 3 == 0 else 1 << 30
            while True:
                again = root / f"again{crashes}-{second}"
                shutil.copytree(work, again)
                recovered = recover(again, second)
                if recovered:
                    break
                assert recover(again, 1 << 30)
                verify(again, expected)
                shutil.rmtree(again)
                second += 1
            verify(again, expected)
            shutil.rmtree(again)
            crashes += 1
        assert crashes > 30
    finally:
        shutil.rmtree(root)


def swap_until(work: Path, renames: int) -> bool:
    """Return whether the round ended before that many renames."""
    log = PartitionLog.open(
        CrashingFiles(renames), f"{work}/t-0", "t", 0, CONFIG, now_ms=NOW_MS, is_clean=True
    )
    planned = plan_round(
        log, cleaned_offset=0, last_stable_offset=120, now_ms=NOW_MS, key_bytes_max=1 << 16
    )
    assert planned is not None
    assert [len(group) for group in planned.job.groups] == [7, 3, 1]
    for result in run_job(planned.job, OsFiles(), NoThrottle()):
        if isinstance(result, Compacted):
            return True
        try:
            assert planned.take_over(result) is not None
        except KafkaError:
            assert log.failure is not None
            return False
    raise AssertionError("a round ends with its result")


def crashes_between(work: Path) -> bool:
    """Return whether the crash came between two swaps: a `.cleaned` log is left."""
    return bool(list((work / "t-0").glob("*.log.cleaned")))


def recover(directory: Path, renames: int) -> bool:
    """Open as after a crash; return false where that crashed as well."""
    with contextlib.suppress(KafkaError):
        PartitionLog.open(CrashingFiles(renames), f"{directory}/t-0", "t", 0, CONFIG, now_ms=NOW_MS)
        return True
    return False


def verify(directory: Path, expected: dict[bytes | None, bytes | None]) -> None:
    log = reopen(directory, config=CONFIG)
    assert log.corruption is None
    assert log.log_end_offset == 120
    records = records_of(log)
    assert latest(records) == expected
    offsets = [record.offset for record in records]
    assert offsets == sorted(set(offsets))
    names = {path.name.partition(".")[2] for path in (directory / "t-0").iterdir()}
    assert names <= {"log", "index", "timeindex", "snapshot", ""} | {"metadata"}, names
    assert put(log, (b"z", b"1"), producer=(5, 0, 120)) == 120
