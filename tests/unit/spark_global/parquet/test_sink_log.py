"""The log of Spark's file sink."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_global.parquet.sink_log import (
    LoggedFile,
    SinkLogError,
    current_names,
    log_text,
    new_file,
    read_log,
    with_replaced,
)

# As Spark 4.2.1 writes it.
ENTRY = (
    '{"path":"file:///data/f%20l/datacenter=JFK/hour=2026-11-28-17/part-0.parquet","size":1234,'
    '"isDir":false,"modificationTime":1764352800000,"blockReplication":1,"blockSize":33554432,'
    '"action":"add"}'
)


def logged(path: str, size_bytes: int = 1) -> LoggedFile:
    (like,) = read_log(f"v1\n{ENTRY}")
    return new_file(like, Path(path), size_bytes, 0)


def test_entries_are_those_of_spark() -> None:
    (found,) = read_log(f"v1\n{ENTRY}")
    assert found.path == "/data/f l/datacenter=JFK/hour=2026-11-28-17/part-0.parquet"
    assert found.size_bytes == 1_234
    assert log_text([found]) == f"v1\n{ENTRY}"
    new = new_file(found, Path("/data/f l/datacenter=JFK/new.parquet"), 7, 9)
    assert json.loads(json.dumps(new.entry)) == {
        **json.loads(ENTRY),
        "path": "file:///data/f%20l/datacenter=JFK/new.parquet",
        "size": 7,
        "modificationTime": 9,
    }
    assert read_log(log_text([new])) == [new]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "v2\n",
        f"v1\n{ENTRY[:-3]}",
        'v1\n{"path":"/x"}',
        f"v1\n{ENTRY.replace('add', 'delete')}",
        f"v1\n{ENTRY.replace('file:', 's3a:')}",
    ],
)
def test_another_log_is_refused(text: str) -> None:
    with pytest.raises(SinkLogError):
        read_log(text)


@given(st.sets(st.integers(0, 60)), st.sets(st.integers(0, 60)))
def test_the_newest_compact_and_the_batches_after_it_count(
    compacts: set[int], batches: set[int]
) -> None:
    names = [f"{each}.compact" for each in compacts] + [str(each) for each in batches]
    names += [f".{name}.crc" for name in names] + [".9.compact.5d1c.tmp", "_x"]
    found = current_names(names)
    newest = max(compacts, default=-1)
    assert found.compact == (f"{newest}.compact" if compacts else None)
    assert list(found.batches) == [str(each) for each in sorted(batches) if each > newest]


PATHS = st.integers(0, 12).map(lambda number: f"/t/{number}")


@given(
    st.lists(PATHS, unique=True),
    st.lists(st.lists(PATHS, min_size=1, unique=True), max_size=3),
)
def test_a_file_is_replaced_with_its_whole_group_or_not_at_all(
    paths: list[str], groups: list[list[str]]
) -> None:
    files = [logged(path) for path in paths]
    taken: set[str] = set()
    wanted = []
    for index, group in enumerate(groups):
        if taken.isdisjoint(group):
            taken |= set(group)
            wanted.append((group, logged(f"/t/new-{index}")))
    changed = with_replaced(files, wanted)
    for group, new in wanted:
        whole = set(group) <= set(paths)
        assert (new in changed) == whole
        for path in group:
            assert (logged(path) in changed) == (path in paths and not whole)
    assert [each for each in files if each.path not in taken] == [
        each for each in changed if each in files and each.path not in taken
    ]
    assert with_replaced(changed, wanted) == changed
