"""`heliograph produce`: its options and output.

The command imports what it needs when it runs, to keep start-up short.
"""

from __future__ import annotations

import enum
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from topology.admin.carry_out import DryRunOption
from topology.admin.cluster_choice import ClusterChoice, on_cluster
from topology.admin.output import emit, print_lines
from topology.cli.command_line import EXIT_ERROR, EXIT_USAGE, fail
from topology.cli.completion import topic_names
from topology.records.consume_command import EncodingOption
from topology.records.input_lines import (
    BadLineError,
    InputForm,
    InputRecord,
    InputRules,
    read_line,
)
from topology.records.payloads import Encoding

if TYPE_CHECKING:
    from local_cluster.client.client import KafkaClient


class Compression(enum.StrEnum):
    """The codec of the batches."""

    none = "none"
    gzip = "gzip"
    snappy = "snappy"
    lz4 = "lz4"
    zstd = "zstd"


class Acks(enum.StrEnum):
    """When a record counts as written."""

    all = "all"
    leader = "1"
    none = "0"


@on_cluster
def produce(
    choice: ClusterChoice,
    topic: Annotated[
        str, typer.Argument(metavar="TOPIC", help="Name of the topic.", autocompletion=topic_names)
    ],
    file: Annotated[
        Path | None,
        typer.Argument(metavar="[FILE]", help="Default: standard input.", show_default=False),
    ] = None,
    form: Annotated[
        InputForm,
        typer.Option("--input", "-i", help="`text`: a value per line; `json`: an object per line."),
    ] = InputForm.text,
    key: Annotated[
        str | None, typer.Option("--key", "-k", help="Key of every record that has none.")
    ] = None,
    separator: Annotated[
        str | None,
        typer.Option("--key-separator", metavar="TEXT", help="A line is KEY, TEXT, VALUE."),
    ] = None,
    header: Annotated[
        list[str] | None,
        typer.Option("--header", "-H", metavar="NAME=VALUE", help="May be repeated."),
    ] = None,
    partition: Annotated[
        int | None,
        typer.Option("--partition", "-p", min=0, help="Default: by the key, as Kafka does."),
    ] = None,
    encoding: EncodingOption = Encoding.text,
    compression: Annotated[Compression, typer.Option("--compression")] = Compression.none,
    acks: Annotated[Acks, typer.Option("--acks")] = Acks.all,
    dry_run: DryRunOption = False,
) -> None:
    """Write records: one per line of the input.

    Retries write no record twice, with --acks all. Exits with 1 if the cluster refuses a record.
    The result has the first refused line, and how many records were written; some may come after
    that line.
    """
    headers = []
    for each in header or ():
        name, found, value = each.partition("=")
        if not found or not name:
            fail(f"--header {each!r} is not NAME=VALUE", code=EXIT_USAGE)
        headers.append((name, value))
    if form is InputForm.json and separator is not None:
        fail("--key-separator goes with --input text", code=EXIT_USAGE)
    rules = InputRules(
        form=form,
        encoding=encoding,
        separator=separator,
        key=key,
        headers=headers,
        partition=partition,
    )
    options = {
        "acks": {"all": "all", "1": 1, "0": 0}[acks.value],
        "enable_idempotence": acks is Acks.all,
        "compression_type": None if compression is Compression.none else compression.value,
    }
    with _open(file) as stream:
        records = _records(stream, rules)
        document = choice.run(
            lambda client: _produce(client, choice, topic, records, options, dry_run=dry_run)
        )
    emit(choice.output, document, lambda shown: print_lines(_lines(shown)))
    if document["error"] is not None:
        raise typer.Exit(EXIT_ERROR)


def _records(stream: Iterable[str], rules: InputRules) -> Iterator[tuple[int, InputRecord]]:
    """Yield (line number, record). Raises BadLineError."""
    for number, line in enumerate(stream, 1):
        try:
            yield number, read_line(line.removesuffix("\n").removesuffix("\r"), rules)
        except ValueError as error:
            raise BadLineError(number, str(error)) from error


def _open(file: Path | None) -> TextIO:
    try:
        return sys.stdin if file is None else file.open(encoding="utf-8")
    except OSError as error:
        fail(f"cannot read {file}: {error.strerror}", code=EXIT_USAGE)


async def _produce(
    client: KafkaClient,
    choice: ClusterChoice,
    topic: str,
    records: Iterator[tuple[int, InputRecord]],
    options: dict[str, Any],
    *,
    dry_run: bool,
) -> dict[str, Any]:
    from topology.admin.cluster_reading import existing_topics
    from topology.records.clients import options_of
    from topology.records.production import produce_records

    partitions = (await existing_topics(client, [topic])).topics[topic].partitions

    def checked() -> Iterator[tuple[int, InputRecord]]:
        for number, record in records:
            if record.partition is not None and record.partition not in partitions:
                raise BadLineError(
                    number,
                    f"topic {topic} has {len(partitions)} partitions; there is no"
                    f" {record.partition}",
                )
            yield number, record

    if dry_run:
        written = _checked_only(checked())
    else:
        written = await produce_records({**options_of(choice.find()), **options}, topic, checked())
    return {"topic": topic, "dry_run": dry_run, **written}


def _checked_only(records: Iterator[tuple[int, InputRecord]]) -> dict[str, Any]:
    """Return what `produce_records` returns, without writing."""
    count, error, line = 0, None, None
    try:
        for _ in records:
            count += 1
    except BadLineError as bad:
        error, line = str(bad), bad.line
    return {"records": count, "partitions": [], "error": error, "line": line}


def _lines(document: dict[str, Any]) -> list[str]:
    verb = "would write" if document["dry_run"] else "wrote"
    lines = [f"{verb} {document['records']} records to {document['topic']}"]
    for each in document["partitions"]:
        if each["first"] is not None:
            lines.append(f"partition {each['partition']}: offsets {each['first']}..{each['last']}")
    if document["error"] is not None:
        line = "the input" if document["line"] is None else f"line {document['line']}"
        lines.append(f"{line} was refused: {document['error']}")
    return lines
