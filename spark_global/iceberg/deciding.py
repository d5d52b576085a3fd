"""Whether a batch may be committed to a table. Pure.

The table has the epoch of its writer and its positions. A commit replaces them together with the
rows, and succeeds only on the base that was checked. So of two commits with one start only one
succeeds, whoever sends it and however late it arrives.

    the table's writer   its positions    verdict
    another one          any              REPLACED: this writer must stop
    this one             end of batch     DONE: an earlier attempt succeeded, its answer was lost
    this one             start of batch   COMMIT
    this one             anything else    MOVED: somebody else changed the table
"""

from __future__ import annotations

from enum import StrEnum

from spark_global.iceberg.table_state import TableState, Writer
from spark_global.streaming.positions import StreamPositions


class Verdict(StrEnum):
    """What a writer does with a batch."""

    COMMIT = "commit"
    DONE = "done"
    REPLACED = "replaced"
    MOVED = "moved"


def decide_commit(
    base: TableState, writer: Writer, start: StreamPositions, end: StreamPositions
) -> Verdict:
    """Decide about the batch [start, end) of a writer, on the table that the commit is based on.

    A batch with start = end has no rows, so it may be committed any number of times.
    """
    if base.writer != writer:
        return Verdict.REPLACED
    if base.positions == start:
        return Verdict.COMMIT
    return Verdict.DONE if base.positions == end else Verdict.MOVED
