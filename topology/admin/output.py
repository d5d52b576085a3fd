"""The output of commands: tables for people, JSON or YAML for programs.

A command builds one document of plain values. A table is a list of columns over rows of that
document, so that people and programs see the same. An unknown value is null, and a dash in a table.
"""

from __future__ import annotations

import enum
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated, Any, Final

import typer

from topology.cli.command_line import print_json

JsonObject = dict[str, Any]
Columns = Sequence[tuple[str, str]]
"""Pairs of a heading and the key of a row."""
UNKNOWN: Final = "-"


class Format(enum.StrEnum):
    """The format of standard output."""

    human = "human"
    json = "json"
    yaml = "yaml"


FormatOption = Annotated[Format, typer.Option("--output", "-o", help="Format of the output.")]


def emit(output: Format, document: JsonObject, for_people: Callable[[JsonObject], None]) -> None:
    """Print a document in the format that was asked for."""
    if output is Format.json:
        print_json(document)
    elif output is Format.yaml:
        print_yaml(document)
    else:
        for_people(document)


def print_yaml(document: JsonObject) -> None:
    """Print a document as YAML, with the order of its keys."""
    from ruamel.yaml import YAML

    YAML().dump(document, sys.stdout)


def print_table(columns: Columns, rows: Iterable[Mapping[str, Any]], *, nothing: str) -> None:
    """Print one line per row, or the sentence `nothing` if there is no row."""
    from topology.cli.show import plain_console, plain_table

    console = plain_console()
    table = plain_table(*(heading for heading, _ in columns))
    for row in rows:
        table.add_row(*(cell(row.get(key)) for _, key in columns))
    if table.row_count:
        console.print(table)
    else:
        console.print(nothing, soft_wrap=True)


def print_lines(lines: Iterable[str]) -> None:
    """Print lines that are never wrapped."""
    from topology.cli.show import plain_console

    console = plain_console()
    for line in lines:
        console.print(line, soft_wrap=True)


def cell(value: Any) -> str:
    """Return a value as the text of a cell."""
    if value is None or value == []:
        return UNKNOWN
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ",".join(map(str, value))
    if isinstance(value, float):
        return f"{value:.1f}"
    return str(value)
