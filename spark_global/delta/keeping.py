"""`heliograph spark materialize --to delta`: the query that keeps a view as a Delta table. Shell.

Spark's checkpoint says which rows a batch has, and a batch that runs again has the same. The table
says which batch it has. Both lie in one folder: the checkpoint in `_checkpoint`.
"""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Final

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from spark_global.delta.columns import ColumnsRefusedError, table_schema
from spark_global.delta.file_writing import FileTarget, write_batch
from spark_global.delta.table_writer import DeltaWriter, TableRefusedError, check_table
from spark_global.kept.batches import BatchRefusedError
from spark_global.kept.checkpoint import planned_batch, query_id_of
from spark_global.kept.completeness import BatchesOfQuery
from spark_global.kept.folders import FolderRefusedError, table_folder
from spark_global.kept.said import KIND, said_of_batch, with_news
from spark_global.materialize import (
    CHECKPOINT,
    PARTITIONS,
    Materialization,
    numbered,
    partitioned,
    rows_of_query,
    rows_of_view,
    rows_per_batch,
    time_of_table,
    triggered,
)
from spark_global.source.options import ReadOptions
from spark_global.stream_sql import topic_of_query
from spark_global.streamable import FoundView, find_view
from spark_global.streaming.positions import CheckpointError
from spark_global.views import Aggregate, follow_streams, read_options

_ORIGIN: Final = frozenset({"datacenter", "topic", "partition", "offset"})

REFUSALS: Final = (
    BatchRefusedError,
    CheckpointError,
    ColumnsRefusedError,
    DeltaError,
    FolderRefusedError,
    OSError,
    TableRefusedError,
)
"""What ends a query with a message."""


def start_keeping(
    session: SparkSession, aggregate: Aggregate, wanted: Materialization
) -> StreamingQuery:
    """Start the query that keeps a view as a Delta table.

    Raises KafkaError, UnknownViewError, SchemaFileError and `REFUSALS`.
    """
    folder = table_folder(wanted.path)
    check_folder(folder, wanted.view)
    answer = None
    if wanted.query is not None:
        found = FoundView(topic_of_query(aggregate, wanted.query, wanted.decoding))
        frame = rows_of_query(session, aggregate, wanted, wanted.query)
        time_of_table(frame)  # refused now, not at the first batch
    else:
        found = find_view(aggregate, wanted.view, wanted.decoding)
        if found.question is not None:
            # Spark's watermark closes its windows, as in tables that older versions began.
            found = found._replace(closed=None)
        frame = rows_of_view(session, aggregate, wanted, found)
        answer = rows_per_batch(wanted, found, str(folder / CHECKPOINT))
    if answer is None:
        frame, _ = partitioned(frame)
        table_schema(frame.schema.json())  # refused now, not at the first batch
    if wanted.group is not None:
        follow_streams(session, aggregate)
    options = replace(read_options(aggregate), topic=found.topic)
    query_id: Future[str] = Future()
    keeper: list[_Keeper] = []

    def keep(records: DataFrame, number: int) -> None:
        rows = records
        if answer is not None:
            rows, _ = partitioned(numbered(answer(records, number), number))
        if not keeper:
            target = _target(folder, rows)
            writer = DeltaWriter(folder, wanted.view, query_id.result())
            writer.open(table_schema(rows.schema.json()), list(target.partitions))
            keeper.append(_Keeper(writer, target, options))
        keeper[0].keep(rows, number)

    writer = (
        frame.writeStream.queryName(f"materialize {wanted.view}")
        .option("checkpointLocation", str(folder / CHECKPOINT))
        .foreachBatch(keep)
    )
    query = triggered(writer, wanted).start()
    query_id.set_result(str(query.id))
    return query


def _target(folder: Path, rows: DataFrame) -> FileTarget:
    return FileTarget(
        folder=str(folder),
        partitions=tuple(name for name in PARTITIONS if name in rows.columns),
        time="timestamp" if "timestamp" in rows.columns else "window_start",
    )


class _Keeper:
    """Writes and commits the batches of one query."""

    def __init__(self, writer: DeltaWriter, target: FileTarget, options: ReadOptions) -> None:
        self._writer = writer
        self._target = target
        self._batches = BatchesOfQuery(options)
        self._complete = writer.complete()

    def keep(self, rows: DataFrame, number: int) -> None:
        batch = planned_batch(Path(self._target.folder) / CHECKPOINT, number)
        if self._writer.is_done(batch):
            # A question with state must have run all the same, for the batch after it.
            rows.write.format("noop").mode("overwrite").save()
            return
        complete = with_news(self._complete, self._batches.complete_at(batch.end))
        written = write_batch(rows, self._target)
        ranges = written.ranges
        if not set(rows.columns) >= _ORIGIN:  # rows of a question do not say it themselves
            ranges = self._batches.read_between(batch.start, batch.end)
        said = said_of_batch(batch.start, batch.end, ranges, complete)
        self._writer.commit(batch, written.files, self._target.time, {KIND: "batch", **said})
        self._complete = complete


def check_folder(folder: Path, view: str) -> None:
    """Refuse a directory that cannot become the table of a view, before a query starts.

    Raises TableRefusedError.
    """
    checkpoint = folder / CHECKPOINT
    if not DeltaTable.is_deltatable(str(folder)):
        own = (CHECKPOINT, "_delta_log")
        foreign = sorted(each.name for each in folder.glob("*") if each.name not in own)
        if foreign:
            raise TableRefusedError(
                f"{folder} has files of something else, such as {foreign[0]}; give another PATH"
            )
        return
    query_id = query_id_of(checkpoint)
    if query_id is None:
        raise TableRefusedError(
            f"table {folder} has no checkpoint in {CHECKPOINT}, so it is unknown what it has: "
            "restore the checkpoint, or give another PATH, which begins again"
        )
    try:
        check_table(DeltaTable(str(folder)), view, query_id)
    except TableRefusedError as error:
        raise TableRefusedError(f"table {folder}: {error}") from error
