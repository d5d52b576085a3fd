"""`heliograph certificates`.

The command imports what it needs when it runs, to keep start-up short.
"""

from __future__ import annotations

import typer

from topology.cli.command_line import (
    Output,
    OutputOption,
    TopologyFile,
    fail,
    load_file,
    print_json,
)


def certificates(file: TopologyFile, output: OutputOption = Output.human) -> None:
    """Generate what a topology file names and is missing, for trying out.

    That is an authority, certificates of brokers, a password for each user, and a properties file
    for each client. Files that exist stay. In production use certificates of your own authority.
    """
    from topology.certificates.generate import generate_for
    from topology.problems import DeployError

    topology = load_file(file)
    try:
        written, others = generate_for(topology, file.absolute().parent)
    except DeployError as error:
        fail(str(error), error.details)
    if output is Output.json:
        print_json({"written": [str(each) for each in written], "others": list(others)})
        return
    for path in written:
        typer.echo(f"wrote {path}")
    for sentence in others:
        typer.echo(f"not generated: {sentence}")
    if not written:
        typer.echo("nothing is missing")
