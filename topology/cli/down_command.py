"""`heliograph down`: stops a deployment here, on another host, or on all.

The command imports what it needs when it runs, to keep start-up short.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from topology.cli.command_line import (
    EXIT_ERROR,
    EXIT_USAGE,
    Output,
    OutputOption,
    StateDirOption,
    Which,
    fail,
    find_deployment,
    print_json,
)

if TYPE_CHECKING:
    from topology.deployment.state_dir import StateDir


def down(
    deployment: Which = None,
    output: OutputOption = Output.human,
    state_dir: StateDirOption = None,
    purge: Annotated[bool, typer.Option("--purge", help="Delete its data too.")] = False,
    other_host: Annotated[
        str | None,
        typer.Option(
            "--other-host",
            metavar="NAME",
            help="Stop what runs on that host of the file, and nothing here.",
            show_default=False,
        ),
    ] = None,
    all_hosts: Annotated[
        bool,
        typer.Option("--all-hosts", help="Stop it on every host that answers, and here."),
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Do not ask before another host stops.")
    ] = False,
) -> None:
    """Stop everything that this deployment started on this host, and nothing else.

    With --all-hosts, exits with 6 if another host does not answer, or does not stop.
    """
    from topology.operate.down import down as take_down
    from topology.problems import DeployError

    state = find_deployment(deployment, state_dir)
    if other_host is not None or all_hosts:
        if other_host is not None and all_hosts:
            fail("either --other-host or --all-hosts, not both", code=EXIT_USAGE)
        if purge:
            fail(
                "--purge deletes data of this host only, so not with --other-host or --all-hosts",
                code=EXIT_USAGE,
            )
        if other_host is not None:
            _stop_other_host(state, other_host, output, yes=yes)
        else:
            _stop_all_hosts(state, output, yes=yes)
        return
    try:
        stopped = take_down(state, purge=purge)
    except DeployError as error:
        fail(str(error), error.details)
    if output is Output.json:
        print_json({"stopped": stopped, "purged": purge, "state_dir": str(state.path)})
        return
    typer.echo(f"stopped {', '.join(stopped)}" if stopped else "nothing was running")
    typer.echo(f"deleted {state.path}" if purge else f"data is kept in {state.path}")


def _stop_other_host(state: StateDir, host: str, output: Output, *, yes: bool) -> None:
    """Stop what runs on another host, after consent."""
    from topology.admin.carry_out import confirm
    from topology.deployment.deployment import read_deployment
    from topology.hosts.stop import running_on, stop_host
    from topology.problems import DeployError

    try:
        deployment = read_deployment(state)
        running = running_on(deployment, host)
        if not yes:
            confirm([f"stop {label}" for label in running], f"stops {deployment.name} on {host}")
        stop_host(deployment, host)
    except DeployError as error:
        fail(str(error), error.details)
    if output is Output.json:
        print_json({"host": host, "stopped": running})
        return
    typer.echo(
        f"{host}: stopped {', '.join(running) or 'its supervisor; nothing else was running'}"
    )


def _stop_all_hosts(state: StateDir, output: Output, *, yes: bool) -> None:
    """Stop what runs on every host, after consent."""
    from topology.admin.carry_out import confirm
    from topology.deployment.deployment import read_deployment
    from topology.hosts.document import ask_other_hosts
    from topology.hosts.stop_all import running_there, stop_all
    from topology.operate.down import down as take_down
    from topology.problems import DeployError
    from topology.status.exit_codes import HOSTS

    try:
        deployment = read_deployment(state)
    except DeployError as error:
        fail(str(error), error.details)
    answers = ask_other_hosts(deployment)
    if not answers:
        fail("no other host takes orders: it needs `supervisors` in the topology", code=EXIT_USAGE)
    if not yes:
        lines = [f"stop {each.label}" for each in deployment.daemons]
        for host, answer in answers.items():
            lines += [f"stop {label} on {host}" for label in running_there(host, answer)]
            if answer.state != "answers":
                lines.append(f"{host} does not answer: {answer.state}: {answer.reason}")
        confirm(lines, f"stops {deployment.name} on all hosts")
    found = stop_all(deployment, answers, lambda: take_down(state))
    if output is Output.json:
        print_json({"hosts": [each.as_json() for each in found]})
    else:
        for each in found:
            what = f"stopped {', '.join(each.stopped)}" if each.stopped else "nothing was running"
            typer.echo(f"{each.host}: {what if each.reason is None else each.reason}")
    failed = [each for each in found if each.reason is not None]
    if failed:
        raise typer.Exit(EXIT_ERROR if any(each.is_here for each in failed) else HOSTS)
