"""Commits to a Delta table on disk, by the real library."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

import pytest
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError

from spark_global.delta.columns import ColumnsRefusedError
from spark_global.delta.keeping import check_folder
from spark_global.delta.maintaining import compact_table, delete_unreferenced, run_upkeep
from spark_global.delta.table_writer import DeltaWriter, TableRefusedError
from spark_global.kept.batches import Batch, BatchRefusedError
from spark_global.kept.folders import FolderRefusedError, table_folder
from spark_global.kept.said import COMPLETE_THROUGH, Through, complete_text
from tests.support.delta_tables import SCHEMA, files_of, numbered, offsets_in, writer_of
from tests.support.iceberg_tables import at


def commit(writer: DeltaWriter, folder: Path, number: int) -> bool:
    batch = numbered(number)
    files = files_of(folder, range(number * 10, number * 10 + 10))
    return writer.commit(batch, files, "timestamp", {})


class Zombie(DeltaWriter):
    """Stops between check and commit, and goes on when it is told to."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, "global_h", "q")
        self.wakes = threading.Event()
        self.sleeps = threading.Event()

    def is_done(self, batch: Batch) -> bool:
        found = super().is_done(batch)
        if not self.sleeps.is_set():
            self.sleeps.set()
            assert self.wakes.wait(60)
        return found


def test_a_batch_that_runs_again_is_not_committed_again(tmp_path: Path) -> None:
    writer = writer_of(tmp_path)
    assert commit(writer, tmp_path, 0)
    assert commit(writer, tmp_path, 1)
    again = writer_of(tmp_path)
    assert again.is_done(numbered(1))
    assert not commit(again, tmp_path, 1)
    assert commit(again, tmp_path, 2)
    assert offsets_in(tmp_path) == list(range(30))


def test_a_batch_without_rows_is_committed(tmp_path: Path) -> None:
    writer = writer_of(tmp_path)
    assert writer.commit(numbered(0), [], "timestamp", {})
    assert writer.is_done(numbered(0))
    assert commit(writer, tmp_path, 1)


@pytest.mark.parametrize("is_ahead", [False, True])
def test_a_zombie_between_check_and_commit_cannot_commit(tmp_path: Path, is_ahead: bool) -> None:
    """The other run commits the same batch, or more; then the zombie sends its commit."""
    commit(writer_of(tmp_path), tmp_path, 0)
    zombie = Zombie(tmp_path)
    zombie.open(SCHEMA, ("datacenter", "hour"))
    outcome: list[object] = []

    def live() -> None:
        try:
            outcome.append(commit(zombie, tmp_path, 1))
        except BatchRefusedError as error:
            outcome.append(str(error))

    thread = threading.Thread(target=live)
    thread.start()
    assert zombie.sleeps.wait(60)
    other = writer_of(tmp_path)
    assert commit(other, tmp_path, 1)
    if is_ahead:
        assert commit(other, tmp_path, 2)
    zombie.wakes.set()
    thread.join()
    if is_ahead:
        assert "a newer run of the query has gone on" in str(outcome[0])
    else:
        assert outcome == [False]  # it looks again, and finds its batch
    assert offsets_in(tmp_path) == list(range(30 if is_ahead else 20))


def test_a_zombie_that_loads_the_table_again_is_refused(tmp_path: Path) -> None:
    zombie = writer_of(tmp_path)
    commit(zombie, tmp_path, 0)
    other = writer_of(tmp_path)
    assert commit(other, tmp_path, 1) and commit(other, tmp_path, 2)
    with pytest.raises(BatchRefusedError, match="this query is at batch 1: a newer run"):
        commit(zombie, tmp_path, 1)
    assert offsets_in(tmp_path) == list(range(30))


def test_of_many_commits_on_one_version_one_succeeds(tmp_path: Path) -> None:
    """All have checked the same version; none is rebased."""
    writer_of(tmp_path)
    for number in range(12):
        writers = [writer_of(tmp_path) for _ in range(4)]
        barrier = threading.Barrier(len(writers))
        committed: list[int] = []

        def send(writer: DeltaWriter, number: int = number) -> None:
            after = numbered(number).after
            assert not writer.is_done(numbered(number))
            barrier.wait()  # noqa: B023
            try:
                writer._commit(after, [], {})
                committed.append(number)  # noqa: B023
            except CommitFailedError:
                pass

        threads = [threading.Thread(target=send, args=(each,)) for each in writers]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        assert committed == [number]
    assert DeltaTable(str(tmp_path)).version() == 12


def test_what_the_library_alone_would_do(tmp_path: Path) -> None:
    """Why the writer checks the version itself: deltalake takes a `txn` a second time.

    A change here means that the commits and docs/operations/delta.md need another look.
    """
    writer_of(tmp_path)
    stale = DeltaTable(str(tmp_path))

    def send(table: DeltaTable, retries: int) -> None:
        properties = CommitProperties(
            max_commit_retries=retries, app_transactions=[Transaction("q", 0)]
        )
        table.create_write_transaction(
            [], "append", table.schema(), ["datacenter", "hour"], commit_properties=properties
        )

    send(DeltaTable(str(tmp_path)), 0)
    with pytest.raises(CommitFailedError, match="Concurrent transaction failed"):
        send(stale, 15)
    send(DeltaTable(str(tmp_path)), 15)  # on a new version it is not refused
    assert DeltaTable(str(tmp_path)).version() == 2


def test_a_checkpoint_of_the_log_keeps_the_batch(tmp_path: Path) -> None:
    writer = writer_of(tmp_path)
    commit(writer, tmp_path, 0)
    DeltaTable(str(tmp_path)).create_checkpoint()
    (tmp_path / "_delta_log" / f"{0:020}.json").unlink()
    again = writer_of(tmp_path)
    assert again.is_done(numbered(0)) and commit(again, tmp_path, 1)
    assert offsets_in(tmp_path) == list(range(20))


def test_a_compaction_beside_the_writer_loses_and_doubles_nothing(tmp_path: Path) -> None:
    writer = writer_of(tmp_path)
    ends = threading.Event()
    compactions: list[tuple[int, int]] = []
    for number in range(3):
        commit(writer, tmp_path, number)

    def compact() -> None:
        while not ends.is_set():
            try:
                compactions.append(compact_table(str(tmp_path), 1 << 20))
            except DeltaError:
                continue  # the writer was faster each time

    thread = threading.Thread(target=compact)
    thread.start()
    try:
        for number in range(3, 30):
            assert commit(writer, tmp_path, number)
            assert offsets_in(tmp_path) == list(range(number * 10 + 10))
    finally:
        ends.set()
        thread.join()
    assert sum(before for before, _ in compactions) > 0
    assert offsets_in(tmp_path) == list(range(300))
    assert writer_of(tmp_path).is_done(numbered(29))


def test_old_files_of_killed_batches_are_deleted_and_young_ones_stay(tmp_path: Path) -> None:
    writer = writer_of(tmp_path)
    commit(writer, tmp_path, 0)
    commit(writer, tmp_path, 1)
    old, young = (files_of(tmp_path, range(20, 30))[0].path for _ in range(2))
    kept = tmp_path / "_checkpoint" / "state" / "1.parquet"
    kept.parent.mkdir(parents=True)
    kept.touch()
    for path in (tmp_path / old, kept):
        os.utime(path, (1e9, 1e9))
    assert delete_unreferenced(str(tmp_path), 1) == 1
    assert not (tmp_path / old).exists() and (tmp_path / young).exists() and kept.exists()
    assert offsets_in(tmp_path) == list(range(20))
    problem, said = run_upkeep(str(tmp_path), small_bytes=1 << 20, keep_hours=24)
    assert problem is None and said.endswith("2 files became 1; 0 files deleted")
    assert "has no Delta or Parquet table" in str(
        run_upkeep(str(tmp_path / "x"), small_bytes=1, keep_hours=1)
    )


def test_files_name_their_partition_and_bounds(tmp_path: Path) -> None:
    writer = writer_of(tmp_path)
    files = files_of(tmp_path, range(50, 70)) + files_of(tmp_path, range(70, 72), None)
    writer.commit(numbered(0), files, "timestamp", {COMPLETE_THROUGH: complete_text({})})
    assert [(each.values["datacenter"], each.values["hour"], each.rows) for each in files] == [
        ("JFK", "1970-01-01-00", 10),
        ("JFK", "1970-01-01-01", 10),
        (None, "1970-01-01-01", 2),
    ]
    assert json.loads(files[0].statistics("timestamp")) == {
        "numRecords": 10,
        "minValues": {"timestamp": "1970-01-01T00:50:00.000000Z"},
        "maxValues": {"timestamp": "1970-01-01T00:59:00.000000Z"},
        "nullCount": {"timestamp": 0},
    }
    table = DeltaTable(str(tmp_path)).to_pyarrow_table(filters=[("hour", "=", "1970-01-01-00")])
    assert table.num_rows == 10
    assert offsets_in(tmp_path) == list(range(50, 72))


def test_other_tables_and_other_checkpoints_are_refused(tmp_path: Path) -> None:
    folder = tmp_path / "t"
    commit(writer_of(folder), folder, 0)
    with pytest.raises(TableRefusedError, match="by query q, and the checkpoint is of query r"):
        writer_of(folder, "r")
    with pytest.raises(TableRefusedError, match="has no checkpoint in _checkpoint"):
        check_folder(folder, "global_h")
    (folder / "_checkpoint").mkdir()
    (folder / "_checkpoint" / "metadata").write_text('{"id":"q"}')
    check_folder(folder, "global_h")
    with pytest.raises(TableRefusedError, match="keeps global_h, not global_i"):
        check_folder(folder, "global_i")
    with pytest.raises(BatchRefusedError, match="does not begin there"):
        writer_of(folder).is_done(numbered(1, size=7))  # another query's positions
    with pytest.raises(FolderRefusedError, match="not a directory"):
        table_folder("s3a://bucket/t")
    (tmp_path / "parquet").mkdir()
    (tmp_path / "parquet" / "_spark_metadata").mkdir()
    with pytest.raises(TableRefusedError, match="something else, such as _spark_metadata"):
        check_folder(tmp_path / "parquet", "global_h")


def test_columns_are_added_and_others_stay(tmp_path: Path) -> None:
    commit(writer_of(tmp_path), tmp_path, 0)
    document = json.loads(SCHEMA)
    document["fields"].append({"name": "new", "type": "string", "nullable": True, "metadata": {}})
    wider = writer_of(tmp_path, schema=json.dumps(document))
    assert commit(wider, tmp_path, 1)
    assert commit(writer_of(tmp_path), tmp_path, 2)
    rows = DeltaTable(str(tmp_path)).to_pyarrow_table()
    assert rows["new"].to_pylist() == [None] * 30
    document["fields"][1]["type"] = "string"
    with pytest.raises(ColumnsRefusedError, match="column offset of the table is long"):
        writer_of(tmp_path, schema=json.dumps(document))


def test_times_survive_a_restart(tmp_path: Path) -> None:
    writer = writer_of(tmp_path)
    complete = {"JFK": Through(1_000, None, 2)}
    says = {COMPLETE_THROUGH: complete_text(complete)}
    writer.commit(numbered(0), [], "timestamp", says)
    compact_table(str(tmp_path), 1 << 20)
    assert writer_of(tmp_path).complete() == complete
    assert at(10) == numbered(0).end
