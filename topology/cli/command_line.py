"""What all subcommands share: options, exit codes, finding a deployment, errors.

Functions import what they need when they run, to keep start-up short.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, NoReturn, TypeVar

import typer

from topology.cli.completion import deployment_names

if TYPE_CHECKING:
    from local_cluster.client.auth.security import ClientSecurity
    from topology.deployment.deployment import Deployment
    from topology.deployment.state_dir import StateDir
    from topology.model import Topology

Loaded = TypeVar("Loaded")

EXIT_ERROR = 1
EXIT_USAGE = 2
EXIT_CHANGES = 3
EXIT_UNHEALTHY = 4
EXIT_CONFLICT = 5


class Output(enum.StrEnum):
    """The format of standard output."""

    human = "human"
    json = "json"


_DEPLOYMENT_HELP: Final = (
    "Name of the deployment, or its topology file; default: the only one there is."
)

TopologyFile = Annotated[Path, typer.Argument(metavar="FILE", help="Topology file.")]
Which = Annotated[
    str | None,
    typer.Argument(
        metavar="[DEPLOYMENT]",
        help=_DEPLOYMENT_HELP,
        autocompletion=deployment_names,
        show_default=False,
    ),
]
DeploymentOption = Annotated[
    str | None,
    typer.Option(
        "--deployment",
        help=_DEPLOYMENT_HELP,
        show_default=False,
        autocompletion=deployment_names,
    ),
]
OutputOption = Annotated[Output, typer.Option("--output", "-o", help="Format of the output.")]
StateDirOption = Annotated[
    Path | None,
    typer.Option(
        "--state-dir",
        help="State directory of the deployment; default: named after the topology, under the"
        " user's state directory.",
        show_default=False,
    ),
]


HostOption = Annotated[
    str | None,
    typer.Option(
        "--host",
        metavar="NAME",
        help="Host of the file that this machine is; default: by its addresses.",
        show_default=False,
    ),
]
DatacenterOption = Annotated[
    str | None,
    typer.Option(
        "--datacenter",
        metavar="NAME",
        help="Run everything of a datacenter on this machine, and nothing else.",
        show_default=False,
    ),
]


def load_file(file: Path) -> Topology:
    """Return the topology of a file; end the command if the file is invalid."""
    from topology.file.load import load_topology

    return _loaded(load_topology, file)


def load_security_file(file: Path) -> ClientSecurity:
    """Return the `security` settings that a file holds; end the command if it is invalid."""
    from topology.file.load import load_security

    return _loaded(load_security, file)


def _loaded(load: Callable[[Path], Loaded], file: Path) -> Loaded:
    from topology.problems import InvalidTopology

    try:
        return load(file)
    except InvalidTopology as error:
        complain(error.lines())
        raise typer.Exit(EXIT_USAGE) from error
    except OSError as error:
        fail(f"cannot read {file}: {error.strerror}", code=EXIT_USAGE)


def render_file(
    file: Path, state_dir: Path | None, host: str | None = None, datacenter: str | None = None
) -> tuple[Deployment, StateDir]:
    """Return this host's part of the deployment of a file; end the command if that is invalid."""
    if host is not None and datacenter is not None:
        fail("either --host or --datacenter, not both", code=EXIT_USAGE)
    topology = load_file(file)
    from dataclasses import replace

    from topology.deployment.deployment import Part
    from topology.deployment.render import render
    from topology.deployment.state_dir import StateDir
    from topology.operate.own_part import check_part, own_part
    from topology.problems import DeployError
    from topology.shared_file.canonical import canonical_text

    told = host if host is not None else datacenter
    part = Part(host=host, datacenter=datacenter) if told is not None else None
    state = (
        StateDir(state_dir)
        if state_dir is not None
        else StateDir.for_name(topology.name, part=told)
    )
    try:
        deployment = own_part(render(topology, state, topology_file=file), part)
        check_part(deployment, state)
    except DeployError as error:
        fail(str(error), error.details)
    return replace(deployment, file_text=canonical_text(topology)), state


def require_extra(extra: str) -> None:
    """End the command if an extra of the distribution is not installed."""
    from topology.version import is_installed

    if not is_installed(extra):
        fail(f"this needs more packages: pip install 'heliograph[{extra}]'")


def find_deployment(which: str | None, state_dir: Path | None) -> StateDir:
    """Return the state directory of the named deployment, or of the only one."""
    from topology.deployment.state_dir import PART_SIGN, StateDir, default_state_root

    if state_dir is not None:
        return StateDir(state_dir)
    root = default_state_root()
    known = sorted(path.parent.name for path in root.glob("*/deployment.json"))
    if which is None:
        if len(known) == 1:
            return StateDir(root / known[0])
        names = ", ".join(known)
        fail(
            f"name the deployment; there are: {names}" if known else "nothing is deployed",
            code=EXIT_USAGE if known else EXIT_ERROR,
        )
    name = load_file(Path(which)).name if which not in known and Path(which).is_file() else which
    parts = [each for each in known if each.startswith(f"{name}{PART_SIGN}")]
    if name not in known and len(parts) == 1:
        return StateDir(root / parts[0])
    if name not in known and parts:
        fail(f"name a part of {name}; there are: {', '.join(parts)}", code=EXIT_USAGE)
    if name not in known:
        from topology.problems import nearest_name

        near = nearest_name(name, known)
        hint = f"; did you mean {near!r}?" if near else ""
        fail(f"nothing is deployed as {name!r}{hint}")
    return StateDir(root / name)


def print_json(document: Any) -> None:
    typer.echo(json.dumps(document, indent=2))


def complain(lines: list[str]) -> None:
    for line in lines:
        typer.echo(line, err=True)


def fail(message: str, details: Sequence[str] = (), *, code: int = EXIT_ERROR) -> NoReturn:
    complain([f"heliograph: {message}", *details])
    raise typer.Exit(code)
