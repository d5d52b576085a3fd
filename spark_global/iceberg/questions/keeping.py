"""The query that keeps a question, such as windows, as an Iceberg table. Shell.

Spark's checkpoint says which records a batch has, and the state of windows which rows. A batch that
runs again has the same. The table says which batch of the query it has. A run takes the table over
before it reads the checkpoint. So the run before it cannot commit beside it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Final

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchTableError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import LongType

from spark_global.iceberg.columns import table_schema
from spark_global.iceberg.deciding import check_query
from spark_global.iceberg.file_writing import FileTarget
from spark_global.iceberg.layout import partitions_of
from spark_global.iceberg.questions.row_writing import write_batch
from spark_global.iceberg.staging import Batch
from spark_global.iceberg.table_state import QueryState
from spark_global.iceberg.table_writer import TableWriter, check_table
from spark_global.kept.checkpoint import planned_batch, query_id_of
from spark_global.kept.completeness import BatchesOfQuery
from spark_global.kept.folders import FolderRefusedError, table_folder
from spark_global.materialize import (
    BATCH,
    Materialization,
    numbered,
    rows_of_query,
    rows_of_view,
    rows_per_batch,
    schema_per_batch,
    time_of_table,
    triggered,
)
from spark_global.streamable import FoundView
from spark_global.streaming.moving import cluster_id_of
from spark_global.views import Aggregate, follow_streams, read_options

TIME: Final = "window_start"
"""Every question that a stream can fill has this column; a query of a user's has one of `TIMES`."""
CHECKPOINTS: Final = "_checkpoints"
"""Folder of a catalogue's directory; it has one folder per table."""


def checkpoint_folder(catalogue: str, identifier: tuple[str, ...], given: str | None) -> Path:
    """Return where the checkpoint of a question lies. Raises FolderRefusedError."""
    if given is not None:
        return table_folder(given)
    if catalogue.startswith(("http://", "https://")):
        raise FolderRefusedError(
            "a question has a checkpoint beside its table, and a REST catalogue has no folder for "
            "it; give --checkpoint, a directory that the driver and all executors reach"
        )
    return table_folder(catalogue) / CHECKPOINTS / ".".join(identifier)


def start_keeping(
    session: SparkSession,
    aggregate: Aggregate,
    wanted: Materialization,
    found: FoundView,
    table: tuple[Catalog, tuple[str, ...]],
    checkpoint: Path,
) -> tuple[StreamingQuery, TableWriter]:
    """Start the query that keeps a question; return it with the writer of its table.

    `table` is a catalogue and a name in it. A query of a user's is one too. Raises KafkaError,
    ColumnsRefusedError, UnknownViewError, BatchRefusedError, TableRefusedError, and `UNREACHABLE`
    if the catalogue does not answer.
    """
    if wanted.query is not None:
        frame = rows_of_query(session, aggregate, wanted, wanted.query)
        answer, rows, time = None, None, time_of_table(frame)
    else:
        frame = rows_of_view(session, aggregate, wanted, found)
        answer = rows_per_batch(wanted, found, str(checkpoint))
        rows, time = schema_per_batch(session, wanted, found, str(checkpoint)), TIME
    rows = frame.schema if rows is None else rows.add(BATCH, LongType())
    columns = table_schema(to_arrow_schema(rows, timezone="UTC"), {})
    options = replace(read_options(aggregate), topic=found.topic)
    cluster_id = asyncio.run(cluster_id_of(options.cluster))
    # Before the takeover: a command with another checkpoint may not stop the present writer.
    _check_checkpoint(*table, wanted.view, checkpoint)
    writer = TableWriter(*table, wanted.view, None, columns, partitions_of(columns, time))
    writer.take_over(cluster_id)
    if wanted.group is not None:
        follow_streams(session, aggregate)
    files = FileTarget.of(writer.table, options.fetch_bytes_max, columns, time=time)
    query_id: Future[str] = Future()
    keeper = _Keeper(writer, files, answer, checkpoint, query_id, BatchesOfQuery(options))
    stream = (
        frame.writeStream.queryName(f"materialize {wanted.view}")
        .option("checkpointLocation", str(checkpoint))
        .foreachBatch(keeper.keep)
    )
    query = triggered(stream, wanted).start()
    query_id.set_result(str(query.id))
    return query, writer


class _Keeper:
    """Writes and commits the batches of one query."""

    def __init__(
        self,
        writer: TableWriter,
        files: FileTarget,
        answer: Callable[[DataFrame, int], DataFrame] | None,
        checkpoint: Path,
        query_id: Future[str],
        batches: BatchesOfQuery,
    ) -> None:
        self._writer = writer
        self._files = files
        self._answer = answer
        self._checkpoint = checkpoint
        self._query_id = query_id
        self._batches = batches

    def keep(self, records: DataFrame, number: int) -> None:
        planned = planned_batch(self._checkpoint, number)
        query = QueryState(self._query_id.result(), number)
        batch = Batch(start=planned.start, end=planned.end, query=query, complete={})
        if self._writer.is_done(batch):
            if self._answer is None:
                # Spark's own state must be there all the same, for the batch after it.
                records.write.format("noop").mode("overwrite").save()
            return
        rows = records
        if self._answer is not None:
            rows = numbered(self._answer(records, number), number)
        paths = write_batch(rows, self._files)
        complete = self._batches.complete_at(planned.end)
        ranges = self._batches.read_between(planned.start, planned.end)
        self._writer.commit(replace(batch, paths=paths, ranges=ranges, complete=complete))


def _check_checkpoint(
    catalogue: Catalog, identifier: tuple[str, ...], view: str, checkpoint: Path
) -> None:
    try:
        state = check_table(catalogue.load_table(identifier), view)
    except NoSuchTableError:
        return
    check_query(state, query_id_of(checkpoint))
