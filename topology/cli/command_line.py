"""What the commands share: options, exit codes, finding a deployment, failing with words.

Import time matters here: what a function needs is imported when it runs.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, TypeVar

import typer

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


class Output(enum.StrEnum):
    """Form of what is printed on standard output."""

    human = "human"
    json = "json"


TopologyFile = Annotated[Path, typer.Argument(metavar="FILE", help="Topology file.")]
Which = Annotated[
    str | None,
    typer.Argument(
        metavar="[DEPLOYMENT]",
        help="Name of the deployment, or its topology file; default: the only one there is.",
        show_default=False,
    ),
]
OutputOption = Annotated[Output, typer.Option("--output", "-o", help="Form of the output.")]
StateDirOption = Annotated[
    Path | None,
    typer.Option(
        "--state-dir",
        help="Directory of the deployment's state; default: by topology name, under the user's"
        " state directory.",
        show_default=False,
    ),
]


def load_file(file: Path) -> Topology:
    """The topology of a file; ends the command where the file is not valid."""
    from topology.file.load import load_topology

    return _loaded(load_topology, file)


def load_security_file(file: Path) -> ClientSecurity:
    """What a file says as a topology does under `security`; ends the command likewise."""
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


def render_file(file: Path, state_dir: Path | None) -> tuple[Deployment, StateDir]:
    """The deployment of a file; ends the command where the file is not valid."""
    topology = load_file(file)
    from topology.deployment.render import render
    from topology.deployment.state_dir import StateDir
    from topology.deployment.zookeeper import ZooKeeperUnavailable

    state = StateDir(state_dir) if state_dir is not None else StateDir.for_name(topology.name)
    try:
        return render(topology, state, topology_file=file), state
    except ZooKeeperUnavailable as error:
        fail(str(error))


def find_deployment(which: str | None, state_dir: Path | None) -> StateDir:
    """The state directory of a deployment that is named, or is the only one."""
    from topology.deployment.state_dir import StateDir, default_state_root

    if state_dir is not None:
        return StateDir(state_dir)
    root = default_state_root()
    known = sorted(path.parent.name for path in root.glob("*/deployment.json"))
    if which is None:
        if len(known) == 1:
            return StateDir(root / known[0])
        names = ", ".join(known)
        fail(
            f"say which deployment; there are: {names}" if known else "nothing is deployed",
            code=EXIT_USAGE if known else EXIT_ERROR,
        )
    name = load_file(Path(which)).name if which not in known and Path(which).is_file() else which
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
