"""What a job says about its batches."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyspark.sql.streaming.query import StreamingQuery

from spark_global.kept.telling import LINE_SECONDS, BatchLines, await_query, telling


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_batches_of_half_a_minute_are_one_line() -> None:
    said, clock = list[str](), Clock()
    lines = BatchLines("global_a", said.append, clock)
    lines.note(1)
    lines.note(5)
    clock.now += LINE_SECONDS - 1
    lines.note(6)
    assert said == ["global_a: 1 batch, 1 record; 1 since the start"]
    clock.now += 1
    lines.note(1_000)
    assert said[1:] == ["global_a: 3 batches, 1,011 records; 1,012 since the start"]
    lines.end()
    assert said[2:] == ["global_a: ended after 4 batches, 1,012 records"]


def test_the_last_line_comes_however_a_job_ends() -> None:
    said = list[str]()
    with pytest.raises(KeyboardInterrupt), telling("global_a", said.append):
        raise KeyboardInterrupt
    assert said == ["global_a: ended after 0 batches, 0 records"]


class Query:
    """Spark's query: its progress grows from look to look, then it ends or fails."""

    def __init__(self, looks: list[list[tuple[int, int]]], error: Exception | None = None) -> None:
        self._looks: Iterator[list[tuple[int, int]]] = iter(looks)
        self._left, self._error = len(looks), error
        self.recentProgress: list[Any] = []
        self.stops = 0

    def awaitTermination(self, timeout: float) -> bool:
        assert timeout > 0
        if not self._left and self._error is not None:
            raise self._error
        self._left -= 1
        self.recentProgress = [
            SimpleNamespace(batchId=batch, numInputRows=rows) for batch, rows in next(self._looks)
        ]
        return not self._left and self._error is None

    def stop(self) -> None:
        self.stops += 1


def test_each_batch_with_records_of_a_query_counts_once() -> None:
    # An idle look has the number of the batch that comes next, and no rows.
    query = Query([[(0, 5), (1, 0)], [(0, 5), (1, 0), (1, 7), (2, 0)], [(1, 7), (2, 0), (3, 1)]])
    said = list[str]()
    with telling("global_a", said.append) as lines:
        await_query(cast(StreamingQuery, query), lines)
    assert said[-1] == "global_a: ended after 3 batches, 13 records"
    assert query.stops == 1


def test_a_query_that_fails_is_stopped_and_counted() -> None:
    query = Query([[(4, 5)]], error=RuntimeError("no"))
    said = list[str]()
    with pytest.raises(RuntimeError, match="no"), telling("global_a", said.append) as lines:
        await_query(cast(StreamingQuery, query), lines)
    assert said[-1] == "global_a: ended after 1 batch, 5 records"
    assert query.stops == 1
