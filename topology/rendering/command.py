"""`heliograph render`: write files that run a topology under another supervisor.

Commands import what they need when they run, to keep start-up short.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

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
from topology.problems import DeployError, unknown_name

render_app = typer.Typer(
    help="Write files that run a topology under another supervisor.", no_args_is_help=True
)

DEFAULT_PYTHON: Final = "/opt/heliograph/bin/python"
DEFAULT_IMAGE: Final = "heliograph:latest"
DEFAULT_DOMAIN: Final = "cluster.local"
LOOPBACK: Final = "127.0.0.1"
"""A second constant, because the command must not load the model of the file."""

ImageOption = Annotated[str, typer.Option("--image", help="Image, built by the Containerfile.")]

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
    from topology.rendering.processes import secret_files, secret_variables
    from topology.rendering.systemd import state_directory, systemd_files, topology_file

    topology = load_file(file)
    state = StateDir(state_directory(topology.name))
    deployment = render(topology, state, topology_file=topology_file(topology.name))
    secrets = {
        "environment": secret_variables(deployment),
        "secret_files": secret_files(deployment),
    }
    _write_files(directory, systemd_files(deployment, python), output, secrets)


@render_app.command()
def compose(
    file: TopologyFile,
    directory: DirectoryOption = Path("compose"),
    image: ImageOption = DEFAULT_IMAGE,
    host: Annotated[
        str,
        typer.Option("--advertise", help="Host at which clients outside reach the brokers."),
    ] = LOOPBACK,
    output: OutputOption = Output.human,
) -> None:
    """Write a Compose file: one container for each process.

    Brokers listen for the machine at the ports of the topology file. Relative names of certificates
    and secrets start at the directory of the topology file, and user 10001 must be able to read
    them. Certificates must have the names of the containers, such as broker-NAME-1.
    """
    from topology.rendering.compose import compose_files

    topology = load_file(file)
    try:
        files = compose_files(topology, image=image, source=file, host=host)
    except DeployError as error:
        fail(str(error), error.details)
    _write_files(directory, files, output, {})


@render_app.command()
def kubernetes(
    file: TopologyFile,
    directory: DirectoryOption = Path("kubernetes"),
    image: ImageOption = DEFAULT_IMAGE,
    namespace: Annotated[str, typer.Option("--namespace", "-n", help="Namespace.")] = "heliograph",
    domains: Annotated[
        list[str] | None,
        typer.Option(
            "--domain",
            metavar="[DATACENTER=]DOMAIN",
            help="Cluster domain of each Kubernetes, or of one datacenter's. May be repeated.",
        ),
    ] = None,
    storage: Annotated[str, typer.Option("--storage", help="Size of each volume.")] = "10Gi",
    storage_class: Annotated[
        str | None, typer.Option("--storage-class", help="Class of each volume.")
    ] = None,
    output: OutputOption = Output.human,
) -> None:
    """Write manifests, a directory for each datacenter to `kubectl apply -k`.

    Certificates must have the names of the pods, such as *.broker-NAME.NAMESPACE.svc.cluster.local.
    """
    from topology.rendering.kubernetes import container_sets, kubernetes_files, secret_commands
    from topology.rendering.kubernetes_objects import Site

    topology = load_file(file)
    site = Site(
        deployment=topology.name,
        namespace=namespace,
        image=image,
        storage=storage,
        storage_class=storage_class,
    )
    known = {each.effective_datacenter for each in topology.clusters}
    of_datacenter: dict[str, str] = {}
    for text in domains or []:
        datacenter, _, domain = text.rpartition("=")
        if datacenter and datacenter not in known:
            fail(unknown_name("datacenter", datacenter, known))
        of_datacenter[datacenter] = domain
    default = of_datacenter.get("", DEFAULT_DOMAIN)
    try:
        sets = container_sets(topology, site, lambda each: of_datacenter.get(each, default))
    except DeployError as error:
        fail(str(error), error.details)
    secrets = {"commands": secret_commands(site, sets)}
    _write_files(directory, kubernetes_files(site, sets), output, secrets)


def _write_files(
    directory: Path, files: dict[str, str], output: Output, secrets: dict[str, list[str]]
) -> None:
    """Write the files, and say which secrets are needed. Ends the command if it cannot."""
    try:
        for name, text in sorted(files.items()):
            path = directory / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    except OSError as error:
        fail(f"cannot write {error.filename}: {error.strerror}")
    written = [str(directory / name) for name in sorted(files)]
    if output is Output.json:
        print_json({"files": written, **secrets})
        return
    typer.echo("\n".join(written))
    for what, names in secrets.items():
        if names:
            complain([f"{_SENTENCES[what]} {', '.join(names)}"])


_SENTENCES: Final = {
    "environment": "secrets are read from environment variables:",
    "secret_files": "secrets are read from files:",
    "commands": "create the secrets in each Kubernetes, beside the topology file:",
}
"""What is said about a list of secrets, by its key in JSON."""
