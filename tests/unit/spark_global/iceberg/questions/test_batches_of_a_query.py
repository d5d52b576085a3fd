"""Batches of a query in a real table: a run again, zombies, old checkpoints, a rollback."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException
from pyiceberg.table import Table, Transaction

from spark_global.addresses import ClusterAddress
from spark_global.iceberg.catalogues import open_catalogue
from spark_global.iceberg.compacting import commit_rewritten, rewrite_files
from spark_global.iceberg.moving import move_table
from spark_global.iceberg.staging import Batch, TableRefusedError, stage
from spark_global.iceberg.table_state import NOTHING_READ, QueryState, TableState
from spark_global.iceberg.table_writer import TableWriter, WriterReplacedError
from spark_global.kept.batches import BatchRefusedError
from tests.support.iceberg_tables import at, batch_of, offsets_in

NAME = ("nyc", "global_h_windows")


@pytest.fixture
def place(tmp_path: Path) -> str:
    return str(tmp_path / "tables")


@pytest.fixture
def catalogue(place: str) -> Catalog:
    return open_catalogue(place, create=True)


def run_of(catalogue: Catalog) -> TableWriter:
    """A run of the query that has taken the table over."""
    writer = TableWriter(catalogue, NAME, NAME[1])
    writer.take_over()
    return writer


def numbered(table: Table, number: int, query_id: str = "q") -> Batch:
    """Each odd batch has ten offsets, each even one a row without new offsets."""
    start, end = (at(10 * (each // 2)) for each in (number, number + 1))
    rows = batch_of(table, start, range(number, number + 1))
    query = QueryState(query_id, number)
    start = start if number else NOTHING_READ
    return replace(rows, start=start, end=end, query=query, ranges=[])


def committed(catalogue: Catalog) -> list[int]:
    """The batches whose rows are in the table."""
    return offsets_in(catalogue.load_table(NAME))


@pytest.fixture
def writer(catalogue: Catalog) -> TableWriter:
    """A run with the batches 0, 1 and 2 committed."""
    writer = run_of(catalogue)
    for number in range(3):
        writer.commit(numbered(writer.table, number))
    return writer


def test_a_batch_that_runs_again_is_not_committed_again(
    catalogue: Catalog, writer: TableWriter
) -> None:
    again = run_of(catalogue)
    assert again.is_done(numbered(again.table, 2)) and not again.is_done(numbered(again.table, 3))
    for number in (2, 3, 4, 4, 5):
        again.commit(numbered(again.table, number))
    assert committed(catalogue) == [0, 1, 2, 3, 4, 5]
    table = catalogue.load_table(NAME)
    assert TableState.decode(table.properties).query == QueryState("q", 5)
    said = [each.summary.additional_properties for each in table.snapshots() if each.summary]
    last = [(each["heliograph.kind"], each.get("heliograph.batch")) for each in said[-3:]]
    assert last == [("batch", "3"), ("batch", "4"), ("batch", "5")]


def test_a_batch_whose_rows_come_without_offsets_is_there_once(
    catalogue: Catalog, writer: TableWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its positions say nothing, and its answer is lost: the number of the batch decides."""
    commit = Transaction.commit_transaction
    lost: list[Transaction] = []

    def without_answer(transaction: Transaction) -> Table:
        found = commit(transaction)
        if lost:
            return found
        lost.append(transaction)
        raise CommitStateUnknownException("the connection broke")

    batch = numbered(writer.table, 4)
    writer.commit(numbered(writer.table, 3))
    assert batch.start == batch.end and batch.kind == "batch"
    monkeypatch.setattr(Transaction, "commit_transaction", without_answer)
    writer.commit(batch)
    writer.commit(numbered(writer.table, 5))
    assert lost and committed(catalogue) == [0, 1, 2, 3, 4, 5]


def test_a_zombie_cannot_commit(catalogue: Catalog, writer: TableWriter) -> None:
    """It stops between check and commit, and it loads the table again."""
    batch = numbered(writer.table, 3)
    after = replace(writer.state, positions=batch.end, query=batch.query)
    flying = stage(writer.table.transaction(), after, {}, batch.paths)
    successor = run_of(catalogue)
    with pytest.raises(CommitFailedException, match="branch main has changed"):
        flying.commit_transaction()
    with pytest.raises(WriterReplacedError, match=r"epoch 2; this one has 1"):
        writer.commit(batch)
    successor.commit(numbered(successor.table, 3))
    with pytest.raises(WriterReplacedError):
        writer.commit(batch)
    assert committed(catalogue) == [0, 1, 2, 3]


def test_other_checkpoints_are_refused(catalogue: Catalog, writer: TableWriter) -> None:
    with pytest.raises(BatchRefusedError, match="by query q, and the checkpoint is of query r"):
        writer.commit(numbered(writer.table, 3, "r"))
    with pytest.raises(BatchRefusedError, match="its checkpoint is an old copy"):
        writer.commit(numbered(writer.table, 1))
    with pytest.raises(BatchRefusedError, match="does not begin there"):
        writer.commit(numbered(writer.table, 4))
    with pytest.raises(BatchRefusedError, match="does not begin there"):
        writer.commit(replace(numbered(writer.table, 3), start=at(7)))
    new = TableWriter(catalogue, ("nyc", "other"), "global_h_windows")
    new.take_over()
    with pytest.raises(BatchRefusedError, match="the table has none of it"):
        new.commit(numbered(new.table, 3))
    assert committed(catalogue) == [0, 1, 2]


def test_a_rollback_shows_by_the_batch(catalogue: Catalog, writer: TableWriter) -> None:
    """The batches 1 and 2 end at the same positions."""
    assert numbered(writer.table, 1).end == numbered(writer.table, 2).end
    first = writer.table.snapshots()[-2].snapshot_id
    writer.table.manage_snapshots().rollback_to_snapshot(first).commit()
    with pytest.raises(TableRefusedError, match="rolled back"):
        run_of(catalogue)


def test_a_compaction_keeps_the_batch(catalogue: Catalog, writer: TableWriter) -> None:
    table = catalogue.load_table(NAME)
    files = [task.file for task in table.scan().plan_files()]
    done = commit_rewritten(catalogue, NAME, [rewrite_files(files, table.metadata, table.io)])
    assert (done.files_before, done.files_after) == (3, 1)
    writer.commit(numbered(writer.table, 2))
    writer.commit(numbered(writer.table, 3))
    assert run_of(catalogue).is_done(numbered(writer.table, 3))
    assert committed(catalogue) == [0, 1, 2, 3]


def test_it_does_not_follow_another_aggregate(place: str, writer: TableWriter) -> None:
    here, there = ClusterAddress("127.0.0.1:1"), ClusterAddress("127.0.0.1:2")
    with pytest.raises(TableRefusedError, match="keeps global_h_windows, whose open windows"):
        move_table(place, NAME, here=here, to=there)
    writer.commit(numbered(writer.table, 3))
