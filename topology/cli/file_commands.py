"""`heliograph validate` and `schema`: commands that need only a topology file.

Commands import what they need when they run, to keep start-up short.
"""

from __future__ import annotations

import typer

from topology.cli.command_line import (
    EXIT_USAGE,
    Output,
    OutputOption,
    TopologyFile,
    complain,
    fail,
    print_json,
)


def validate(file: TopologyFile, output: OutputOption = Output.human) -> None:
    """Report every problem of a topology file."""
    from topology.file.load import load_topology
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


def schema() -> None:
    """Print the JSON Schema of the topology file, for editors."""
    from topology.model.topology import schema_text

    typer.echo(schema_text(), nl=False)
