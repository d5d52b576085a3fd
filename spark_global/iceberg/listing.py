"""The tables of a catalogue, for readers. Shell.

A small question spends most of its time on imports. So a directory's SQLite catalogue is read
without SQLAlchemy, which pyiceberg's own catalogue needs.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Protocol

from pyiceberg.catalog import Catalog
from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.exceptions import NoSuchTableError, RESTError
from pyiceberg.io import load_file_io
from pyiceberg.serializers import FromInputFile
from pyiceberg.table import Table

NAME: Final = "heliograph"
"""The catalogue's name in pyiceberg's configuration, and in the rows of SQLite."""
SQLITE_FILE: Final = "catalogue.db"
UNREADABLE: Final = (NoSuchTableError, RESTError, sqlite3.Error, OSError)
"""What is raised if a catalogue or a table cannot be read."""

Identifier = tuple[str, ...]

_TABLES: Final = """
    SELECT table_namespace, table_name, metadata_location FROM iceberg_tables
    WHERE catalog_name = ? AND metadata_location IS NOT NULL
"""
_IS_TABLE: Final = " AND (iceberg_type = 'TABLE' OR iceberg_type IS NULL)"


class Tables(Protocol):
    """The tables of one catalogue."""

    def names(self) -> list[Identifier]:
        """Return the names of all tables. Raises `UNREADABLE`."""

    def load(self, name: Identifier) -> Table:
        """Return a table as of its newest snapshot. Raises `UNREADABLE`."""


def is_server(text: str) -> bool:
    """Return whether a catalogue is a REST catalogue."""
    return text.startswith(("http://", "https://"))


def catalogue_folder(text: str) -> Path:
    """Return the directory of a SQLite catalogue."""
    return Path(text.removeprefix("file://")).absolute()


def catalogue_file(text: str) -> Path:
    """Return the file of a SQLite catalogue. Raises FileNotFoundError."""
    file = catalogue_folder(text) / SQLITE_FILE
    if not file.exists():
        raise FileNotFoundError(f"{file.parent} has no {SQLITE_FILE}, so it is no catalogue")
    return file


def open_tables(text: str) -> Tables:
    """Return the tables of a catalogue, as `open_catalogue` names it. Raises `UNREADABLE`."""
    if is_server(text):
        from spark_global.iceberg.catalogues import open_catalogue

        return TablesOfServer(open_catalogue(text))
    return TablesOfFile(catalogue_file(text))


class TablesOfFile:
    """The tables of a SQLite catalogue."""

    def __init__(self, file: Path) -> None:
        """Raises `UNREADABLE`."""
        with _opened(file) as connection:
            columns = {row[1] for row in connection.execute("PRAGMA table_info(iceberg_tables)")}
            # Catalogues of older versions of pyiceberg have tables only.
            which = _TABLES + (_IS_TABLE if "iceberg_type" in columns else "")
            rows = connection.execute(which, (NAME,)).fetchall()
        self._found: dict[Identifier, str] = {
            (*namespace.split("."), name): place for namespace, name, place in rows
        }

    def names(self) -> list[Identifier]:
        return list(self._found)

    def load(self, name: Identifier) -> Table:
        place = self._found[name]
        files = load_file_io({}, place)
        metadata = FromInputFile.table_metadata(files.new_input(place))
        return Table(
            identifier=name,
            metadata=metadata,
            metadata_location=place,
            io=load_file_io(metadata.properties, place),
            catalog=NoopCatalog(NAME),
        )


class TablesOfServer:
    """The tables of a catalogue that pyiceberg reads."""

    def __init__(self, catalogue: Catalog) -> None:
        self._catalogue = catalogue

    def names(self) -> list[Identifier]:
        return [
            tuple(name)
            for namespace in self._catalogue.list_namespaces()
            for name in self._catalogue.list_tables(namespace)
        ]

    def load(self, name: Identifier) -> Table:
        return self._catalogue.load_table(name)


@contextlib.contextmanager
def _opened(file: Path) -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True)
    try:
        yield connection
    finally:
        connection.close()
