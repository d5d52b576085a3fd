"""The `heliograph` command: options in, words and exit codes out.

Exit codes: 0 all well, 1 it did not work, 2 wrong usage or an invalid topology file, 3 `plan
--exit-code` found changes, 4 `status` found something that does not run.

Import time matters here: what a command needs is imported when it runs.
"""

from __future__ import annotations

import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from topology.command_line import (
    EXIT_CHANGES,
    EXIT_ERROR,
    EXIT_UNHEALTHY,
    EXIT_USAGE,
    Output,
    OutputOption,
    StateDirOption,
    TopologyFile,
    Which,
    complain,
    fail,
    find_deployment,
    print_json,
    render_file,
)
from topology.mirror_commands import mirror_app

if TYPE_CHECKING:
    from topology.deployment import Deployment
    from topology.plan import Step
    from topology.state import StateDir

FOREGROUND_POLL_S = 1.0

app = typer.Typer(
    name="heliograph",
    help="Kafka-wire-compatible clusters for datacenters, mirrored exactly into aggregates.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


app.add_typer(mirror_app, name="mirror")


@app.command()
def validate(file: TopologyFile, output: OutputOption = Output.human) -> None:
    """Report every problem of a topology file."""
    from topology.load import load_topology
    from topology.problems import InvalidTopology

    try:
        topology = load_topology(file)
    except InvalidTopology as error:
        if output is Output.json:
            problems = [problem.as_json(error.file) for problem in error.problems]
            print_json({"file": str(file), "valid": False, "problems": problems})
        else:
            complain(error.lines())
        raise typer.Exit(EXIT_USAGE) from error
    except OSError as error:
        fail(f"cannot read {file}: {error.strerror}", code=EXIT_USAGE)
    if output is Output.json:
        print_json({"file": str(file), "valid": True, "problems": []})
    else:
        clusters, links = len(topology.clusters), len(topology.links)
        typer.echo(f"{file}: valid; {clusters} clusters, {links} links")


@app.command()
def schema() -> None:
    """Print the JSON Schema of the topology file, for editors."""
    from topology.schema import schema_text

    typer.echo(schema_text(), nl=False)


@app.command()
def plan(
    file: TopologyFile,
    output: OutputOption = Output.human,
    state_dir: StateDirOption = None,
    exit_code: Annotated[
        bool, typer.Option("--exit-code", help=f"Exit with {EXIT_CHANGES} if there are changes.")
    ] = False,
) -> None:
    """Show what `up` would do."""
    from topology.deploy import DeployError, plan_steps

    deployment, state = render_file(file, state_dir)
    try:
        steps = plan_steps(deployment, state)
    except DeployError as error:
        fail(str(error), error.details)
    if output is Output.json:
        print_json({"name": deployment.name, "steps": [step.as_json() for step in steps]})
    else:
        _print_steps(deployment.name, steps)
    if steps and exit_code:
        raise typer.Exit(EXIT_CHANGES)


@app.command()
def up(
    file: TopologyFile,
    output: OutputOption = Output.human,
    state_dir: StateDirOption = None,
    foreground: Annotated[
        bool, typer.Option("--foreground", help="Stay; Ctrl-C takes the deployment down.")
    ] = False,
    timeout_s: Annotated[
        float,
        typer.Option("--timeout", metavar="SECONDS", min=1, help="How long to wait for all of it."),
    ] = 120.0,
    abandon_replicas: Annotated[
        bool,
        typer.Option(
            "--abandon-replicas",
            help="Go on though brokers or log directories that leave hold replicas.",
        ),
    ] = False,
) -> None:
    """Start a deployment, repair it, or apply an edited file; what runs well is left alone."""
    from topology.deploy import DeployError
    from topology.deploy import up as bring_up
    from topology.show import UpProgress, print_bootstraps

    deployment, state = render_file(file, state_dir)
    if foreground:
        signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with UpProgress(enabled=output is Output.human) as progress:
            result = bring_up(
                deployment,
                state,
                timeout_s=timeout_s,
                abandon_replicas=abandon_replicas,
                on_plan=lambda steps: progress.plan(deployment.name, steps),
                on_status=progress.status,
            )
    except DeployError as error:
        fail(str(error), error.details)
    except KeyboardInterrupt:
        if foreground:
            _take_down(state)
            return
        fail("interrupted; what was started goes on, and `heliograph down` stops it")
    if output is Output.json:
        steps = [step.as_json() for step in result.steps]
        print_json({**result.status, "steps": steps})
    else:
        print_bootstraps(result.status)
    if foreground:
        _stay(state)


@app.command()
def status(
    deployment: Which = None,
    output: OutputOption = Output.human,
    state_dir: StateDirOption = None,
) -> None:
    """Show clusters, brokers and links of a deployment."""
    from topology.deploy import DeployError, current_status

    try:
        document = current_status(find_deployment(deployment, state_dir))
    except DeployError as error:
        fail(str(error), error.details)
    if output is Output.json:
        print_json(document)
    else:
        from topology.show import print_status

        print_status(document)
    if document["state"] != "running":
        raise typer.Exit(EXIT_UNHEALTHY)


@app.command()
def gaps(
    deployment: Which = None,
    output: OutputOption = Output.human,
    state_dir: StateDirOption = None,
) -> None:
    """List what links skipped: source offsets that were not copied, and why."""
    from topology.deploy import DeployError, read_deployment
    from topology.gaps import GapsUnreadable, read_gaps

    try:
        found = read_gaps(read_deployment(find_deployment(deployment, state_dir)))
    except DeployError as error:
        fail(str(error), error.details)
    except GapsUnreadable as error:
        fail(str(error))
    if output is Output.json:
        print_json({"gaps": found})
    else:
        from topology.show import print_gaps

        print_gaps(found)


@app.command()
def down(
    deployment: Which = None,
    output: OutputOption = Output.human,
    state_dir: StateDirOption = None,
    purge: Annotated[bool, typer.Option("--purge", help="Delete its data as well.")] = False,
) -> None:
    """Stop what this deployment started, and only that."""
    from topology.deploy import DeployError
    from topology.deploy import down as take_down

    state = find_deployment(deployment, state_dir)
    try:
        stopped = take_down(state, purge=purge)
    except DeployError as error:
        fail(str(error), error.details)
    if output is Output.json:
        print_json({"stopped": stopped, "purged": purge, "state_dir": str(state.path)})
        return
    typer.echo(f"stopped {', '.join(stopped)}" if stopped else "nothing was running")
    typer.echo(f"deleted {state.path}" if purge else f"data is kept in {state.path}")


@app.command()
def rebalance(
    cluster: Annotated[
        str | None,
        typer.Argument(
            metavar="[CLUSTER]", help="Default: the only one there is.", show_default=False
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would move.")] = False,
    drain: Annotated[
        list[int] | None,
        typer.Option(
            "--drain",
            metavar="BROKER_ID",
            help="Move everything away from this broker, and nothing else; may be repeated.",
            show_default=False,
        ),
    ] = None,
    throttle: Annotated[
        int | None,
        typer.Option(
            "--throttle",
            metavar="BYTES",
            min=1,
            help="Bytes per second that a broker sends, and takes, for this at most.",
            show_default=False,
        ),
    ] = None,
    deployment: Annotated[
        str | None,
        typer.Option(
            "--deployment", help="Name of the deployment, or its file; default: the only one."
        ),
    ] = None,
    bootstrap: Annotated[
        str | None,
        typer.Option(
            "--bootstrap",
            metavar="HOST:PORT",
            help="Brokers of the cluster, where it is in no deployment.",
            show_default=False,
        ),
    ] = None,
    output: OutputOption = Output.human,
    state_dir: StateDirOption = None,
) -> None:
    """Spread replicas over the brokers there are, or move them away from one that leaves.

    May be ended at any time: what moves goes on, and the same command goes on with the rest.
    """
    from topology.deploy import DeployError
    from topology.rebalance.command import Rebalance
    from topology.rebalance.command import rebalance as move_replicas
    from topology.rebalance.show import RebalanceProgress, print_rebalance

    human = output is Output.human
    progress = RebalanceProgress(enabled=human)
    asked = Rebalance(
        bootstrap=bootstrap or _bootstrap(cluster, deployment, state_dir),
        drained=frozenset(drain or ()),
        throttle=throttle,
        dry_run=dry_run,
    )
    try:
        document = move_replicas(
            asked,
            on_plan=print_rebalance if human else lambda document: None,
            on_progress=progress.show,
        )
    except DeployError as error:
        fail(str(error), error.details)
    except KeyboardInterrupt:
        fail("interrupted; what moves goes on, and the same command goes on with the rest")
    if not human:
        print_json(document)


def _bootstrap(cluster: str | None, deployment: str | None, state_dir: Path | None) -> str:
    """Where a cluster of a deployment is reached."""
    from topology.deploy import DeployError, read_deployment

    try:
        running = read_deployment(find_deployment(deployment, state_dir))
    except DeployError as error:
        fail(str(error), error.details)
    names = [each.name for each in running.clusters]
    name = names[0] if cluster is None and len(names) == 1 else cluster
    if name not in names:
        known = ", ".join(names)
        if name is None:
            fail(f"say which cluster of {running.name}; there are: {known}", code=EXIT_USAGE)
        fail(f"{name} is no cluster of {running.name}; there are: {known}", code=EXIT_USAGE)
    return running.cluster(name).bootstrap


@app.command()
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
    """Run the main job on real input: the departures of 2013 from New York's airports."""
    from topology.demo import run_demo
    from topology.shipped import shipped_topology

    code = run_demo(
        out=out,
        keep=keep,
        output=output.value,
        state_dir=state_dir,
        topology=topology or shipped_topology("quickstart"),
    )
    raise typer.Exit(code)


@app.command()
def sql(
    query: Annotated[str, typer.Argument(help="Spark SQL over the views global_<topic>.")],
    deployment: Which = None,
    aggregate: Annotated[
        str | None,
        typer.Option("--aggregate", help="Aggregate cluster; default: the only one."),
    ] = None,
    output: OutputOption = Output.human,
    state_dir: StateDirOption = None,
) -> None:
    """Run Spark SQL over the global views of a running deployment."""
    from topology.deploy import DeployError, current_status, read_deployment

    state = find_deployment(deployment, state_dir)
    try:
        running = read_deployment(state)
        state_now = current_status(state)["state"]
    except DeployError as error:
        fail(str(error), error.details)
    if state_now == "stopped":
        fail(f"deployment {running.name} is not running", ["start it with `heliograph up`"])
    cluster = _aggregate(running, aggregate)
    from spark_global.sql import run_sql
    from topology.aggregate_view import aggregate_view

    code = run_sql(query, aggregate=aggregate_view(running, cluster), output=output.value)
    raise typer.Exit(code)


def _aggregate(deployment: Deployment, name: str | None) -> str:
    """The cluster the global views are read from."""
    targets = {link.target for link in deployment.links}
    names = [
        each.name
        for each in deployment.clusters
        if each.kind == "aggregate" or each.name in targets
    ]
    if name is not None:
        if name not in names:
            known = ", ".join(names) or "none"
            fail(f"{name} is no aggregate of {deployment.name}; there is: {known}", code=EXIT_USAGE)
        return name
    if len(names) != 1:
        known = ", ".join(names) or "none"
        fail(f"say which --aggregate of {deployment.name}; there is: {known}", code=EXIT_USAGE)
    return names[0]


def _stay(state: StateDir) -> None:
    """Wait for Ctrl-C or SIGTERM, then take the deployment down; end if something else does."""
    typer.echo("running; Ctrl-C stops it", err=True)
    try:
        while state.is_locked():
            time.sleep(FOREGROUND_POLL_S)
    except KeyboardInterrupt:
        _take_down(state)
        return
    fail("the deployment was stopped, or its supervisor ended; see `heliograph status`")


def _take_down(state: StateDir) -> None:
    from topology.deploy import DeployError, down

    try:
        down(state)
    except DeployError as error:
        fail(str(error), error.details)


def _print_steps(name: str, steps: list[Step]) -> None:
    if not steps:
        typer.echo(f"{name}: nothing to do")
    for step in steps:
        typer.echo(step.sentence())


def main() -> None:
    """Entry point of the `heliograph` command."""
    try:
        app()
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        sys.exit(EXIT_ERROR)
