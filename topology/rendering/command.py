"""`heliograph render`: write files that run a topology under another supervisor.

Commands import what they need when they run, to keep start-up short.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from topology.cli.command_line import (
    Output,
    OutputOption,
    TopologyFile,
    complain,
    fail,
    load_file,
    print_json,
)

if TYPE_CHECKING:
    from topology.deployment.deployment import Deployment

render_app = typer.Typer(
    help="Write files that run a topology under another supervisor.", no_args_is_help=True
)

DEFAULT_PYTHON: Final = "/opt/heliograph/bin/python"

DirectoryOption = Annotated[
    Path,
    typer.Option("--directory", "-d", help="Directory to write into; created if absent."),
]


@render_app.command()
def systemd(
    file: TopologyFile,
    directory: DirectoryOption = Path("systemd"),
    python: Annotated[
        str, typer.Option("--python", help="Interpreter on the hosts, with heliograph installed.")
    ] = DEFAULT_PYTHON,
    output: OutputOption = Output.human,
) -> None:
    """Write units of systemd, a tree of files for each host to copy to its root.

    Relative names of certificates and secrets start at /etc/heliograph/NAME on the hosts.
    """
    from topology.deployment.render import render
    from topology.deployment.state_dir import StateDir
    from topology.rendering.systemd import state_directory, systemd_files, topology_file

    topology = load_file(file)
    state = StateDir(state_directory(topology.name))
    deployment = render(topology, state, topology_file=topology_file(topology.name))
    _write(directory, systemd_files(deployment, python), deployment, output)


def _write(directory: Path, files: dict[str, str], deployment: Deployment, output: Output) -> None:
    """Write the files, and say which secrets the hosts need. Ends the command if it cannot."""
    from topology.rendering.processes import secret_files, secret_variables

    try:
        for name, text in sorted(files.items()):
            path = directory / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    except OSError as error:
        fail(f"cannot write {error.filename}: {error.strerror}")
    variables, files_needed = secret_variables(deployment), secret_files(deployment)
    written = [str(directory / name) for name in sorted(files)]
    if output is Output.json:
        secrets = {"environment": variables, "secret_files": files_needed}
        print_json({"files": written, **secrets})
        return
    typer.echo("\n".join(written))
    for what, names in (("environment variables", variables), ("files", files_needed)):
        if names:
            complain([f"secrets are read from {what}: {', '.join(names)}"])
