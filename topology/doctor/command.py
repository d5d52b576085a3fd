"""`heliograph doctor` and `support-bundle`: their options, output and exit codes.

Commands import what they need when they run, to keep start-up short.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from topology.admin.output import Format, FormatOption, emit, print_lines
from topology.cli.command_line import (
    EXIT_UNHEALTHY,
    EXIT_USAGE,
    StateDirOption,
    Which,
    fail,
    find_deployment,
)

if TYPE_CHECKING:
    from topology.deployment.deployment import Deployment
    from topology.deployment.state_dir import StateDir


def doctor(
    deployment: Which = None,
    output: FormatOption = Format.human,
    state_dir: StateDirOption = None,
) -> None:
    """Check a whole deployment: processes, clusters, disks, links, its file and this host.

    Exits with 4 if there is a fault; advice alone exits with 0.
    """
    from topology.doctor.checks import doctor_lines

    state, running, status = _observe(deployment, state_dir)
    document = _examine(state, running, status)
    emit(output, document, lambda shown: print_lines(doctor_lines(shown)))
    if not document["is_well"]:
        raise typer.Exit(EXIT_UNHEALTHY)


def support_bundle(
    deployment: Which = None,
    out: Annotated[
        Path, typer.Option("--out", help="The archive to write; it must not exist.")
    ] = Path("heliograph-support.tar.gz"),
    output: FormatOption = Format.human,
    state_dir: StateDirOption = None,
) -> None:
    """Pack states, settings and the ends of all logs into one archive, without secrets."""
    from topology.doctor.bundle import write_bundle
    from topology.doctor.collect import secret_values
    from topology.version import version_document

    if out.exists():
        fail(f"{out} exists; name another file with --out", code=EXIT_USAGE)
    state, running, status = _observe(deployment, state_dir)
    documents = {
        "versions": version_document(),
        "status": status,
        "doctor": _examine(state, running, status),
    }
    secrets = secret_values(running)
    try:
        names = write_bundle(out, running, state, documents, secrets)
    except OSError as error:
        fail(f"cannot write {out}: {error.strerror}")
    document = {"bundle": str(out), "bytes": out.stat().st_size, "files": names}

    def show(shown: dict[str, Any]) -> None:
        print_lines([f"wrote {shown['bundle']}: {len(names)} files, {shown['bytes']} bytes"])
        print_lines(["look through it before you pass it on; secrets are replaced by (hidden)"])

    emit(output, document, show)


def _observe(
    which: str | None, state_dir: Path | None
) -> tuple[StateDir, Deployment, dict[str, Any]]:
    from topology.deployment.deployment import read_deployment
    from topology.problems import DeployError
    from topology.status.observe import current_status

    try:
        state = find_deployment(which, state_dir)
        return state, read_deployment(state), current_status(state)
    except DeployError as error:
        fail(str(error), error.details)


def _examine(state: StateDir, running: Deployment, status: dict[str, Any]) -> dict[str, Any]:
    from topology.doctor.checks import doctor_document, examine
    from topology.doctor.collect import doctor_facts
    from topology.problems import DeployError

    try:
        facts = doctor_facts(running, state, status)
    except DeployError as error:
        fail(str(error), error.details)
    checked = {
        "processes": len(running.daemons),
        "clusters": len(running.clusters),
        "topics": sum(len(each.topics) for each in facts.clusters),
        "links": len(running.links),
    }
    return doctor_document(examine(facts), checked=checked)
