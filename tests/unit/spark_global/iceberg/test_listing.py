"""The tables of a SQLite catalogue, read without the packages that a writer needs."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from spark_global.iceberg.catalogues import open_catalogue
from spark_global.iceberg.listing import (
    SQLITE_FILE,
    UNREADABLE,
    TablesOfFile,
    TablesOfServer,
    open_tables,
)
from spark_global.iceberg.table_state import NOTHING_READ
from spark_global.iceberg.table_writer import TableWriter
from tests.support.iceberg_tables import at, batch_of

NAME = ("nyc", "global_flights")
ASK = """
import sys
from topology.main import app
try:
    app(["sql", "--engine", "duckdb", "--catalog", sys.argv[1], "-o", "json", sys.argv[2]])
finally:
    print([name for name in ("pandas", "sqlalchemy", "pyspark") if sys.modules.get(name)])
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A catalogue with two tables, one of them empty."""
    catalogue = open_catalogue(str(tmp_path / "tables"), create=True)
    writer = TableWriter(catalogue, NAME, "global_flights")
    writer.take_over()
    writer.commit(batch_of(writer.table, NOTHING_READ, range(3)))
    writer.commit(batch_of(writer.table, at(3), range(3, 5)))
    TableWriter(catalogue, ("a", "b", "other"), "global_other").take_over()
    return tmp_path / "tables"


def test_the_tables_are_those_of_pyiceberg(place: Path) -> None:
    own = open_tables(str(place))
    theirs = TablesOfServer(open_catalogue(str(place)))
    assert isinstance(own, TablesOfFile)
    # Theirs lists no namespace within another one.
    assert sorted(own.names()) == [("a", "b", "other"), *theirs.names()]
    assert theirs.names() == [NAME]
    found, expected = own.load(NAME), theirs.load(NAME)
    assert found.metadata == expected.metadata and found.name() == expected.name()
    assert found.scan().to_arrow() == expected.scan().to_arrow()
    assert isinstance(open_tables(place.as_uri()), TablesOfFile)


def test_catalogues_of_older_versions_and_others_tables(place: Path) -> None:
    """An older version has no column for the type; a row may be of another catalogue, or a view."""
    with sqlite3.connect(place / SQLITE_FILE) as connection:
        columns = "catalog_name, table_namespace, table_name, metadata_location, iceberg_type"
        insert = f"INSERT INTO iceberg_tables ({columns}) VALUES (?, 'nyc', ?, 'file:///x', ?)"
        connection.execute(insert, ("another", "t", "TABLE"))
        connection.execute(insert, ("heliograph", "v", "VIEW"))
    connection.close()
    assert sorted(open_tables(str(place)).names()) == [("a", "b", "other"), NAME]
    with sqlite3.connect(place / SQLITE_FILE) as connection:
        connection.execute("DELETE FROM iceberg_tables WHERE table_name IN ('t', 'v')")
        connection.execute("ALTER TABLE iceberg_tables DROP COLUMN iceberg_type")
    connection.close()
    assert sorted(open_tables(str(place)).names()) == [("a", "b", "other"), NAME]


def test_what_is_no_catalogue_is_said(tmp_path: Path) -> None:
    with pytest.raises(UNREADABLE, match=r"has no catalogue\.db, so it is no catalogue"):
        open_tables(str(tmp_path))
    (tmp_path / SQLITE_FILE).write_bytes(b"not a database, though it is long enough to look at")
    with pytest.raises(UNREADABLE, match="not a database"):
        open_tables(str(tmp_path))


def test_a_small_question_imports_no_big_packages(place: Path) -> None:
    query = 'SELECT datacenter, max("offset"), max(timestamp) FROM global_flights GROUP BY 1'
    command = [sys.executable, "-P", "-c", ASK, str(place), query]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    answer, imported = done.stdout.splitlines()
    assert json.loads(answer)["rows"] == [["JFK", 4, "1970-01-01T00:04:00+00:00"]], done.stderr
    assert imported == "[]"
