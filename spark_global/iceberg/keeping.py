"""Keeps a view as an Iceberg table: plan, write, commit. Shell.

The table is the only state. Each batch begins at the positions in its properties, and its commit
replaces them. So there is no checkpoint: a job that starts anywhere goes on where the table is. A
batch that was not committed is planned again. Questions have a checkpoint; see `questions/`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from local_cluster.client.model import TopicPartition
from local_cluster.wire.errors import KafkaError
from spark_global.cut.statements import StatementReader
from spark_global.iceberg.catalogues import UNREACHABLE, open_catalogue
from spark_global.iceberg.columns import ColumnsRefusedError, table_schema
from spark_global.iceberg.file_writing import (
    NOTHING_WRITTEN,
    FileTarget,
    Written,
    write_files,
)
from spark_global.iceberg.layout import SCHEMA
from spark_global.iceberg.packing import pack_ranges
from spark_global.iceberg.questions.keeping import checkpoint_folder, start_keeping
from spark_global.iceberg.staging import Batch, TableRefusedError
from spark_global.iceberg.table_state import TableState
from spark_global.iceberg.table_writer import TableWriter, WriterReplacedError
from spark_global.iceberg.upserts.bucketing import UpsertTarget, write_upserts
from spark_global.iceberg.upserts.keys import RECORDS_MAX, TOMBSTONE_HOURS, Upsert
from spark_global.kept.batches import BatchRefusedError
from spark_global.kept.completeness import Completeness
from spark_global.kept.folders import FolderRefusedError
from spark_global.kept.said import with_news
from spark_global.kept.telling import (
    BatchLines,
    Say,
    await_query,
    say_nothing,
    telling,
)
from spark_global.kept.upkeep import Compacting, beside
from spark_global.materialize import Materialization
from spark_global.session import LOCAL_MASTER, SparkStartError, open_session
from spark_global.source.options import ReadOptions
from spark_global.source.tables import RECORDS_TABLE
from spark_global.sql import explain_error
from spark_global.stream_sql import topic_of_query
from spark_global.streamable import FoundView, UnknownViewError, find_view
from spark_global.streaming.lag import LagHistory
from spark_global.streaming.moving import cluster_id_of
from spark_global.streaming.planner import StreamPlanner
from spark_global.streaming.positions import CheckpointError, StreamPositions
from spark_global.streaming.progress import notes_of_topics
from spark_global.streaming.publishing import publish_positions
from spark_global.streaming.sharing import Limits
from spark_global.values.not_decodable import SchemaFileError
from spark_global.view_names import REJECTS_PREFIX, VIEW_PREFIX
from spark_global.views import Aggregate, load_table, read_options

if TYPE_CHECKING:
    from spark_global.values.batches import DecodedView

STATE_SECONDS: Final = 60.0
"""Seconds after which a table without new records gets its new `complete-through`."""

_US_PER_HOUR: Final = 3_600_000_000
_MS_PER_SECOND: Final = 1_000

Ends = Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptTable:
    """What to keep, and where."""

    rows: Materialization
    """The view, and how it is read. Its path is the directory of a SQLite catalogue, or the URI of
    a REST catalogue."""
    identifier: tuple[str, ...]
    """Namespace and name of the table."""
    state_seconds: float = STATE_SECONDS
    upsert: Upsert | None = None
    """Keep the latest records only; None for every record."""
    tombstone_hours: float = TOMBSTONE_HOURS
    """Hours that a deleted key is remembered, with `upsert`."""
    checkpoint: str | None = None
    """Directory for the state of a question; None for one in the catalogue's directory."""

    @property
    def records_max(self) -> int | None:
        """Most offsets of one batch."""
        if self.rows.records_max is None and self.upsert is not None:
            return RECORDS_MAX
        return self.rows.records_max


def run_keeping(
    aggregate: Aggregate,
    wanted: KeptTable,
    *,
    master: str = LOCAL_MASTER,
    conf: Mapping[str, str] | None = None,
    compacting: Compacting | None = None,
    say: Say = say_nothing,
) -> str | None:
    """Keep a table until Ctrl-C or, with `stops_at_end`, its end; return what went wrong.

    `say` gets lines about its batches.
    """
    try:
        with open_session(master, settings=conf) as session, beside(compacting):
            try:
                with telling(wanted.rows.view, say) as lines:
                    keep_table(session, aggregate, wanted, lines)
            except (PySparkException, *REFUSALS) as error:
                return f"{wanted.rows.view} of {aggregate.name}: {explain_error(error)}"
    except SparkStartError as error:
        return str(error)
    return None


REFUSALS: Final = (
    BatchRefusedError,
    CheckpointError,
    ColumnsRefusedError,
    FolderRefusedError,
    KafkaError,
    SchemaFileError,
    TableRefusedError,
    UnknownViewError,
    WriterReplacedError,
    *UNREACHABLE,
)
"""What ends a job with a message."""


def keep_table(
    session: SparkSession,
    aggregate: Aggregate,
    wanted: KeptTable,
    lines: BatchLines | None = None,
) -> TableState:
    """Keep a table, with a note of each batch; return its last state.

    Raises PySparkException and `REFUSALS`.
    """
    rows = wanted.rows
    lines = lines or BatchLines(rows.view)
    if rows.query is not None:
        found = FoundView(topic_of_query(aggregate, rows.query, rows.decoding))
        return _keep_question(session, aggregate, wanted, found, lines)
    found = _find(aggregate, wanted)
    if found.question or found.windows or found.closed:
        return _keep_question(session, aggregate, wanted, found, lines)
    decoded = _decoded_view(session, aggregate, rows, found)
    columns = None if decoded is None else table_schema(decoded.schema, decoded.descriptions)
    options = replace(
        read_options(aggregate),
        topic=found.topic,
        max_records_per_trigger=wanted.records_max,
        group=rows.group,
    )
    writer = TableWriter(
        open_catalogue(rows.path, create=True),
        wanted.identifier,
        rows.view,
        wanted.upsert,
        columns,
    )
    with asyncio.Runner() as runner:
        # Before the takeover: a command for another aggregate may not stop the present writer.
        writer.take_over(runner.run(cluster_id_of(options.cluster)))
        files = FileTarget.of(writer.table, options.fetch_bytes_max, columns or SCHEMA, decoded)
        keeper = _Keeper(session, options, wanted, writer, runner, files, lines)
        try:
            return keeper.run()
        finally:
            runner.run(keeper.close())


class _Keeper:
    """The loop of one job."""

    def __init__(
        self,
        session: SparkSession,
        options: ReadOptions,
        wanted: KeptTable,
        writer: TableWriter,
        runner: asyncio.Runner,
        files: FileTarget,
        lines: BatchLines,
    ) -> None:
        self._session = session
        self._lines = lines
        self._options = options
        self._wanted = wanted
        self._writer = writer
        self._runner = runner
        self._files = files
        self._planner = StreamPlanner(options)
        self._completeness = Completeness(self._planner, StatementReader(options.maps))
        self._state_since = time.monotonic()
        self._history = LagHistory()
        self._batches = 0

    async def close(self) -> None:
        await self._planner.close()
        await self._completeness.close()

    def run(self) -> TableState:
        """Commit batches until the end, or until something raises."""
        held = self._writer.state.positions
        self._publish(held, {})
        target = None
        if self._wanted.rows.stops_at_end:
            target = self._runner.run(self._completeness.look())
        while True:
            began = time.monotonic()
            end = self._next_end(held, target)
            if end != held:
                written = self._write(held, end)
                self._commit(held, end, written)
                self._lines.note(sum(each.records for each in written.ranges))
                held = end
                self._batches += 1
                self._publish(held, self._notes(held))
                if self._has_more(held, target):
                    continue
            if target is not None and not self._has_more(held, target):
                self._commit(held, held)
                return self._writer.state
            if time.monotonic() - self._state_since >= self._wanted.state_seconds:
                self._commit_news(held)
            time.sleep(max(0.0, began + self._wanted.rows.trigger_seconds - time.monotonic()))

    def _next_end(self, held: StreamPositions, target: Ends | None) -> StreamPositions:
        limits = Limits(records_max=self._options.max_records_per_trigger)
        statements = self._runner.run(self._completeness.poll())  # before the ends
        end = self._runner.run(
            self._planner.advance(held, limits, target, is_first_batch=not held.offsets)
        )
        self._completeness.note(statements)
        return end

    def _write(self, start: StreamPositions, end: StreamPositions) -> Written:
        splits = self._runner.run(self._planner.splits(start, end))
        tasks = pack_ranges(
            [wanted for each in splits for wanted in each.ranges],
            self._session.sparkContext.defaultParallelism,
            self._options.split_records_max,
        )
        upsert = self._writer.state.upsert
        if upsert is None:
            return write_files(self._session, tasks, self._files)
        table, now_us = self._writer.table, time.time_ns() // 1_000
        target = UpsertTarget(
            metadata=table.metadata,
            io=table.io,
            files=self._writer.files_of_buckets(),
            upsert=upsert,
            fetch_bytes_max=self._options.fetch_bytes_max,
            written_at_us=now_us,
            forget_before_us=now_us - round(self._wanted.tombstone_hours * _US_PER_HOUR),
        )
        return write_upserts(self._session, tasks, target)

    def _commit(
        self, start: StreamPositions, end: StreamPositions, written: Written = NOTHING_WRITTEN
    ) -> None:
        self._writer.commit(
            Batch(
                start=start,
                end=end,
                paths=written.paths,
                ranges=written.ranges,
                replaced=written.replaced,
                complete=self._completeness.reached(end),
            )
        )
        self._state_since = time.monotonic()

    def _commit_news(self, held: StreamPositions) -> None:
        """Commit new times of a table that gets no records."""
        before = self._writer.state.complete
        if before != with_news(before, self._completeness.reached(held)):
            self._commit(held, held)
        self._state_since = time.monotonic()

    def _has_more(self, held: StreamPositions, target: Ends | None) -> bool:
        """Return whether there is something to read before the target, by the last survey."""
        survey = self._planner.survey
        assert survey is not None, "the planner has just looked"
        ends = survey.known_ends if target is None else target
        return any(held.offsets.get(at, -1) < end for at, end in ends.items())

    def _notes(self, positions: StreamPositions) -> dict[str, str]:
        """Return how far the table is behind each datacenter, as texts beside its offsets."""
        now, datacenters = time.time(), self._planner.datacenters
        self._history.add(now, self._planner.stable_ends)
        return notes_of_topics(
            self._history.lag(positions.offsets, datacenters),
            datacenters,
            query=".".join(self._wanted.identifier),
            batch=self._batches,
            at_ms=round(now * _MS_PER_SECOND),
        )

    def _publish(self, positions: StreamPositions, notes: Mapping[str, str]) -> None:
        options = self._options
        if options.group is not None:
            self._runner.run(publish_positions(options.cluster, options.group, positions, notes))


def _find(aggregate: Aggregate, wanted: KeptTable) -> FoundView:
    view = wanted.rows.view
    found = find_view(aggregate, view, wanted.rows.decoding)
    if wanted.upsert is not None and found != FoundView(found.topic):
        raise UnknownViewError(
            f"--upsert compares keys as produced, so it cannot keep {view}; keep "
            f"{VIEW_PREFIX}<topic> with --upsert, or {view} without it"
        )
    return found


def _keep_question(
    session: SparkSession,
    aggregate: Aggregate,
    wanted: KeptTable,
    found: FoundView,
    lines: BatchLines,
) -> TableState:
    rows = wanted.rows
    checkpoint = checkpoint_folder(rows.path, wanted.identifier, wanted.checkpoint)
    table = open_catalogue(rows.path, create=True), wanted.identifier
    query, writer = start_keeping(session, aggregate, rows, found, table, checkpoint)
    await_query(query, lines)
    return writer.state


def _decoded_view(
    session: SparkSession, aggregate: Aggregate, wanted: Materialization, found: FoundView
) -> DecodedView | None:
    """Return a view of decoded records with its schemas; None for records as they are.

    Raises SchemaFileError.
    """
    if wanted.decoding is None or not found.is_decoded:
        return None
    from spark_global.values.batches import DecodedView
    from spark_global.values.frames import samples_of
    from spark_global.values.pinning import pin_topic

    records = load_table(session, aggregate, RECORDS_TABLE, topic=found.topic)
    pinned = pin_topic(wanted.decoding, found.topic, samples_of(records))
    return DecodedView(topic=pinned, is_rejects=wanted.view.startswith(REJECTS_PREFIX))
