"""`heliograph import`: write a topology from another program's configuration.

Commands import what they need when they run, to keep start-up short.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from topology.cli.command_line import (
    EXIT_USAGE,
    Output,
    OutputOption,
    complain,
    fail,
    print_json,
)

if TYPE_CHECKING:
    from topology.file.mm2_properties import Mm2Reading

import_app = typer.Typer(help="Write a topology from another configuration.", no_args_is_help=True)

FILE_BYTES_MAX: Final = 1 << 20

SourceFile = Annotated[Path, typer.Argument(metavar="FILE", help="The file to read.")]
ToOption = Annotated[
    Path | None,
    typer.Option(
        "--to",
        metavar="TOPOLOGY",
        help="File to write; it must not exist. Default: standard output.",
        show_default=False,
    ),
]
NameOption = Annotated[str, typer.Option("--name", help="Name of the deployment.")]


@import_app.command()
def mm2(
    file: SourceFile,
    to: ToOption = None,
    name: NameOption = "mm2",
    output: OutputOption = Output.human,
) -> None:
    """Read MirrorMaker 2's mm2.properties: external clusters, and a link for each flow."""
    from topology.file.mm2_properties import read_mm2

    _write(file, to, output, lambda text: read_mm2(text, name))


@import_app.command()
def strimzi(file: SourceFile, to: ToOption = None, output: OutputOption = Output.human) -> None:
    """Read a KafkaMirrorMaker2 resource of Strimzi; Secrets become files and variables."""
    from topology.importing.strimzi import read_strimzi

    _write(file, to, output, read_strimzi)


@import_app.command("server-properties")
def server_properties(
    file: SourceFile,
    to: ToOption = None,
    name: NameOption = "kafka",
    output: OutputOption = Output.human,
) -> None:
    """Read a Kafka broker's server.properties: a new cluster with this broker.

    It never joins the cluster of the file: its ZooKeeper chroot is another one, and Kafka's logs
    are not read.
    """
    from topology.importing.server_properties import read_server_properties

    _write(file, to, output, lambda text: read_server_properties(text, name))


def _write(file: Path, to: Path | None, output: Output, read: Callable[[str], Mm2Reading]) -> None:
    """Print or write the topology, and every key that does not carry over with its line.

    Ends the command with 2 if the file cannot be used; nothing is written then.
    """
    from topology.importing.topology_text import topology_document, topology_text

    try:
        with file.open("rb") as opened:
            text = opened.read(FILE_BYTES_MAX + 1)
        if len(text) > FILE_BYTES_MAX:
            fail(f"{file} has more than {FILE_BYTES_MAX} bytes", code=EXIT_USAGE)
        reading = read(text.decode())
    except OSError as error:
        fail(f"cannot read {file}: {error.strerror}", code=EXIT_USAGE)
    except UnicodeDecodeError:
        fail(f"cannot read {file}: it is not UTF-8 text", code=EXIT_USAGE)
    complain([remark.sentence(str(file)) for remark in reading.remarks])
    if reading.topology is None:
        raise typer.Exit(EXIT_USAGE)
    written = topology_text(reading.topology, reading.remarks, file.name)
    if to is not None:
        try:
            with to.open("x") as new:
                new.write(written)
        except FileExistsError:
            fail(f"{to} exists; nothing was written", code=EXIT_USAGE)
        except OSError as error:
            fail(f"cannot write {to}: {error.strerror}")
    variables = sorted(reading.secrets)
    if output is Output.json:
        remarks = [
            {"line": each.line, "key": each.key, "text": each.text} for each in reading.remarks
        ]
        topology = topology_document(reading.topology)
        print_json({"topology": topology, "remarks": remarks, "environment": variables})
    elif to is None:
        typer.echo(written, nl=False)
    if variables:
        complain([f"the topology reads secrets from the environment: {', '.join(variables)}"])
