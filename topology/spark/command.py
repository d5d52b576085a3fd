"""`heliograph spark ...`: its options, output and exit codes.

Commands import what they need when they run, to keep start-up short.
"""

from __future__ import annotations

import asyncio
import enum
from pathlib import Path
from typing import Annotated

import typer

from topology.cli.command_line import (
    EXIT_USAGE,
    StateDirOption,
    Which,
    fail,
    require_extra,
)
from topology.cli.data_commands import AggregateOption, running_aggregate
from topology.problems import unknown_name

spark_app = typer.Typer(help="Global views as tables that others read.", no_args_is_help=True)


class Format(enum.StrEnum):
    """The format of the files of a table."""

    parquet = "parquet"


@spark_app.command()
def materialize(
    view: Annotated[
        str, typer.Argument(help="global_<topic>, or a question such as global_<topic>_windows.")
    ],
    path: Annotated[str, typer.Argument(help="Directory of the table, or a URI that Spark knows.")],
    deployment: Which = None,
    to: Annotated[Format, typer.Option("--to", help="Format of the files.")] = Format.parquet,
    aggregate: AggregateOption = None,
    trigger_seconds: Annotated[
        float, typer.Option("--trigger", min=0, help="Seconds between two batches.")
    ] = 10.0,
    once: Annotated[
        bool, typer.Option("--once", help="Stop when all that is there now is written.")
    ] = False,
    late_seconds: Annotated[
        int, typer.Option("--late", min=0, help="Seconds that a window waits for late records.")
    ] = 600,
    records_max: Annotated[
        int | None, typer.Option("--records-max", min=1, help="Most records of one batch.")
    ] = None,
    group: Annotated[
        str | None, typer.Option("--group", help="Consumer group that lag tools see.")
    ] = None,
    master: Annotated[str, typer.Option("--master", help="Spark master.")] = "local[*]",
    state_dir: StateDirOption = None,
) -> None:
    """Keep a view as a table, exactly once, until Ctrl-C. The same command goes on after a stop.

    The rows lie in PATH/datacenter=D/hour=YYYY-MM-DD-HH, the checkpoint in PATH/_checkpoint.
    """
    running, cluster = running_aggregate(deployment, aggregate, state_dir)
    require_extra("spark")
    from spark_global.materialize import Materialization, run_materializing
    from topology.deployment.aggregate_view import aggregate_view

    assert to is Format.parquet, to
    wanted = Materialization(
        view=view,
        path=path,
        trigger_seconds=trigger_seconds,
        stops_at_end=once,
        late_seconds=late_seconds,
        records_max=records_max,
        group=group,
    )
    problem = run_materializing(aggregate_view(running, cluster), wanted, master=master)
    if problem is not None:
        fail(problem)


@spark_app.command("translate-checkpoint")
def translate_checkpoint(
    old: Annotated[Path, typer.Argument(metavar="CHECKPOINT", help="Checkpoint of the query.")],
    new: Annotated[Path, typer.Argument(metavar="NEW", help="Directory to create.")],
    to: Annotated[
        str, typer.Option("--to", help="Another aggregate, or the source of the query's topics.")
    ],
    deployment: Which = None,
    aggregate: AggregateOption = None,
    state_dir: StateDirOption = None,
) -> None:
    """Copy the checkpoint of a stopped query, for another cluster to go on from.

    The query reads no record twice there and leaves none out, or the command says why not. The
    checkpoint itself is not changed. Both lie on this machine.
    """
    running, cluster = running_aggregate(deployment, aggregate, state_dir)
    known = [each.name for each in running.clusters if each.name != cluster]
    if to not in known:
        fail(f"{running.name}: {unknown_name('cluster', to, known)}", code=EXIT_USAGE)
    require_extra("spark")
    from local_cluster.wire.errors import KafkaError
    from spark_global.addresses import ClusterAddress
    from spark_global.streaming.moving import move_checkpoint
    from spark_global.streaming.positions import CheckpointError

    here, there = (
        ClusterAddress(each.bootstrap, each.security)
        for each in (running.cluster(cluster), running.cluster(to))
    )
    is_source = any(link.source == to and link.target == cluster for link in running.links)
    moving = move_checkpoint(old, new, here=here, to=there, is_source=is_source)
    try:
        batches = asyncio.run(moving)
    except (CheckpointError, KafkaError, OSError) as error:
        fail(f"{old}: {error}")
    numbers = ", ".join(map(str, batches))
    typer.echo(f"{new}: positions of batch {numbers} are those of {to}")
