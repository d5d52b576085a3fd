"""`heliograph gaps`, `sql` and `demo`: the data of the aggregates.

Commands import what they need when they run, to keep start-up short.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from topology.cli.command_line import (
    EXIT_USAGE,
    Output,
    OutputOption,
    StateDirOption,
    Which,
    fail,
    find_deployment,
    print_json,
    require_extra,
)

if TYPE_CHECKING:
    from topology.deployment.deployment import Deployment

AggregateOption = Annotated[
    str | None, typer.Option("--aggregate", help="Aggregate cluster; default: the only one.")
]


def gaps(
    deployment: Which = None,
    output: OutputOption = Output.human,
    state_dir: StateDirOption = None,
) -> None:
    """List the source offsets that links did not copy, with the reason."""
    from topology.deployment.deployment import read_deployment
    from topology.mirror.gaps import GapsUnreadable, read_gaps
    from topology.problems import DeployError

    try:
        found = read_gaps(read_deployment(find_deployment(deployment, state_dir)))
    except DeployError as error:
        fail(str(error), error.details)
    except GapsUnreadable as error:
        fail(str(error))
    if output is Output.json:
        print_json({"gaps": found})
    else:
        from topology.cli.show import print_gaps

        print_gaps(found)


def sql(
    query: Annotated[str, typer.Argument(help="Spark SQL over the views global_<topic>.")],
    deployment: Which = None,
    aggregate: AggregateOption = None,
    limit: Annotated[
        int,
        typer.Option(
            "--limit", metavar="N", min=1, help="Rows to show; all of them are held in memory."
        ),
    ] = 10_000,
    output: OutputOption = Output.human,
    state_dir: StateDirOption = None,
) -> None:
    """Run Spark SQL over the global views of a running deployment.

    If the result has more rows than --limit, standard error says so; with -o json, `is_cut` and
    `rows_left_out_min` say so.
    """
    running, cluster = running_aggregate(deployment, aggregate, state_dir)
    require_extra("spark")
    from spark_global.sql import run_sql
    from topology.deployment.aggregate_view import aggregate_view

    view = aggregate_view(running, cluster)
    code = run_sql(query, aggregate=view, output=output.value, limit=limit)
    raise typer.Exit(code)


def running_aggregate(
    which: str | None, aggregate: str | None, state_dir: Path | None
) -> tuple[Deployment, str]:
    """Return a running deployment and the aggregate to read; end the command if there is none."""
    from topology.deployment.deployment import read_deployment
    from topology.problems import DeployError
    from topology.status.observe import current_status

    state = find_deployment(which, state_dir)
    try:
        running = read_deployment(state)
        status = current_status(state)
    except DeployError as error:
        fail(str(error), error.details)
    if status["state"] == "stopped":
        fail(f"deployment {running.name} is not running", ["start it with `heliograph up`"])
    cluster = _aggregate(running, aggregate)
    why_silent = next(each["reason"] for each in status["clusters"] if each["name"] == cluster)
    if why_silent is not None:
        fail(why_silent, ["see `heliograph status`"])
    return running, cluster


def _aggregate(deployment: Deployment, name: str | None) -> str:
    """Return the name of the cluster that the global views read."""
    targets = {link.target for link in deployment.links}
    names = [
        each.name
        for each in deployment.clusters
        if each.kind == "aggregate" or each.name in targets
    ]
    if name is not None:
        if name not in names:
            from topology.problems import unknown_name

            fail(f"{deployment.name}: {unknown_name('aggregate', name, names)}", code=EXIT_USAGE)
        return name
    if len(names) != 1:
        known = ", ".join(names) or "none"
        fail(f"name the --aggregate of {deployment.name}; there are: {known}", code=EXIT_USAGE)
    return names[0]


def demo(
    out: Annotated[
        Path, typer.Option("--out", help="Directory for the result tables, as Parquet.")
    ] = Path("heliograph-demo"),
    keep: Annotated[bool, typer.Option("--keep", help="Leave the deployment running.")] = False,
    topology: Annotated[
        Path | None,
        typer.Option(
            "--topology", help="Topology file; default: the quickstart.", show_default=False
        ),
    ] = None,
    output: OutputOption = Output.human,
    state_dir: StateDirOption = None,
) -> None:
    """Run the whole system on real input: the departures of 2013 from New York's airports."""
    require_extra("demo")
    require_extra("embedded")
    from topology.demo.run import run_demo
    from topology.file.load import shipped_topology

    code = run_demo(
        out=out,
        keep=keep,
        output=output.value,
        state_dir=state_dir,
        topology=topology or shipped_topology("quickstart"),
    )
    raise typer.Exit(code)
