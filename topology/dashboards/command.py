"""`heliograph dashboards`: write what Grafana and Prometheus need for a deployment.

Commands import what they need when they run, to keep start-up short.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from topology.cli.command_line import (
    Output,
    OutputOption,
    StateDirOption,
    Which,
    fail,
    find_deployment,
    print_json,
)


def dashboards(
    deployment: Which = None,
    directory: Annotated[
        Path, typer.Option("--directory", "-d", help="Directory to write into; created if absent.")
    ] = Path("monitoring"),
    runbooks: Annotated[
        str | None,
        typer.Option(
            "--runbooks",
            help="Address of the folder of runbooks, for the links in alerts; default: the folder"
            " of this installation, if it has one.",
            show_default=False,
        ),
    ] = None,
    output: OutputOption = Output.human,
    state_dir: StateDirOption = None,
) -> None:
    """Write Grafana dashboards, Prometheus alert rules and scrape targets of a deployment.

    `prometheus.yml` in the directory names the other files. Targets with a free port move when
    their process restarts: write them again, or set the ports in the topology.
    """
    from topology.dashboards.files import monitoring_files, runbooks_here, write_files
    from topology.dashboards.scrape_access import scrape_access
    from topology.dashboards.targets import processes_elsewhere
    from topology.deployment.deployment import read_deployment
    from topology.problems import DeployError
    from topology.status.observe import current_status

    state = find_deployment(deployment, state_dir)
    try:
        document = current_status(state)
        running = read_deployment(state)
    except DeployError as error:
        fail(str(error), error.details)
    access = scrape_access(running.http, running.http_metrics_token)
    elsewhere = processes_elsewhere(running)
    files = monitoring_files(document, runbooks or runbooks_here(), access, elsewhere)
    try:
        write_files(directory, files)
    except OSError as error:
        fail(f"cannot write {error.filename}: {error.strerror}")
    written = [str(directory / name) for name in sorted(files)]
    if output is Output.json:
        print_json({"files": written})
    else:
        typer.echo("\n".join(written))
