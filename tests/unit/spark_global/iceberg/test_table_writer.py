"""Commits to a real table in a SQLite catalogue: zombies, lost answers, other writers."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException
from pyiceberg.expressions import visitors
from pyiceberg.schema import Schema
from pyiceberg.table import Table, Transaction

from spark_global.iceberg import table_writer
from spark_global.iceberg.catalogues import open_catalogue
from spark_global.iceberg.compacting import commit_rewritten, rewrite_files
from spark_global.iceberg.layout import PARTITIONS, SCHEMA, SETTINGS
from spark_global.iceberg.listing import TablesOfServer
from spark_global.iceberg.maintaining import delete_unreferenced, expire_snapshots
from spark_global.iceberg.querying import ask
from spark_global.iceberg.staging import Batch, TableRefusedError, stage
from spark_global.iceberg.table_state import NOTHING_READ, TableState
from spark_global.iceberg.table_writer import TableWriter, WriterReplacedError
from spark_global.kept.said import Through
from tests.support.iceberg_tables import EPOCH, at, batch_of, offsets_in, rows_of

NAME = ("nyc", "global_flights")
VIEW = "global_flights"


@pytest.fixture
def catalogue(tmp_path: Path) -> Catalog:
    return open_catalogue(str(tmp_path / "tables"), create=True)


@pytest.fixture
def writer(catalogue: Catalog) -> TableWriter:
    """A writer with the offsets [0, 60) committed."""
    found = TableWriter(catalogue, NAME, VIEW)
    found.take_over()
    found.commit(batch_of(found.table, NOTHING_READ, range(0)))
    found.commit(batch_of(found.table, at(0), range(60)))
    return found


def in_table(catalogue: Catalog) -> list[int]:
    return offsets_in(catalogue.load_table(NAME))


def test_a_snapshot_has_its_offsets_and_the_table_its_positions(
    catalogue: Catalog, writer: TableWriter
) -> None:
    complete = {"JFK": Through(1_000, 900, 0)}
    writer.commit(batch_of(writer.table, at(60), range(60, 130), complete=complete))
    table = catalogue.load_table(NAME)
    snapshot = table.current_snapshot()
    assert snapshot is not None and snapshot.summary is not None
    assert snapshot.summary["heliograph.kind"] == "batch"
    assert snapshot.summary["heliograph.aggregate-offsets"] == '{"jfk.flights":{"0":[60,130]}}'
    assert '"first":60,"end":130,"records":70' in (
        snapshot.summary["heliograph.source-offsets"] or ""
    )
    assert snapshot.summary["heliograph.complete-through"] == (
        '{"JFK":{"through":"1970-01-01T00:00:01.000Z","proved":"1970-01-01T00:00:00.900Z",'
        '"gaps":0}}'
    )
    state = TableState.decode(table.properties)
    assert (state.positions, state.complete) == (at(130), complete)
    # By datacenter and hour: minutes 0 to 129 of 1970.
    files = [task.file for task in table.scan().plan_files()]
    assert sorted((file.partition[0], file.partition[1], file.record_count) for file in files) == [
        ("JFK", 0, 60),
        ("JFK", 1, 60),
        ("JFK", 2, 10),
    ]
    assert in_table(catalogue) == list(range(130))


def test_a_zombie_that_is_stopped_between_check_and_commit_cannot_commit(
    catalogue: Catalog, writer: TableWriter
) -> None:
    batch = batch_of(writer.table, at(60), range(60, 70))
    # The check is done, and the commit is on its way.
    flying = stage(writer.table.transaction(), writer.state, {}, batch.paths)
    TableWriter(catalogue, NAME, VIEW).take_over()
    with pytest.raises(CommitFailedException, match="branch main has changed"):
        flying.commit_transaction()
    assert in_table(catalogue) == list(range(60))


def test_a_zombie_that_reloads_the_table_stops(catalogue: Catalog, writer: TableWriter) -> None:
    batch = batch_of(writer.table, at(60), range(60, 70))
    successor = TableWriter(catalogue, NAME, VIEW)
    assert successor.take_over().positions == at(60)
    with pytest.raises(WriterReplacedError, match=r"epoch 2; this one has 1"):
        writer.commit(batch)
    successor.commit(batch_of(successor.table, at(60), range(60, 75)))
    with pytest.raises(WriterReplacedError):
        writer.commit(batch)
    assert in_table(catalogue) == list(range(75))


@pytest.mark.parametrize("is_applied", [True, False])
def test_a_commit_without_an_answer_is_found_by_its_offsets(
    catalogue: Catalog, writer: TableWriter, monkeypatch: pytest.MonkeyPatch, is_applied: bool
) -> None:
    commit = Transaction.commit_transaction
    lost: list[Transaction] = []

    def without_answer(transaction: Transaction) -> Table:
        if lost:
            return commit(transaction)
        lost.append(transaction)
        if is_applied:
            commit(transaction)
        raise CommitStateUnknownException("the connection broke")

    monkeypatch.setattr(Transaction, "commit_transaction", without_answer)
    writer.commit(batch_of(writer.table, at(60), range(60, 70)))
    writer.commit(batch_of(writer.table, at(70), range(70, 80)))
    assert lost and in_table(catalogue) == list(range(80))


def test_a_takeover_without_an_answer_takes_one_epoch(
    catalogue: Catalog, writer: TableWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = Transaction.commit_transaction

    def without_answer(transaction: Transaction) -> Table:
        commit(transaction)
        monkeypatch.setattr(Transaction, "commit_transaction", commit)
        raise CommitStateUnknownException("the connection broke")

    monkeypatch.setattr(Transaction, "commit_transaction", without_answer)
    successor = TableWriter(catalogue, NAME, VIEW)
    found = successor.take_over()
    assert found.writer is not None and found.writer.epoch == 2
    successor.commit(batch_of(successor.table, at(60), range(60, 61)))


def test_a_catalogue_that_stays_away_ends_the_writer(
    writer: TableWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: Transaction) -> Table:
        raise ConnectionRefusedError("no catalogue")

    monkeypatch.setattr(table_writer, "CATALOGUE_SECONDS_MAX", 0.2)
    monkeypatch.setattr(Transaction, "commit_transaction", refuse)
    with pytest.raises(ConnectionRefusedError):
        writer.commit(batch_of(writer.table, at(60), range(60, 61)))


def test_a_batch_that_does_not_begin_where_the_table_ends_is_refused(
    catalogue: Catalog, writer: TableWriter
) -> None:
    with pytest.raises(TableRefusedError, match="positions changed"):
        writer.commit(batch_of(writer.table, at(50), range(50, 70)))
    assert in_table(catalogue) == list(range(60))


def test_tables_that_heliograph_must_not_write_to_are_refused(
    catalogue: Catalog, writer: TableWriter
) -> None:
    with pytest.raises(TableRefusedError, match="keeps global_flights, not global_delays"):
        TableWriter(catalogue, NAME, "global_delays").take_over()
    catalogue.create_table(("nyc", "other"), schema=SCHEMA)
    with pytest.raises(TableRefusedError, match="Heliograph does not keep it"):
        TableWriter(catalogue, ("nyc", "other"), VIEW).take_over()
    with writer.table.transaction() as change:
        change.set_properties({"commit.retry.num-retries": "4"})
    with pytest.raises(TableRefusedError, match=r"num-retries is '4', and must be '0'"):
        TableWriter(catalogue, NAME, VIEW).take_over()


def test_a_table_that_was_rolled_back_is_refused(catalogue: Catalog, writer: TableWriter) -> None:
    first = writer.table.snapshots()[0].snapshot_id
    writer.table.manage_snapshots().rollback_to_snapshot(first).commit()
    with pytest.raises(TableRefusedError, match="rolled back"):
        TableWriter(catalogue, NAME, VIEW).take_over()


@pytest.mark.parametrize("lacking", ["headers", "topic_id"])
def test_columns_that_a_table_lacks_are_added(catalogue: Catalog, lacking: str) -> None:
    before = Schema(*(field for field in SCHEMA.fields if field.name != lacking))
    new = TableState(view=VIEW, complete={})
    catalogue.create_namespace("nyc")
    properties = SETTINGS | new.properties()
    del properties["schema.name-mapping.default"]  # pyiceberg adds that of the ids it assigns
    table = catalogue.create_table(
        NAME, schema=before, partition_spec=PARTITIONS, properties=properties
    )
    old = batch_of_old_columns(table, lacking)
    stage(table.transaction(), new, {}, old).commit_transaction()

    writer = TableWriter(catalogue, NAME, VIEW)
    assert writer.take_over().positions == NOTHING_READ
    writer.commit(batch_of(writer.table, NOTHING_READ, range(1, 2)))
    with writer.table.update_schema() as columns:
        columns.add_column("added_by_others", SCHEMA.find_type("topic"))
    writer = TableWriter(catalogue, NAME, VIEW)
    writer.take_over()
    writer.commit(batch_of(writer.table, at(2), range(2, 3)))
    new_value = "id" if lacking == "topic_id" else [{"key": "h", "value": b"1"}]
    expected = [(0, None), (1, new_value), (2, new_value)]
    rows = catalogue.load_table(NAME).scan().to_arrow().to_pylist()
    assert sorted((row["offset"], row[lacking]) for row in rows) == expected
    assert all(row["value"] == f"v{row['offset']}".encode() for row in rows)
    asked = f'SELECT "offset", {lacking}, added_by_others FROM global_flights ORDER BY 1'
    assert ask(TablesOfServer(catalogue), asked, 9).rows == [
        [*row, None] for row in map(list, expected)
    ]


def batch_of_old_columns(table: Table, lacking: str) -> list[str]:
    import pyarrow.parquet as pq

    path = f"{table.location().removeprefix('file://')}/old.parquet"
    pq.write_table(rows_of_table(range(1)).drop_columns([lacking]), path)
    return [f"file://{path}"]


def rows_of_table(offsets: range) -> Any:
    import pyarrow as pa

    return pa.Table.from_batches([rows_of(offsets)])


def in_small_files(writer: TableWriter) -> None:
    for offset in range(60, 66):
        writer.commit(batch_of(writer.table, at(offset), range(offset, offset + 1)))


def rewritten(table: Table) -> Any:
    """Rewrite the hour of the small files, as a task of Spark does."""
    small = [task.file for task in table.scan().plan_files() if task.file.record_count == 1]
    assert len(small) == 6
    return rewrite_files(small, table.metadata, table.io)


def test_a_compaction_beside_a_running_writer_is_exact(
    catalogue: Catalog, writer: TableWriter
) -> None:
    in_small_files(writer)
    done = rewritten(catalogue.load_table(NAME))
    # The writer commits between the rewrite and the commit of the compaction, and after it.
    writer.commit(batch_of(writer.table, at(66), range(66, 70)))
    stale = stage(
        writer.table.transaction(),
        writer.state,
        {},
        batch_of(writer.table, at(70), range(70, 75)).paths,
    )
    found = commit_rewritten(catalogue, NAME, [done])
    assert (found.files_before, found.files_after) == (6, 1)
    with pytest.raises(CommitFailedException):
        stale.commit_transaction()
    writer.commit(batch_of(writer.table, at(70), range(70, 75)))
    table = catalogue.load_table(NAME)
    assert offsets_in(table) == list(range(75))
    assert len(list(table.scan().plan_files())) == 4
    says = [each.summary["heliograph.kind"] for each in table.snapshots() if each.summary]
    assert says[-2:] == ["compaction", "batch"]
    assert TableState.decode(table.properties).positions == at(75)
    # Once more, for instance after a lost answer: nothing is put in twice.
    again = commit_rewritten(catalogue, NAME, [done])
    assert (again.files_before, again.files_after) == (6, 1)
    assert in_table(catalogue) == list(range(75))


def test_manifests_are_judged_beside_each_other(
    catalogue: Catalog, writer: TableWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_small_files(writer)
    writer.commit(batch_of(writer.table, at(66), range(66, 190)))
    done = rewritten(catalogue.load_table(NAME))
    visit = visitors.visit

    def visit_late(expression: Any, visitor: Any) -> Any:
        time.sleep(0.005)  # long enough for the other threads to begin
        return visit(expression, visitor)

    monkeypatch.setattr(visitors, "visit", visit_late)
    assert commit_rewritten(catalogue, NAME, [done]).files_before == 6
    assert in_table(catalogue) == list(range(190))


def test_of_two_compactions_of_the_same_files_one_counts(
    catalogue: Catalog, writer: TableWriter
) -> None:
    in_small_files(writer)
    table = catalogue.load_table(NAME)
    one, other = rewritten(table), rewritten(table)
    assert commit_rewritten(catalogue, NAME, [one]).files_after == 1
    assert commit_rewritten(catalogue, NAME, [other]).files_after == 0
    assert in_table(catalogue) == list(range(66))


def test_a_compaction_says_what_the_writer_has_said(
    catalogue: Catalog, writer: TableWriter
) -> None:
    in_small_files(writer)
    complete = {"JFK": Through(5_000, None, 0)}
    writer.commit(Batch(start=at(66), end=at(66), complete=complete))
    state = writer.state
    commit_rewritten(catalogue, NAME, [rewritten(catalogue.load_table(NAME))])
    table = catalogue.load_table(NAME)
    snapshot = table.current_snapshot()
    assert snapshot is not None and snapshot.summary is not None
    assert '"through":"1970-01-01T00:00:05.000Z"' in (
        snapshot.summary["heliograph.complete-through"] or ""
    )
    assert TableState.decode(table.properties) == state
    assert TableWriter(catalogue, NAME, VIEW).take_over().positions == at(66)


def test_expired_snapshots_lose_neither_rows_nor_state(
    catalogue: Catalog, writer: TableWriter, tmp_path: Path
) -> None:
    in_small_files(writer)
    commit_rewritten(catalogue, NAME, [rewritten(catalogue.load_table(NAME))])
    writer.commit(batch_of(writer.table, at(66), range(66, 70)))
    state = writer.state
    orphan = batch_of(writer.table, at(70), range(70, 71)).paths[0]
    table = catalogue.load_table(NAME)
    far = EPOCH.replace(year=2100)
    assert delete_unreferenced(table, EPOCH) == 0, "nothing is that old"
    before = len(table.snapshots())
    assert expire_snapshots(table, EPOCH, before - 1) == 1, "only the oldest"
    table = catalogue.load_table(NAME)
    assert expire_snapshots(table, far, before) == before - 2
    table = catalogue.load_table(NAME)
    assert len(table.snapshots()) == 1
    files = len(list((tmp_path / "tables").rglob("*.parquet")))
    deleted = delete_unreferenced(table, far)
    left = list((tmp_path / "tables").rglob("*.parquet"))
    assert len(left) == files - 7, "six small files and the orphan"
    assert deleted > 7, "manifests too"
    assert not Path(orphan.removeprefix("file://")).exists()
    assert offsets_in(table) == list(range(70))
    assert TableWriter(catalogue, NAME, VIEW).take_over().positions == state.positions


@pytest.fixture(autouse=True)
def no_warnings_of_others() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module="pyiceberg")
        yield
