"""`heliograph sql --engine duckdb`: questions to the tables of a catalogue, without Spark.

Each table is a view under the last part of its name. One of fast windows has a second view, with
one row per window. DuckDB reads the files that the newest
snapshot names. It skips those whose datacenter or hour cannot match.
"""

from __future__ import annotations

import functools
import operator
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds
from pyiceberg.io.pyarrow import PyArrowFileIO, schema_to_pyarrow
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.table import FileScanTask, Table
from pyiceberg.transforms import HourTransform, IdentityTransform

from spark_global.iceberg.listing import UNREADABLE, Tables, open_tables
from spark_global.iceberg.table_state import TableState, TableStateError
from spark_global.kept.said import describe_complete, said_of
from spark_global.printing import Printed, print_problem, print_rows
from spark_global.windowing.latest import SUFFIX as LATEST_SUFFIX
from spark_global.windowing.latest import latest_statement

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_HOUR: Final = timedelta(hours=1)
_Partition = tuple[int, str, bool]
"""Number in the partition of a file, the column, and whether it is its hour."""
_FAST: Final = "_fast_windows"
"""How views of fast windows end."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The rows of a query, and what is known of its tables."""

    columns: list[str]
    rows: list[list[Any]]
    """One more than the limit if there are more."""
    tables: Mapping[str, TableState]
    """By name; only tables that Heliograph keeps."""


def run_duckdb(query: str, *, catalogue: str, output: str, limit: int) -> int:
    """Run a query on the tables of a catalogue and print its rows; return the exit code."""
    try:
        answer = ask(open_tables(catalogue), query, limit)
    except (duckdb.Error, *UNREADABLE) as error:
        print_problem(f"sql on {catalogue}: {error}")
        return 1
    notes = [
        f"{name}: {line}"
        for name, state in sorted(answer.tables.items())
        for line in describe_complete(state.complete)
    ]
    complete = {
        name: {at: said_of(found) for at, found in sorted(state.complete.items())}
        for name, state in sorted(answer.tables.items())
    }
    printed = Printed(
        columns=answer.columns,
        rows=answer.rows,
        notes=notes,
        document={"complete_through": complete},
    )
    print_rows(printed, output, limit, sys.stdout)
    return 0


def ask(tables: Tables, query: str, limit: int) -> Answer:
    """Return the first rows of a query. Raises duckdb.Error and `UNREADABLE`."""
    words = {word.lower() for word in re.findall(r"\w+", query)}
    states: dict[str, TableState] = {}
    seen: set[str] = set()
    with duckdb.connect() as engine:
        engine.execute("SET TimeZone = 'UTC'")
        for identifier in tables.names():
            name = identifier[-1]
            latest = name + LATEST_SUFFIX
            if not words & {name.lower(), latest.lower()}:
                continue
            if name in seen:
                raise duckdb.CatalogException(f"{name} is in several namespaces")
            seen.add(name)
            table = tables.load(identifier)
            engine.register(name, as_dataset(table))
            state = _state(table)
            if state is not None:
                states[name] = state
                if state.view.endswith(_FAST) and latest.lower() in words:
                    statement = latest_statement(f'"{name}"')
                    engine.execute(f'CREATE TEMP VIEW "{latest}" AS {statement}')
        found = _relation(engine, query)
        if found is None:
            return Answer([], [], states)
        rows = found.limit(limit + 1).to_arrow_table()
    columns = [column.to_pylist() for column in rows.columns]
    return Answer(rows.column_names, [list(row) for row in zip(*columns, strict=True)], states)


def _relation(engine: duckdb.DuckDBPyConnection, query: str) -> duckdb.DuckDBPyRelation | None:
    """Run a query; a statement that is no question has no relation."""
    return engine.sql(query)


def as_dataset(table: Table) -> ds.Dataset | pa.Table:
    """Return the rows of a table for DuckDB.

    A table that others changed, by deletes or other columns, is read by pyiceberg as a whole.
    """
    tasks = list(table.scan().plan_files())
    files = table.io
    if not isinstance(files, PyArrowFileIO) or not _is_plain(table, tasks):
        return table.scan().to_arrow()
    schema = _without_ids(schema_to_pyarrow(table.schema()))
    scheme, netloc, _ = files.parse_location(table.location())
    filesystem = files.fs_by_scheme(scheme, netloc)
    parquet = ds.ParquetFileFormat()
    partitions = {spec_id: _partitions(table, spec) for spec_id, spec in table.specs().items()}
    fragments = [
        parquet.make_fragment(
            files.parse_location(task.file.file_path)[2],
            filesystem=filesystem,
            partition_expression=_rows_within(task, schema, partitions[task.file.spec_id]),
        )
        for task in tasks
    ]
    return ds.FileSystemDataset(fragments, schema, parquet, filesystem)


def _is_plain(table: Table, tasks: list[FileScanTask]) -> bool:
    """Return whether names alone say which column of a file is which, and no file has deletes."""
    names = {field.name: (field.field_id, field.field_type) for field in table.schema().fields}
    before = [field for schema in table.schemas().values() for field in schema.fields]
    return not any(task.delete_files for task in tasks) and all(
        names.get(field.name) == (field.field_id, field.field_type) for field in before
    )


def _partitions(table: Table, spec: PartitionSpec) -> list[_Partition]:
    """Return the partitions of a spec that say something about a column: values and hours."""
    columns = {field.field_id: field.name for field in table.schema().fields}
    found: list[_Partition] = []
    for number, field in enumerate(spec.fields):
        is_hour = isinstance(field.transform, HourTransform)
        if field.source_id in columns and (is_hour or field.transform == IdentityTransform()):
            found.append((number, columns[field.source_id], is_hour))
    return found


def _rows_within(
    task: FileScanTask, schema: pa.Schema, partitions: Sequence[_Partition]
) -> ds.Expression | None:
    """Return what holds for each row of a file, by its partition."""
    parts = [
        _holds(ds.field(name), schema.field(name).type, task.file.partition[number], is_hour)
        for number, name, is_hour in partitions
    ]
    return functools.reduce(operator.and_, parts) if parts else None


def _holds(column: ds.Expression, kind: pa.DataType, value: Any, is_hour: bool) -> ds.Expression:
    if value is None:
        return column.is_null()
    if not is_hour:
        return column == pa.scalar(value, kind)
    begin = _EPOCH + value * _HOUR
    return (column >= pa.scalar(begin, kind)) & (column < pa.scalar(begin + _HOUR, kind))


def _without_ids(schema: pa.Schema) -> pa.Schema:
    return pa.schema([field.remove_metadata() for field in schema])


def _state(table: Table) -> TableState | None:
    """Return the state of a table that Heliograph keeps."""
    try:
        return TableState.decode(table.properties)
    except TableStateError:
        return None
