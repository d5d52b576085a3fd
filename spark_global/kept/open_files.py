"""The open Parquet files of a task, least recently used first. Shell.

A task has one file for each partition of the table that its rows belong to. Each attempt of a task
writes files of its own; those of a failed attempt belong to no table.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Final, Generic, NamedTuple, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

BUFFERED_BYTES_MAX: Final = 64 * 1024 * 1024
"""Bytes of rows that a task holds; more become a row group each."""
OPEN_FILES_MAX: Final = 32
"""Files that a task has open. One more closes the least recently used."""
COMPRESSION: Final = "zstd"

Key = TypeVar("Key", bound=Hashable)


class NewFile(NamedTuple):
    """A file to write."""

    path: str
    sink: pa.NativeFile
    schema: pa.Schema


class ClosedFile(NamedTuple, Generic[Key]):
    """A file that is whole."""

    key: Key
    """The partition of the table."""
    path: str
    rows: int
    size: int


class OpenFiles(Generic[Key]):
    """The files of a task."""

    def __init__(self, create: Callable[[Key], NewFile]) -> None:
        """`create` makes a file for a partition of the table."""
        self._create = create
        self._open: dict[Key, _OpenFile[Key]] = {}
        self._closed: list[ClosedFile[Key]] = []

    def add(self, key: Key, rows: pa.RecordBatch) -> None:
        """Add rows of one partition of the table. Columns that its file lacks are left out."""
        file = self._open.pop(key, None) or self._new(key)
        self._open[key] = file
        file.add(rows)
        while sum(each.buffered_bytes for each in self._open.values()) > BUFFERED_BYTES_MAX:
            max(self._open.values(), key=lambda each: each.buffered_bytes).flush()

    def close(self) -> list[ClosedFile[Key]]:
        """Close all files, and return them."""
        while self._open:
            self._close_oldest()
        return self._closed

    def _new(self, key: Key) -> _OpenFile[Key]:
        while len(self._open) >= OPEN_FILES_MAX:
            self._close_oldest()
        return _OpenFile(key, self._create(key))

    def _close_oldest(self) -> None:
        self._closed.append(self._open.pop(next(iter(self._open))).close())


class _OpenFile(Generic[Key]):
    """One Parquet file."""

    def __init__(self, key: Key, new: NewFile) -> None:
        self.buffered_bytes = 0
        self._key = key
        self._file = new
        self._rows = 0
        self._buffered: list[pa.RecordBatch] = []
        self._writer = pq.ParquetWriter(new.sink, new.schema, compression=COMPRESSION)

    def add(self, rows: pa.RecordBatch) -> None:
        self._buffered.append(rows)
        self._rows += rows.num_rows
        self.buffered_bytes += rows.get_total_buffer_size()

    def flush(self) -> None:
        """Write what is buffered as a row group."""
        if self._buffered:
            schema = self._file.schema
            rows = pa.Table.from_batches(self._buffered).select(schema.names)
            self._writer.write_table(rows.cast(schema), row_group_size=rows.num_rows)
            self._buffered, self.buffered_bytes = [], 0

    def close(self) -> ClosedFile[Key]:
        self.flush()
        self._writer.close()
        size = self._file.sink.tell()
        self._file.sink.close()
        return ClosedFile(self._key, self._file.path, self._rows, size)
