"""`heliograph plan`, `up` and `status`: the life of a deployment.

Commands import what they need when they run, to keep start-up short.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from topology.cli.command_line import (
    EXIT_CHANGES,
    EXIT_CONFLICT,
    EXIT_ERROR,
    EXIT_UNHEALTHY,
    DatacenterOption,
    HostOption,
    Output,
    OutputOption,
    StateDirOption,
    TopologyFile,
    Which,
    fail,
    find_deployment,
    print_json,
    render_file,
)

if TYPE_CHECKING:
    from topology.deployment.deployment import Deployment
    from topology.deployment.plan import Step
    from topology.deployment.state_dir import StateDir
    from topology.hosts.fitness import HostFacts
    from topology.operate.up import Up
    from topology.problems import DeployError
    from topology.shared_file.agreement import FileState

FOREGROUND_POLL_S = 1.0
TimeoutOption = Annotated[
    float,
    typer.Option(
        "--timeout",
        metavar="SECONDS",
        min=1,
        help="How long to wait for everything, and before that for each broker of a rolling"
        " restart.",
    ),
]
ReplaceOption = Annotated[
    int | None,
    typer.Option(
        "--replace-generation",
        metavar="NUMBER",
        min=1,
        help="The file replaces this generation of the topology, which another host has written.",
        show_default=False,
    ),
]


def plan(
    file: TopologyFile,
    output: OutputOption = Output.human,
    state_dir: StateDirOption = None,
    host: HostOption = None,
    datacenter: DatacenterOption = None,
    exit_code: Annotated[
        bool,
        typer.Option(
            "--exit-code",
            help=f"Exit with {EXIT_CHANGES} if there are changes, with {EXIT_ERROR} if `up` would"
            " refuse them.",
        ),
    ] = False,
) -> None:
    """Show what `up` would do, here and on hosts that `supervisors` of the file has."""
    from topology.hosts.document import ask_other_hosts, plan_of_hosts
    from topology.hosts.own_host import host_facts
    from topology.hosts.refusals import ask_checks
    from topology.hosts.rights_elsewhere import planned_elsewhere
    from topology.hosts.show import plan_lines, refusal_lines
    from topology.operate.preflight import plan_refusals, plan_rights, plan_steps
    from topology.problems import DeployError
    from topology.shared_file.agreement import file_state

    deployment, state = render_file(file, state_dir, host, datacenter)
    try:
        shared = file_state(deployment, state)
        steps = plan_steps(deployment, state)
        rights = plan_rights(deployment, state)
        answers = ask_other_hosts(deployment)
        facts = host_facts(deployment, steps, answers)
        refusals = plan_refusals(deployment, state, steps, facts)
        checks = ask_checks(deployment, answers) if answers else {}
        hosts = plan_of_hosts(deployment, state, answers, shared, checks)
        elsewhere = planned_elsewhere(deployment, answers) if answers else []
        warnings = _warnings(deployment, state, steps, facts)
    except DeployError as error:
        fail(str(error), error.details)
    refused = [{"reason": str(each), "details": [*each.details]} for each in refusals]
    if output is Output.json:
        document: dict[str, Any] = {
            "name": deployment.name,
            "steps": [step.as_json() for step in steps],
            "rights": [each.as_json() for each in rights],
            "refusals": refused,
            "warnings": warnings,
        }
        if shared is not None:
            document["file"] = shared.as_json()
        if hosts:
            document["hosts"] = hosts
            document["rights_elsewhere"] = [each.as_json() for each in elsewhere]
        left = [{"key": each.key, "host": each.host} for each in deployment.elsewhere]
        print_json({**document, "elsewhere": left} if left else document)
    else:
        _print_steps(deployment.name, steps)
        _print_lines(line for each in rights for line in each.lines())
        _print_lines(refusal_lines(refused))
        _print_lines(plan_lines(hosts) if hosts else ())
        _print_lines(f"other hosts: {line}" for each in elsewhere for line in each.lines())
        _print_lines(f"note: {each}" for each in warnings)
        for left_alone in () if hosts else deployment.elsewhere:
            typer.echo(f"left alone: {left_alone.label}, which belongs to {left_alone.host}")
        if shared is not None:
            _print_file(shared.as_json())
    if exit_code and refusals:
        raise typer.Exit(EXIT_ERROR)
    if exit_code and (steps or any(each.changes for each in rights)):
        raise typer.Exit(EXIT_CHANGES)


def _warnings(
    deployment: Deployment, state: StateDir, steps: list[Step], facts: HostFacts
) -> list[str]:
    """Return what an operator should know of this host before anything starts."""
    from topology.hosts.fitness import host_warnings
    from topology.hosts.own_host import missing_secrets
    from topology.operate.preflight import login_notes

    warnings = [*host_warnings(facts), *login_notes(deployment)]
    if not state.is_locked():  # else the processes have the environment of the supervisor
        warnings += missing_secrets(deployment, steps, os.environ)
    return warnings


def up(
    file: TopologyFile,
    output: OutputOption = Output.human,
    state_dir: StateDirOption = None,
    host: HostOption = None,
    datacenter: DatacenterOption = None,
    foreground: Annotated[
        bool, typer.Option("--foreground", help="Do not return; Ctrl-C takes the deployment down.")
    ] = False,
    timeout_s: TimeoutOption = 120.0,
    abandon_replicas: Annotated[
        bool,
        typer.Option(
            "--abandon-replicas",
            help="Continue although removed brokers or log directories hold replicas.",
        ),
    ] = False,
    replace_generation: ReplaceOption = None,
) -> None:
    """Start a deployment, repair it, or apply an edited file.

    A daemon that runs as the file says is not touched. Brokers of one cluster restart one after the
    other, each when all replicas are in sync. What belongs to other hosts is left alone.

    Exits with 0 when everything of this host runs and responds, or waits only for hosts that were
    not started yet. Exits with 1 when something does not run. Exits with 4 when everything was
    started but links wait for an operator, or another host cannot be reached. Exits with 5 when
    another host has edited the file too.
    """
    from topology.cli.show import UpProgress
    from topology.operate.up import up as bring_up
    from topology.problems import DeployError
    from topology.shared_file.acting import FileAgreement

    rendered, state = render_file(file, state_dir, host, datacenter)
    agreement = FileAgreement(rendered, state, replace_generation)
    if foreground:
        signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        deployment = agreement.before()
        with UpProgress(enabled=output is Output.human) as progress:
            result = bring_up(
                deployment,
                state,
                timeout_s=timeout_s,
                abandon_replicas=abandon_replicas,
                keep_rights=not agreement.may_delete_rights,
                on_plan=lambda steps: progress.plan(deployment.name, steps),
                on_checked=agreement.claim,
                on_status=progress.status,
                on_roll=progress.roll,
                on_rights=progress.rights,
            )
        agreement.after()
    except DeployError as error:
        _refuse(error)
    except KeyboardInterrupt:
        if foreground:
            _take_down(state)
            return
        fail("interrupted; what was started continues, and `heliograph down` stops it")
    _print_up(output, result, agreement.found)
    if foreground:
        _stay(state)
    elif not result.is_well:
        raise typer.Exit(EXIT_UNHEALTHY)


def _refuse(error: DeployError) -> NoReturn:
    from topology.shared_file.agreement import FileConflict

    code = EXIT_CONFLICT if isinstance(error, FileConflict) else EXIT_ERROR
    fail(str(error), error.details, code=code)


def _print_up(output: Output, result: Up, shared: FileState | None) -> None:
    """Print where clients connect, and how the file stands to that of other hosts."""
    from topology.cli.show import print_bootstraps

    file = None if shared is None else shared.as_json()
    if output is Output.json:
        print_json(result.as_json() if file is None else {**result.as_json(), "file": file})
        return
    print_bootstraps(result.status)
    _print_lines(f"note: {each}" for each in result.warnings)
    if file is not None:
        _print_file(file, with_diff=False)


def status(
    deployment: Which = None,
    output: OutputOption = Output.human,
    state_dir: StateDirOption = None,
    exit_code: Annotated[
        bool,
        typer.Option(
            "--exit-code",
            help="Also exit with 6 if another host is not well, with 7 if links have gaps, with 8"
            " if an operator has paused or throttled a part of one.",
        ),
    ] = False,
) -> None:
    """Show clusters, brokers and links of a deployment, and every problem with its reason.

    Exits with 0 when everything runs and responds and every link does its work, else with 4.
    """
    from topology.problems import DeployError
    from topology.status.exit_codes import status_exit_code
    from topology.status.observe import current_status

    try:
        document = current_status(find_deployment(deployment, state_dir))
    except DeployError as error:
        fail(str(error), error.details)
    if output is Output.json:
        print_json(document)
    else:
        from topology.cli.show import print_status

        print_status(document)
    raise typer.Exit(status_exit_code(document, is_detailed=exit_code))


def _stay(state: StateDir) -> None:
    """Wait for Ctrl-C or SIGTERM, then take the deployment down; fail if it stops otherwise."""
    typer.echo("running; Ctrl-C stops it", err=True)
    try:
        while state.is_locked():
            time.sleep(FOREGROUND_POLL_S)
    except KeyboardInterrupt:
        _take_down(state)
        return
    fail("the deployment was stopped, or its supervisor ended; see `heliograph status`")


def _take_down(state: StateDir) -> None:
    from topology.operate.down import down
    from topology.problems import DeployError

    try:
        down(state)
    except DeployError as error:
        fail(str(error), error.details)


def _print_file(document: dict[str, Any], *, with_diff: bool = True) -> None:
    from topology.shared_file.show import file_lines

    _print_lines(file_lines(document, with_diff=with_diff))


def _print_lines(lines: Iterable[str]) -> None:
    for line in lines:
        typer.echo(line)


def _print_steps(name: str, steps: list[Step]) -> None:
    if not steps:
        typer.echo(f"{name}: nothing to do")
    for step in steps:
        typer.echo(step.sentence())
