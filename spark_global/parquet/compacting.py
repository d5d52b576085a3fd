"""Puts the small files of a table together, beside the query that writes it. Shell.

Guarantees: each row is in the table once at every moment, over any kill of this command or of the
query. The new file is whole and on disk before the log names it, and the log changes by one rename.

The query may write a newer `.compact` from the one that this replaces. Then the table has the old
files again: this replaces them there too, or leaves them. So no file is deleted here.
"""

from __future__ import annotations

import fcntl
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from spark_global.kept.open_files import NewFile, OpenFiles
from spark_global.kept.small_files import TARGET_BYTES, FileSize, choose_groups
from spark_global.parquet.columns import columns_of
from spark_global.parquet.durable import move_durably, write_durably
from spark_global.parquet.replaced import FOLDER, note_replaced
from spark_global.parquet.sink_log import (
    LOG_FOLDER,
    LoggedFile,
    SinkLogError,
    current_names,
    log_text,
    new_file,
    read_log,
    with_replaced,
)

REPLACE_ATTEMPTS_MAX: Final = 5
"""Newer logs of the query that are replaced too; it writes one every ten batches."""
_ROWS_PER_READ: Final = 64 * 1024
_MS_PER_SECOND: Final = 1_000


class TableBusyError(OSError):
    """Another command compacts the table."""


class Compaction(NamedTuple):
    """What a compaction has done."""

    files_before: int
    files_after: int


class Rewritten(NamedTuple):
    """Files whose rows lie in a new one."""

    old: tuple[LoggedFile, ...]
    new: LoggedFile

    @property
    def paths(self) -> tuple[str, ...]:
        """The paths of the old files."""
        return tuple(each.path for each in self.old)


def compact_table(table: Path, *, files_min: int, small_bytes: int) -> Compaction:
    """Rewrite the small files of each datacenter and hour once.

    Raises SinkLogError, TableBusyError, OSError, and pa.ArrowException for a file that is no
    Parquet.
    """
    with _alone(table):
        _, files = read_compact(table)
        groups = _choose(files, files_min, small_bytes)
        if not groups:
            return Compaction(0, 0)
        replaced = [Path(each.path) for group in groups for each in group]
        # Noted before, so that a kill leaves no replaced file without its time.
        note_replaced(table, replaced, now_ms())
        done = [Rewritten(tuple(group), rewrite_files(group)) for group in groups]
        named = _replace(table, done)
    return Compaction(sum(len(each.old) for each in named), len(named))


def read_compact(table: Path) -> tuple[Path | None, list[LoggedFile]]:
    """Return the newest `.compact`, if any, and its files. Raises SinkLogError and OSError."""
    log = table / LOG_FOLDER
    name = current_names(each.name for each in log.iterdir()).compact
    if name is None:
        return None, []
    return log / name, read_files(log / name, table)


def read_files(path: Path, table: Path) -> list[LoggedFile]:
    """Return what one file of the log names. Raises SinkLogError and OSError."""
    try:
        files = read_log(path.read_text())
    except ValueError as error:
        raise SinkLogError(f"{path} {error}") from error
    for each in files:
        if not Path(each.path).is_relative_to(table):
            raise SinkLogError(f"{path} names {each.path}: the table was moved, which Spark misses")
    return files


def rewrite_files(files: Sequence[LoggedFile]) -> LoggedFile:
    """Write the rows of some files of one folder, with the same columns, as one file.

    Raises OSError and pa.ArrowException.
    """
    folder = Path(files[0].path).parent
    path = folder / f"part-{uuid.uuid4()}-compacted.zstd.parquet"
    unfinished = path.with_name(f".{path.name}")
    with _open(files[0]) as first:
        schema = columns_of(first)
    sink = pa.OSFile(str(unfinished), "wb")
    written = OpenFiles[Path](lambda _: NewFile(str(path), sink, schema))
    expected = 0
    for each in files:
        with _open(each) as source:
            expected += source.metadata.num_rows
            for batch in source.iter_batches(_ROWS_PER_READ):
                written.add(path, batch.cast(schema))
    (closed,) = written.close()
    if closed.rows != expected:
        raise AssertionError(f"{path} has {closed.rows} rows, and its files have {expected}")
    move_durably(unfinished, path)
    return new_file(files[0], path, closed.size, now_ms())


def now_ms() -> int:
    """The clock of this machine."""
    return int(time.time() * _MS_PER_SECOND)


def _choose(
    files: Sequence[LoggedFile], files_min: int, small_bytes: int
) -> list[list[LoggedFile]]:
    """Return the files that become one file each: of one folder, with the same columns."""
    by_path = {each.path: each for each in files}
    sizes = [
        FileSize(each.path, (Path(each.path).parent, _columns_text(each)), each.size_bytes)
        for each in files
        if each.size_bytes < small_bytes
    ]
    groups = choose_groups(
        sizes,
        small_bytes=small_bytes,
        target_bytes=max(TARGET_BYTES, small_bytes),
        files_min=files_min,
    )
    return [[by_path[path] for path in group] for group in groups]


def _columns_text(file: LoggedFile) -> str:
    with _open(file) as opened:
        return str(columns_of(opened).to_string(show_schema_metadata=False))


def _open(file: LoggedFile) -> pq.ParquetFile:
    return pq.ParquetFile(file.path, coerce_int96_timestamp_unit="us")


def _replace(table: Path, done: Sequence[Rewritten]) -> list[Rewritten]:
    """Let the log name the new files; return those that it names."""
    groups = [(each.paths, each.new) for each in done]
    files: list[LoggedFile] = []
    for _ in range(REPLACE_ATTEMPTS_MAX):
        path, files = read_compact(table)
        changed = with_replaced(files, groups)
        if path is None or changed == files:
            break
        # Spark checks the sum of a file that has one.
        path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
        write_durably(path, log_text(changed).encode())
    named = {each.path for each in files}
    return [each for each in done if each.new.path in named]


@contextmanager
def _alone(table: Path) -> Iterator[None]:
    """Hold the lock of a table's upkeep. Raises TableBusyError."""
    folder = table / FOLDER
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("ab") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise TableBusyError(f"another command compacts {table}") from error
        yield
