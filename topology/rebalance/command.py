"""`heliograph rebalance`: its options, output and exit codes.

The command imports what it needs when it runs, to keep start-up short.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from topology.cli.command_line import (
    EXIT_USAGE,
    DeploymentOption,
    Output,
    OutputOption,
    StateDirOption,
    fail,
    find_deployment,
    load_security_file,
    print_json,
)

if TYPE_CHECKING:
    from topology.deployment.deployment import ClusterView


def rebalance(
    cluster: Annotated[
        str | None,
        typer.Argument(
            metavar="[CLUSTER]",
            help="Name of the cluster; default: the only one there is.",
            show_default=False,
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would move.")] = False,
    drain: Annotated[
        list[int] | None,
        typer.Option(
            "--drain",
            metavar="BROKER_ID",
            help="Only move every replica away from this broker; may be repeated.",
            show_default=False,
        ),
    ] = None,
    throttle: Annotated[
        int | None,
        typer.Option(
            "--throttle",
            metavar="BYTES",
            min=1,
            help="Most bytes per second that a broker sends, and receives, for the moves.",
            show_default=False,
        ),
    ] = None,
    deployment: DeploymentOption = None,
    bootstrap: Annotated[
        str | None,
        typer.Option(
            "--bootstrap",
            metavar="HOST:PORT",
            help="Brokers of a cluster that is in no deployment.",
            show_default=False,
        ),
    ] = None,
    security: Annotated[
        Path | None,
        typer.Option(
            "--security",
            metavar="FILE",
            help="Security settings for --bootstrap, if it needs any: a file with the keys of"
            " `security` in a topology.",
            show_default=False,
        ),
    ] = None,
    output: OutputOption = Output.human,
    state_dir: StateDirOption = None,
) -> None:
    """Spread replicas over the brokers, or move them away from brokers that leave.

    The command may be interrupted at any time. Running reassignments continue, and the same command
    moves the rest.
    """
    from local_cluster.client.auth.security import PLAINTEXT
    from topology.problems import DeployError
    from topology.rebalance.run import Rebalance
    from topology.rebalance.run import rebalance as move_replicas
    from topology.rebalance.show import RebalanceProgress, print_rebalance

    human = output is Output.human
    progress = RebalanceProgress(enabled=human)
    if bootstrap is not None:
        client_security = load_security_file(security) if security else PLAINTEXT
    elif security is not None:
        fail("--security goes with --bootstrap; a deployment has its own", code=EXIT_USAGE)
    else:
        found = _cluster(cluster, deployment, state_dir)
        bootstrap, client_security = found.bootstrap, found.security
    asked = Rebalance(
        bootstrap=bootstrap,
        security=client_security,
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
        hint = "; running reassignments continue, and the same command moves the rest"
        fail("interrupted" + ("" if dry_run else hint))
    if not human:
        print_json(document)


def _cluster(cluster: str | None, deployment: str | None, state_dir: Path | None) -> ClusterView:
    """Return the named cluster of a deployment, or its only cluster."""
    from topology.deployment.deployment import read_deployment
    from topology.problems import DeployError, unknown_name

    try:
        running = read_deployment(find_deployment(deployment, state_dir))
    except DeployError as error:
        fail(str(error), error.details)
    names = [each.name for each in running.clusters]
    name = names[0] if cluster is None and len(names) == 1 else cluster
    if name not in names:
        if name is None:
            known = ", ".join(names)
            fail(f"name the cluster of {running.name}; there are: {known}", code=EXIT_USAGE)
        fail(f"{running.name}: {unknown_name('cluster', name, names)}", code=EXIT_USAGE)
    return running.cluster(name)
