"""Whether a batch may be committed to a table. Pure.

The table has the epoch of its writer and its positions. A commit replaces them together with the
rows, and succeeds only on the base that was checked. So of two commits with one start only one
succeeds, whoever sends it and however late it arrives.

    the table's writer   its positions    verdict
    another one          any              REPLACED: this writer must stop
    this one             end of batch     DONE: an earlier attempt succeeded, its answer was lost
    this one             start of batch   COMMIT
    this one             anything else    MOVED: somebody else changed the table

A table of a question has the batches of a query. A batch may have rows without records, when only
the times of datacenters advance. So its number decides too, as in `kept/batches.py`.
"""

from __future__ import annotations

from enum import StrEnum

from spark_global.iceberg.table_state import QueryState, TableState, Writer
from spark_global.kept.batches import Batch, BatchRefusedError, Held, positions_number
from spark_global.kept.batches import decide_commit as decide_in_order
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


def decide_query_commit(
    base: TableState,
    writer: Writer,
    query: QueryState,
    start: StreamPositions,
    end: StreamPositions,
) -> Verdict:
    """Decide about the batch [start, end) of a query, on the table that the commit is based on.

    Raises BatchRefusedError if the table is of another query, or the batch is not its next one.
    """
    if base.writer != writer:
        return Verdict.REPLACED
    check_query(base, query.query_id)
    held = None
    if base.query is not None:
        held = Held(base.query.batch, positions_number(base.positions))
    return Verdict(decide_in_order(held, Batch(number=query.batch, start=start, end=end)))


def check_query(base: TableState, query_id: str | None) -> None:
    """Check that a table has the batches of a query, or of none.

    `query_id` is None if the checkpoint is new. Raises BatchRefusedError.
    """
    if base.query is None or base.query.query_id == query_id:
        return
    found = "is new" if query_id is None else f"is of query {query_id}"
    raise BatchRefusedError(
        f"the table is kept by query {base.query.query_id}, and the checkpoint {found}: go on with "
        "the checkpoint of that query, or begin again with other names for --table and --checkpoint"
    )
