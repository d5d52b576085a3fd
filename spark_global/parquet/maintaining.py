"""`heliograph spark compact` of a Parquet table: small files, and those without a name. Shell.

A file is deleted only if the log does not name it, and it was written or replaced a day ago. So the
files of a batch that is being written stay, and those of a reader that has read the log before.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pyarrow as pa

from spark_global.kept.folders import FolderRefusedError, table_folder
from spark_global.kept.upkeep import UNREFERENCED_HOURS_MIN
from spark_global.parquet.compacting import compact_table, now_ms, read_compact, read_files
from spark_global.parquet.replaced import forget_replaced, replaced_since
from spark_global.parquet.sink_log import LOG_FOLDER, SinkLogError, current_names

_PARTITIONS: Final = ("datacenter=", "hour=")
_NAMES: Final = ("part-", ".part-")
"""As Spark and a compaction begin the names of files; the second, while one is written."""
_MS_PER_HOUR: Final = 3_600_000
_MS_PER_SECOND: Final = 1_000


def run_upkeep(
    path: str, *, files_min: int, small_bytes: int, keep_hours: float
) -> tuple[str | None, str]:
    """Compact a table and clean it up; return what went wrong, and what was done."""
    try:
        table = table_folder(path)
        done = compact_table(table, files_min=files_min, small_bytes=small_bytes)
        deleted = delete_unnamed(table, keep_hours, now_ms())
    except (FolderRefusedError, OSError, SinkLogError, pa.ArrowException) as error:
        return f"table {path}: {error}", ""
    before, after = done
    return None, f"{path}: {before} files became {after}; {deleted} files deleted"


def delete_unnamed(table: Path, keep_hours: float, at_ms: int) -> int:
    """Delete old files that the log does not name; return how many.

    Raises SinkLogError and OSError.
    """
    before_ms = at_ms - round(max(keep_hours, UNREFERENCED_HOURS_MIN) * _MS_PER_HOUR)
    replaced = replaced_since(table)
    # After what was replaced: a batch that ends meanwhile has young files.
    named = named_files(table)
    deleted = 0
    for path in table.rglob("*.parquet"):
        if path in named or not _is_ours(path.relative_to(table)):
            continue
        written_ms = round(path.stat().st_mtime * _MS_PER_SECOND)
        if max(written_ms, replaced.get(path, 0)) < before_ms:
            path.unlink()
            deleted += 1
    forget_replaced(table, before_ms)
    return deleted


def _is_ours(path: Path) -> bool:
    """Return whether a file lies and is called as those of the table do.

    Another table may lie in a folder of this one.
    """
    return all(part.startswith(_PARTITIONS) for part in path.parts[:-1]) and path.name.startswith(
        _NAMES
    )


def named_files(table: Path) -> set[Path]:
    """Return the files that the table has. Raises SinkLogError and OSError."""
    log = table / LOG_FOLDER
    names = current_names(each.name for each in log.iterdir())
    found = {Path(each.path) for each in read_compact(table)[1]}
    for name in names.batches:
        found |= {Path(each.path) for each in read_files(log / name, table)}
    return found
