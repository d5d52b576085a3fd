"""The options of queries that keep or serve a view."""

from __future__ import annotations

import enum
from typing import Annotated

import typer


class Format(enum.StrEnum):
    """The format of a table."""

    parquet = "parquet"
    iceberg = "iceberg"
    delta = "delta"


class UpsertBy(enum.StrEnum):
    """What a row of a table with the latest records is identified by."""

    key = "key"
    datacenter_key = "datacenter-key"


UpsertOption = Annotated[
    UpsertBy | None,
    typer.Option("--upsert", help="Iceberg: keep the latest record of each key only."),
]
BucketsOption = Annotated[
    int, typer.Option("--buckets", min=1, help="Files of a new table with --upsert.")
]
TombstoneOption = Annotated[
    float,
    typer.Option(
        "--tombstone-hours", min=0, help="Hours that --upsert remembers a deleted key at least."
    ),
]
TableOption = Annotated[
    str | None,
    typer.Option(
        "--table", metavar="NAMESPACE.NAME", help="Iceberg table; default: AGGREGATE.VIEW."
    ),
]
CheckpointOption = Annotated[
    str | None,
    typer.Option(
        "--checkpoint",
        metavar="DIR",
        help="Iceberg: directory for the state of a question; default: in CATALOG.",
    ),
]

SqlOption = Annotated[
    str | None,
    typer.Option(
        "--sql",
        metavar="QUERY",
        help="The rows of SQL over stream_<view>; VIEW is only a name for them.",
    ),
]

TriggerOption = Annotated[
    float, typer.Option("--trigger", min=0, help="Seconds between two batches.")
]
OnceOption = Annotated[
    bool, typer.Option("--once", help="Stop when all that is there now is written.")
]
LateOption = Annotated[
    int, typer.Option("--late", min=0, help="Seconds that a window waits for late records.")
]
RecordsMaxOption = Annotated[
    int | None, typer.Option("--records-max", min=1, help="Most records of one batch.")
]
OpenRecordsMaxOption = Annotated[
    int,
    typer.Option(
        "--open-records-max",
        min=1,
        help="Most records that wait for datacenters, in questions of closed windows.",
    ),
]
CompactOption = Annotated[
    float,
    typer.Option(
        "--compact-every",
        metavar="MINUTES",
        min=0,
        help="Minutes between compactions of small files beside the job; 0: never.",
    ),
]
GroupOption = Annotated[
    str | None, typer.Option("--group", help="Consumer group that lag tools see.")
]
