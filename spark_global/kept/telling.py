"""Tells what the batches of a job have done: some lines while it runs, and one at its end.

global_flights: 3 batches, 12,288 records; 49,152 since the start
global_flights: ended after 12 batches, 49,152 records
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from pyspark.sql.streaming.query import StreamingQuery

LINE_SECONDS: Final = 30.0
"""Seconds between two lines; the batches of that time are added up."""
LOOK_SECONDS: Final = 5.0
"""Seconds between two looks at a query. Spark remembers its last 100 batches."""

Say = Callable[[str], None]


def say_nothing(_line: str) -> None:
    """Tell nobody."""


class BatchLines:
    """What one job says; call `note` for each batch, and `end` once."""

    def __init__(
        self, job: str, say: Say = say_nothing, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`clock` is in seconds, and never goes back."""
        self._job = job
        self._say = say
        self._clock = clock
        self._next_line = clock()
        self._batches = self._records = 0
        self._batches_new = self._records_new = 0

    def note(self, records: int) -> None:
        """Count a batch that has ended."""
        self._batches += 1
        self._batches_new += 1
        self._records += records
        self._records_new += records
        if (now := self._clock()) < self._next_line:
            return
        self._next_line = now + LINE_SECONDS
        new = _counted(self._batches_new, self._records_new)
        self._say(f"{self._job}: {new}; {self._records:,} since the start")
        self._batches_new = self._records_new = 0

    def end(self) -> None:
        """Say what the job has done since its start."""
        self._say(f"{self._job}: ended after {_counted(self._batches, self._records)}")


def _counted(batches: int, records: int) -> str:
    """Return both numbers with their nouns."""
    return (
        f"{batches:,} batch{'' if batches == 1 else 'es'}, "
        f"{records:,} record{'' if records == 1 else 's'}"
    )


@contextmanager
def telling(job: str, say: Say) -> Iterator[BatchLines]:
    """Give the lines of a job, and say its last one however it ends."""
    lines = BatchLines(job, say)
    try:
        yield lines
    finally:
        lines.end()


def await_query(query: StreamingQuery, lines: BatchLines) -> None:
    """Wait until a query ends, and stop it at Ctrl-C.

    A batch without records, which only moves the time on, is not counted. Raises
    StreamingQueryException.
    """
    last_batch = -1
    try:
        is_ended = False
        while not is_ended:
            is_ended = bool(query.awaitTermination(LOOK_SECONDS))  # type: ignore[arg-type]
            last_batch = _note_batches(query, last_batch, lines)
    finally:
        query.stop()


def _note_batches(query: StreamingQuery, last_batch: int, lines: BatchLines) -> int:
    """Note the batches behind `last_batch`; return the last one."""
    for progress in query.recentProgress:
        if progress.batchId > last_batch and progress.numInputRows > 0:
            last_batch = progress.batchId
            lines.note(progress.numInputRows)
    return last_batch
