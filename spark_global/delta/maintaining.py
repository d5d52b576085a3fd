"""`heliograph spark compact` of a Delta table: small files, and files that no version has. Shell.

A compaction removes files and adds others with the same rows in one commit. It changes no data, so
Delta lets it pass beside commits that only add files. The writer repeats its own commit.
"""

from __future__ import annotations

from deltalake import CommitProperties, DeltaTable
from deltalake.exceptions import DeltaError

from spark_global.delta.table_writer import TableRefusedError, check_table
from spark_global.kept.folders import FolderRefusedError, table_folder
from spark_global.kept.said import KIND
from spark_global.kept.upkeep import UNREFERENCED_HOURS_MIN


def run_upkeep(path: str, *, small_bytes: int, keep_hours: float) -> tuple[str | None, str]:
    """Compact a table and clean it up; return what went wrong, and what was done."""
    try:
        folder = str(table_folder(path))
        if not DeltaTable.is_deltatable(folder):
            return f"{path} has no Delta or Parquet table; --table names an Iceberg table", ""
        before, after = compact_table(folder, small_bytes)
        deleted = delete_unreferenced(folder, keep_hours)
    except (DeltaError, FolderRefusedError, OSError, TableRefusedError) as error:
        return f"table {path}: {error}", ""
    return None, f"{path}: {before} files became {after}; {deleted} files deleted"


def compact_table(folder: str, small_bytes: int) -> tuple[int, int]:
    """Put small files of a datacenter and hour together; return how many they were and are."""
    table = DeltaTable(folder)
    check_table(table)
    says = CommitProperties(custom_metadata={KIND: "compaction"})
    done = table.optimize.compact(target_size=small_bytes, commit_properties=says)
    return int(done["numFilesRemoved"]), int(done["numFilesAdded"])


def delete_unreferenced(folder: str, keep_hours: float) -> int:
    """Delete old files that the newest version does not have; return how many.

    Older versions that need them cannot be read after that.
    """
    deleted = DeltaTable(folder).vacuum(
        retention_hours=round(max(keep_hours, UNREFERENCED_HOURS_MIN)),
        dry_run=False,
        enforce_retention_duration=False,
        full=True,
    )
    return len(deleted)
