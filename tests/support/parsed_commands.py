"""The commands that the parser of `heliograph` knows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import typer

from topology.main import app


def parsed_commands() -> dict[str, Any]:
    """Return every command by its words, such as `topic list`, as click has it."""
    return dict(_walk(typer.main.get_command(app), ()))


def takes(command: Any, *names: str) -> bool:
    """Return whether a command has an option or argument of one of these names."""
    return any(name in each.opts or name == each.name for each in command.params for name in names)


def _walk(command: Any, words: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    below = getattr(command, "commands", None)
    if below is None:
        yield " ".join(words), command
        return
    for name, each in below.items():
        yield from _walk(each, (*words, name))
