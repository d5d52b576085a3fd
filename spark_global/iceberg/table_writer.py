"""Takes a table over, and commits batches to it. Shell over `deciding.py`.

Guarantees: a batch is in the table once, whatever happens to this writer, to its answers, or to the
catalogue. A writer that was replaced cannot commit, however late it wakes up.

Iceberg refuses a commit if the main branch has another snapshot than the base of the commit. It
compares no properties. So each change of the state makes a snapshot, a takeover too.
"""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import Final

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import (
    CommitFailedException,
    NamespaceAlreadyExistsError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import FileScanTask, Table, TableProperties
from tenacity import (
    Retrying,
    retry_if_exception_type,
    stop_after_delay,
    wait_random_exponential,
)

from spark_global.iceberg.catalogues import UNREACHABLE
from spark_global.iceberg.columns import check_columns
from spark_global.iceberg.deciding import Verdict, decide_commit, decide_query_commit
from spark_global.iceberg.layout import (
    NO_RETRIES,
    PARTITIONS,
    RETRIES,
    SCHEMA,
    SETTINGS,
    UPSERT_PARTITIONS,
    UPSERT_SCHEMA,
)
from spark_global.iceberg.staging import (
    Batch,
    TableRefusedError,
    files_of_buckets,
    stage,
    stage_rewrite,
)
from spark_global.iceberg.table_state import (
    BATCH,
    SnapshotKind,
    TableState,
    TableStateError,
    Writer,
    snapshot_properties,
)
from spark_global.iceberg.upserts.keys import (
    Upsert,
    UpsertBy,
)
from spark_global.kept.said import POSITIONS_HASH, positions_hash

CATALOGUE_SECONDS_MAX: Final = 300.0
"""Seconds that a commit waits for a catalogue that does not answer, before the job fails."""
CATALOGUE_WAIT_SECONDS_MAX: Final = 2.0


class WriterReplacedError(RuntimeError):
    """Another writer has taken the table over."""


class TableWriter:
    """Commits the batches of one table. One call at a time."""

    def __init__(
        self,
        catalogue: Catalog,
        identifier: tuple[str, ...],
        view: str,
        upsert: Upsert | None = None,
        columns: Schema | None = None,
        partitions: PartitionSpec = PARTITIONS,
    ) -> None:
        """`columns` and `partitions` are those of a view that is not of records as they are."""
        self._catalogue = catalogue
        self._identifier = identifier
        self._view = view
        self._upsert = upsert
        self._of_view = columns
        self._columns = columns or (SCHEMA if upsert is None else UPSERT_SCHEMA)
        self._partitions = partitions if upsert is None else UPSERT_PARTITIONS
        self._writer: Writer | None = None
        self._table: Table | None = None
        self._is_stale = True

    @property
    def name(self) -> str:
        return ".".join(self._identifier)

    @property
    def table(self) -> Table:
        """The table as of the last commit or reload of this writer."""
        assert self._table is not None, "take_over comes first"
        return self._table

    @property
    def state(self) -> TableState:
        """What `table` says about itself."""
        return TableState.decode(self.table.properties)

    def files_of_buckets(self) -> dict[int, FileScanTask]:
        """Return the file of each bucket of `table`. Raises TableRefusedError."""
        return files_of_buckets(self.table)

    def take_over(self, cluster_id: str = "") -> TableState:
        """Take the next epoch by a commit, and return the state to go on from.

        The table is created if it does not exist, and gets the columns that it lacks. With a
        `cluster_id` its positions must be of that cluster. Raises TableRefusedError,
        ColumnsRefusedError, and `UNREACHABLE` if the catalogue does not answer.
        """
        run_id = uuid.uuid4().hex
        for attempt in _patiently():
            with attempt:
                self._take_over(run_id, cluster_id)
        return self.state

    def commit(self, batch: Batch) -> TableState:
        """Commit a batch, or find that it is committed; return the table's state after it.

        Raises WriterReplacedError, TableRefusedError, BatchRefusedError for a batch of a query that
        is not the next one, and `UNREACHABLE` if the catalogue does not answer. Then it is unknown
        whether the batch is in the table; the next writer finds out.
        """
        for attempt in _patiently():
            with attempt:
                self._commit(batch)
        return self.state

    def is_done(self, batch: Batch) -> bool:
        """Return whether `table` has a batch. Raises BatchRefusedError and TableRefusedError."""
        return self._decide(self._check(self.table), batch) is Verdict.DONE

    def _take_over(self, run_id: str, cluster_id: str) -> None:
        self._table = table = self._open()
        base = self._check(table)
        if base.writer is not None and base.writer.run_id == run_id:
            self._writer, self._is_stale = base.writer, False  # the answer was lost
            return
        held_id = base.positions.cluster_id
        if cluster_id and held_id and held_id != cluster_id:
            raise TableRefusedError(
                f"table {self.name} follows cluster {held_id}, and this is {cluster_id}; move it "
                "with `heliograph spark move-table`"
            )
        if self._of_view is not None:
            check_columns(table.schema(), self._of_view)
        epoch = 0 if base.writer is None else base.writer.epoch
        after = replace(base, writer=Writer(epoch + 1, run_id))
        transaction = table.transaction()
        with transaction.update_schema() as columns:
            columns.union_by_name(self._columns)
        stage(transaction, after, snapshot_properties(after, SnapshotKind.TAKEOVER))
        self._table = transaction.commit_transaction()
        self._writer, self._is_stale = after.writer, False

    def _commit(self, batch: Batch) -> None:
        assert self._writer is not None, "take_over comes first"
        if self._is_stale:
            self._table = self._catalogue.load_table(self._identifier)
            self._is_stale = False
        # The decision and the transaction have the same base: this object is not refreshed between.
        table = self.table
        base = self._check(table)
        match self._decide(base, batch):
            case Verdict.REPLACED:
                raise WriterReplacedError(
                    f"table {self.name}: another writer has taken it over (epoch "
                    f"{'none' if base.writer is None else base.writer.epoch}; this one has "
                    f"{self._writer.epoch}); this writer stops, and nothing is lost"
                )
            case Verdict.MOVED:
                raise TableRefusedError(
                    f"table {self.name}: its positions changed beside its writer; "
                    "start the command again to go on from where the table is"
                )
            case Verdict.DONE:
                return
            case Verdict.COMMIT:
                after = replace(base, positions=batch.end, query=batch.query or base.query)
                after = after.with_complete(batch.complete)
                start = None if batch.is_move else batch.start
                says = snapshot_properties(after, batch.kind, start, batch.ranges)
                self._is_stale = True  # unless the commit succeeds
                if batch.replaced:
                    transaction = stage_rewrite(table, after, says, batch)
                else:
                    transaction = stage(table.transaction(), after, says, batch.paths)
                self._table = transaction.commit_transaction()
                self._is_stale = False

    def _decide(self, base: TableState, batch: Batch) -> Verdict:
        assert self._writer is not None, "take_over comes first"
        if batch.query is None:
            return decide_commit(base, self._writer, batch.start, batch.end)
        return decide_query_commit(base, self._writer, batch.query, batch.start, batch.end)

    def _settings(self) -> dict[str, str]:
        if self._of_view is None:
            return SETTINGS
        # Its names have ids that the catalogue assigns; pyiceberg adds the mapping of them.
        return {
            name: value
            for name, value in SETTINGS.items()
            if name != TableProperties.DEFAULT_NAME_MAPPING
        }

    def _check(self, table: Table) -> TableState:
        state = check_table(table, self._view)
        kept, wanted = (None if each is None else each.by for each in (state.upsert, self._upsert))
        if kept != wanted:
            raise TableRefusedError(
                f"table {self.name} keeps {_what_is_kept(kept)}, not {_what_is_kept(wanted)}; give "
                "it a new name"
            )
        return state

    def _open(self) -> Table:
        try:
            return self._catalogue.load_table(self._identifier)
        except NoSuchTableError:
            pass
        new = TableState(view=self._view, complete={}, upsert=self._upsert)
        try:
            self._catalogue.create_namespace_if_not_exists(self._identifier[:-1])
            return self._catalogue.create_table(
                self._identifier,
                schema=self._columns,
                partition_spec=self._partitions,
                properties=self._settings() | new.properties(),
            )
        except (NamespaceAlreadyExistsError, TableAlreadyExistsError):
            return self._catalogue.load_table(self._identifier)


def _what_is_kept(by: UpsertBy | None) -> str:
    return "every record" if by is None else f"the latest record by {by}"


def check_table(table: Table, view: str | None = None) -> TableState:
    """Return the state of a table that may be written to. Raises TableRefusedError."""
    name = ".".join(table.name())
    try:
        state = TableState.decode(table.properties)
    except TableStateError as error:
        raise TableRefusedError(f"table {name}: {error}") from error
    if view is not None and state.view != view:
        raise TableRefusedError(f"table {name} keeps {state.view}, not {view}; give it a new name")
    if table.properties.get(RETRIES) != NO_RETRIES:
        raise TableRefusedError(
            f"table {name}: property {RETRIES} is {table.properties.get(RETRIES)!r}, and must be "
            f"{NO_RETRIES!r}: pyiceberg would rebase a commit of a writer that was replaced"
        )
    snapshot = table.current_snapshot()
    summary = {} if snapshot is None or snapshot.summary is None else snapshot.summary
    holds = {POSITIONS_HASH: positions_hash(state.positions)}
    if state.query is not None:
        holds[BATCH] = str(state.query.batch)  # batches without records have the same positions
    if any(summary.get(each) not in (None, text) for each, text in holds.items()):
        raise TableRefusedError(
            f"table {name} was rolled back to a snapshot whose positions or batch are not those "
            "of its properties; undo the rollback, or begin a new table"
        )
    return state


def _patiently() -> Retrying:
    """Repeat while the catalogue refuses a base that is not the newest, or does not answer."""
    return Retrying(
        stop=stop_after_delay(CATALOGUE_SECONDS_MAX),
        wait=wait_random_exponential(multiplier=0.05, max=CATALOGUE_WAIT_SECONDS_MAX),
        retry=retry_if_exception_type((CommitFailedException, *UNREACHABLE)),
        reraise=True,
    )
