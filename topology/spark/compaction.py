"""`heliograph spark compact`, and the compactions beside `spark materialize`.

Commands import what they need when they run, to keep start-up short.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Final

import typer

from topology.cli.command_line import EXIT_USAGE, fail, require_extra
from topology.cli.spark_options import ConfOption, MasterOption, spark_conf
from topology.spark.options import Format

if TYPE_CHECKING:
    from spark_global.kept.upkeep import Compacting

MIB: Final = 1024 * 1024
FILES_MIN: Final = 4
SMALL_MIB: Final = 64
KEEP_HOURS: Final = 24.0
SNAPSHOTS_MAX: Final = 1_000
LOCAL_MASTER: Final = "local[*]"
_SPARK_LOG: Final = "_spark_metadata"
_DELTA_LOG: Final = "_delta_log"


def compact(
    catalogue: Annotated[
        str,
        typer.Argument(
            metavar="CATALOG|PATH", help="Iceberg: as for `materialize`. Else the table's folder."
        ),
    ],
    table: Annotated[
        str | None,
        typer.Option("--table", metavar="NAMESPACE.NAME", help="Iceberg table; others have none."),
    ] = None,
    files_min: Annotated[
        int, typer.Option("--files-min", min=2, help="Small files of an hour that are worth it.")
    ] = FILES_MIN,
    small_mib: Annotated[
        int, typer.Option("--small", metavar="MIB", min=1, help="Size below which a file is small.")
    ] = SMALL_MIB,
    keep_hours: Annotated[
        float,
        typer.Option("--keep-hours", min=0, help="Hours that old snapshots and files are kept."),
    ] = KEEP_HOURS,
    keep_snapshots: Annotated[
        int, typer.Option("--keep-snapshots", min=1, help="Most snapshots that are kept.")
    ] = SNAPSHOTS_MAX,
    master: MasterOption = LOCAL_MASTER,
    conf: ConfOption = None,
) -> None:
    """Put the small files of a table together, beside its running writer.

    Old snapshots expire. Then files that no snapshot has are deleted if they are a day old.
    """
    if table is None:
        _check_folder_options(
            files_min, keep_snapshots, master, conf, is_delta=_has_folder(catalogue, _DELTA_LOG)
        )
        problem, said = compact_folder(catalogue, files_min, small_mib * MIB, keep_hours)
        if problem is not None:
            fail(problem)
        typer.echo(said)
        return
    identifier = table_identifier(table)
    settings = spark_conf(conf)
    require_extra("iceberg")
    from spark_global.iceberg.maintaining import Upkeep, run_upkeep

    wanted = Upkeep(
        catalogue=catalogue,
        identifier=identifier,
        files_min=files_min,
        small_bytes=small_mib * MIB,
        keep_hours=keep_hours,
        keep_snapshots=keep_snapshots,
    )
    problem, said = run_upkeep(wanted, master=master, conf=settings)
    if problem is not None:
        fail(problem)
    typer.echo(said)


def _check_folder_options(
    files_min: int,
    keep_snapshots: int,
    master: str,
    conf: Sequence[str] | None,
    *,
    is_delta: bool,
) -> None:
    """End the command if an option is given that does nothing for a table in a folder."""
    given = {
        "--keep-snapshots": keep_snapshots != SNAPSHOTS_MAX,
        "--master": master != LOCAL_MASTER,
        "--conf": bool(conf),
        "--files-min": is_delta and files_min != FILES_MIN,
    }
    for name, is_given in given.items():
        if is_given:
            kind = "Iceberg and Parquet tables" if name == "--files-min" else "Iceberg tables"
            fail(f"{name} is for {kind}; this command runs without Spark", code=EXIT_USAGE)


def _has_folder(path: str, name: str) -> bool:
    """Return whether a table lies in a folder of this machine, and has a folder of this name."""
    from spark_global.kept.folders import FolderRefusedError, table_folder

    try:
        return (table_folder(path) / name).is_dir()
    except FolderRefusedError:
        return False


def compact_folder(
    path: str, files_min: int, small_bytes: int, keep_hours: float
) -> tuple[str | None, str]:
    """Compact a Delta or Parquet table; return what went wrong, and what was done."""
    if _has_folder(path, _SPARK_LOG):
        require_extra("spark")
        from spark_global.parquet.maintaining import run_upkeep

        return run_upkeep(path, files_min=files_min, small_bytes=small_bytes, keep_hours=keep_hours)
    require_extra("delta")
    from spark_global.delta.maintaining import run_upkeep as run_delta_upkeep

    return run_delta_upkeep(path, small_bytes=small_bytes, keep_hours=keep_hours)


def table_identifier(text: str) -> tuple[str, ...]:
    """Return the parts of a table's name; end the command if it has no namespace."""
    parts = tuple(text.split("."))
    if len(parts) < 2 or not all(parts):
        fail(f"{text!r} names no table; write NAMESPACE.NAME", code=EXIT_USAGE)
    return parts


def compacting_of(
    to: Format, path: str, table: tuple[str, ...], every_minutes: float
) -> Compacting:
    """Return the compactions beside the job that keeps a table.

    Snapshots and versions stay. Of a Parquet table replaced files are deleted, since no reader of
    its list of files needs them.
    """
    from spark_global.kept.upkeep import Compacting

    def compact_once() -> str:
        match to:
            case Format.iceberg:
                from spark_global.iceberg.maintaining import compact_beside

                done = compact_beside(path, table, FILES_MIN, SMALL_MIB * MIB)
                return f"{path}: {done.files_before} files became {done.files_after}"
            case Format.delta:
                from spark_global.delta.maintaining import compact_table
                from spark_global.kept.folders import table_folder

                before, after = compact_table(str(table_folder(path)), SMALL_MIB * MIB)
                return f"{path}: {before} files became {after}"
            case Format.parquet:
                if not _has_folder(path, _SPARK_LOG):
                    return f"{path}: nothing to compact"
                problem, said = compact_folder(path, FILES_MIN, SMALL_MIB * MIB, KEEP_HOURS)
                if problem is not None:
                    raise RuntimeError(problem)
                return said

    return Compacting(compact_once, every_minutes)
