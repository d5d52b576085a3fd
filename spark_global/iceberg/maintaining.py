"""`heliograph spark compact`: small files, old snapshots, and files that no snapshot has. Shell.

A file is deleted only if no snapshot of the table has it and it is older than the time that
snapshots are kept. So the files of a batch that is being written stay.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pyarrow.fs as fs
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.table import Table
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from spark_global.iceberg.catalogues import UNREACHABLE, open_catalogue
from spark_global.iceberg.compacting import Compaction, compact_table
from spark_global.iceberg.staging import TableRefusedError
from spark_global.iceberg.table_writer import check_table
from spark_global.kept.upkeep import UNREFERENCED_HOURS_MIN
from spark_global.session import LOCAL_MASTER, SHORT_JOB, SparkStartError, open_session
from spark_global.sql import explain_error


@dataclass(frozen=True, slots=True, kw_only=True)
class Upkeep:
    """What to do to a table."""

    catalogue: str
    identifier: tuple[str, ...]
    files_min: int
    small_bytes: int
    keep_hours: float
    keep_snapshots: int
    """Most snapshots that are kept, however young they are."""


def run_upkeep(
    wanted: Upkeep, *, master: str = LOCAL_MASTER, conf: Mapping[str, str] | None = None
) -> tuple[str | None, str]:
    """Compact a table and clean it up; return what went wrong, and what was done."""
    name = ".".join(wanted.identifier)
    try:
        with open_session(master, settings={**SHORT_JOB, **(conf or {})}) as session:
            try:
                catalogue = open_catalogue(wanted.catalogue)
                found = compact_table(
                    session,
                    catalogue,
                    wanted.identifier,
                    files_min=wanted.files_min,
                    small_bytes=wanted.small_bytes,
                )
                table = catalogue.load_table(wanted.identifier)
                check_table(table)
                now = datetime.now(UTC)
                expired = expire_snapshots(
                    table, now - timedelta(hours=wanted.keep_hours), wanted.keep_snapshots
                )
                hours = max(wanted.keep_hours, UNREFERENCED_HOURS_MIN)
                table = catalogue.load_table(wanted.identifier)
                deleted = delete_unreferenced(table, now - timedelta(hours=hours))
            except (
                CommitFailedException,
                NoSuchTableError,
                PySparkException,
                TableRefusedError,
                *UNREACHABLE,
            ) as error:
                return f"table {name}: {explain_error(error)}", ""
    except SparkStartError as error:
        return str(error), ""
    return None, (
        f"{name}: {found.files_before} files became {found.files_after}; "
        f"{expired} snapshots expired; {deleted} files deleted"
    )


def compact_beside(
    path: str, identifier: tuple[str, ...], files_min: int, small_bytes: int
) -> Compaction:
    """Compact a table in the session that runs, beside its writer; snapshots stay.

    Raises what `compact_table` raises.
    """
    session = SparkSession.getActiveSession() or SparkSession.builder.getOrCreate()
    return compact_table(
        session, open_catalogue(path), identifier, files_min=files_min, small_bytes=small_bytes
    )


def expire_snapshots(table: Table, before: datetime, keep_max: int) -> int:
    """Expire old snapshots, and those beyond the newest `keep_max`; return how many they were.

    The current snapshot stays.
    """
    current = table.metadata.current_snapshot_id
    before_ms = round(before.timestamp() * 1_000)
    snapshots = sorted(table.snapshots(), key=lambda each: each.sequence_number or 0)
    surplus = max(0, len(snapshots) - keep_max)
    old = [
        each.snapshot_id
        for index, each in enumerate(snapshots)
        if (each.timestamp_ms < before_ms or index < surplus) and each.snapshot_id != current
    ]
    if old:
        table.maintenance.expire_snapshots().by_ids(old).commit()
    return len(old)


def delete_unreferenced(table: Table, before: datetime) -> int:
    """Delete data files and manifests from before a time that no snapshot has; return how many."""
    files = table.io
    if not isinstance(files, PyArrowFileIO):
        return 0
    scheme, netloc, root = files.parse_location(table.location())
    storage = files.fs_by_scheme(scheme, netloc)
    wanted = {files.parse_location(path)[2] for path in referenced_files(table)}
    deleted = 0
    for folder in ("data", "metadata"):
        selector = fs.FileSelector(f"{root}/{folder}", recursive=True, allow_not_found=True)
        for found in storage.get_file_info(selector):
            if not found.path.endswith((".parquet", ".avro")) or found.path in wanted:
                continue
            if found.mtime is not None and found.mtime < before:
                storage.delete_file(found.path)
                deleted += 1
    return deleted


def referenced_files(table: Table) -> set[str]:
    """Return every manifest list, manifest and data file of every snapshot."""
    found: set[str] = set()
    for snapshot in table.snapshots():
        found.add(snapshot.manifest_list)
        for manifest in snapshot.manifests(table.io):
            if manifest.manifest_path in found:
                continue
            found.add(manifest.manifest_path)
            entries = manifest.fetch_manifest_entry(table.io, discard_deleted=True)
            found |= {entry.data_file.file_path for entry in entries}
    return found
