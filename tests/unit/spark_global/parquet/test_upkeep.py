"""Compaction of a table of Parquet files and a log, without Spark."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_global.parquet import compacting, durable
from spark_global.parquet.compacting import TableBusyError, compact_table, now_ms
from spark_global.parquet.maintaining import delete_unnamed, named_files, run_upkeep
from spark_global.parquet.sink_log import LoggedFile, log_text

DAY_MS = 86_400_000
HOUR = "datacenter=JFK/hour=2026-11-28-17"


def write_file(table: Path, place: str, name: str, rows: pa.Table) -> LoggedFile:
    path = table / place / name
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(rows, path)
    entry = {
        "path": path.as_uri(),
        "size": path.stat().st_size,
        "isDir": False,
        "modificationTime": 0,
        "blockReplication": 1,
        "blockSize": 33_554_432,
        "action": "add",
    }
    return LoggedFile(str(path), path.stat().st_size, entry)


def write_log(table: Path, name: str, files: list[LoggedFile]) -> None:
    log = table / "_spark_metadata"
    log.mkdir(parents=True, exist_ok=True)
    (log / name).write_text(log_text(files))
    (log / f".{name}.crc").write_bytes(b"crc")


def numbers(*values: int) -> pa.Table:
    return pa.table({"n": pa.array(values, pa.int64())})


def small_table(table: Path) -> list[LoggedFile]:
    files = [write_file(table, HOUR, f"part-{index}.parquet", numbers(index)) for index in range(6)]
    write_log(table, "9.compact", files)
    write_log(table, "10", [write_file(table, HOUR, "part-later.parquet", numbers(6))])
    return files


def rows_in(table: Path) -> list[int]:
    """The rows of the files that the log names, without Spark."""
    named = sorted(named_files(table))
    return sorted(n for path in named for n in pq.ParquetFile(path).read()["n"].to_pylist())


def test_small_files_of_an_hour_become_one(tmp_path: Path) -> None:
    small_table(tmp_path)
    other = write_file(tmp_path, HOUR.replace("17", "18"), "part-x.parquet", numbers(7))
    write_log(tmp_path, "11", [other])
    problem, said = run_upkeep(str(tmp_path), files_min=2, small_bytes=1 << 20, keep_hours=24)
    assert (problem, said) == (None, f"{tmp_path}: 6 files became 1; 0 files deleted")
    assert rows_in(tmp_path) == list(range(8))
    assert len(named_files(tmp_path)) == 3
    assert not (tmp_path / "_spark_metadata" / ".9.compact.crc").exists()
    assert compact_table(tmp_path, files_min=2, small_bytes=1 << 20) == (0, 0)


def test_files_of_other_columns_stay_apart(tmp_path: Path) -> None:
    files = small_table(tmp_path)
    wide = [
        write_file(tmp_path, HOUR, f"part-w{n}.parquet", numbers(n).append_column("gate", [["B7"]]))
        for n in range(10, 14)
    ]
    write_log(tmp_path, "9.compact", files + wide)
    assert compact_table(tmp_path, files_min=2, small_bytes=1 << 20) == (10, 2)
    assert rows_in(tmp_path) == [*range(7), *range(10, 14)]


def test_a_replaced_file_stays_for_a_day_however_old_it_is(tmp_path: Path) -> None:
    files = small_table(tmp_path)
    killed = Path(write_file(tmp_path, HOUR, "part-killed.parquet", numbers(99)).path)
    others = [
        Path(write_file(tmp_path, place, name, numbers(98)).path)
        for place, name in ((f"another_table/{HOUR}", "part-0.parquet"), (HOUR, "mine.parquet"))
    ]
    for path in (*(Path(each.path) for each in files), killed, *others):
        os.utime(path, (0, 0))
    compact_table(tmp_path, files_min=2, small_bytes=1 << 20)
    assert delete_unnamed(tmp_path, 0, now_ms()) == 1
    assert not killed.exists()
    assert all(each.exists() for each in others)
    assert all(Path(each.path).exists() for each in files)
    assert delete_unnamed(tmp_path, 0, now_ms() + DAY_MS + 60_000) == 6
    assert rows_in(tmp_path) == list(range(7))
    assert len(list(tmp_path.rglob("*.parquet"))) == 2 + len(others)
    assert not list((tmp_path / "_compacted").glob("*.json"))


def test_a_log_that_the_query_renews_is_replaced_too_or_keeps_the_old_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = small_table(tmp_path)
    renewed: list[int] = []

    def renew_first(path: Path, content: bytes) -> None:
        durable.write_durably(path, content)
        if len(renewed) < limit:
            # The query has read the log before, and writes a newer one.
            renewed.append(len(renewed))
            write_log(tmp_path, f"{19 + 10 * len(renewed)}.compact", files)

    monkeypatch.setattr(compacting, "write_durably", renew_first)
    limit = 2
    assert compact_table(tmp_path, files_min=2, small_bytes=1 << 20) == (6, 1)
    assert len(named_files(tmp_path)) == 1
    files = [*files, write_file(tmp_path, HOUR, "part-more.parquet", numbers(8))]
    write_log(tmp_path, "99.compact", files)
    renewed.clear()
    limit = 99
    compact_table(tmp_path, files_min=2, small_bytes=1 << 20)
    write_log(tmp_path, "999.compact", files)
    assert rows_in(tmp_path) == [*range(6), 8]
    assert delete_unnamed(tmp_path, 0, now_ms() + DAY_MS + 60_000) > 0
    assert rows_in(tmp_path) == [*range(6), 8]


def test_refusals(tmp_path: Path) -> None:
    files = small_table(tmp_path / "a")
    write_log(tmp_path / "b", "9.compact", files)
    problem, _ = run_upkeep(str(tmp_path / "b"), files_min=2, small_bytes=1 << 20, keep_hours=24)
    assert "the table was moved" in str(problem)
    (tmp_path / "a" / "_compacted").mkdir()
    with (tmp_path / "a" / "_compacted" / "lock").open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(TableBusyError):
            compact_table(tmp_path / "a", files_min=2, small_bytes=1 << 20)
    Path(files[0].path).write_bytes(b"no Parquet")
    problem, _ = run_upkeep(str(tmp_path / "a"), files_min=2, small_bytes=1 << 20, keep_hours=24)
    assert problem is not None
    assert "Parquet magic bytes" in problem
    problem, _ = run_upkeep("s3a://bucket/t", files_min=2, small_bytes=1, keep_hours=24)
    assert "is not a directory" in str(problem)
