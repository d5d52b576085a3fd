"""A plan of `rebalance` and its progress on a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console

from topology.cli.show import UNKNOWN, plain_console, plain_table
from topology.rebalance.execution import Progress

MOVES_MAX = 50
"""Most moves that are listed; `-o json` has all of them."""
_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")


class RebalanceProgress:
    """One line on standard error for each change."""

    def __init__(self, *, enabled: bool) -> None:
        self._console = Console(stderr=True, quiet=not enabled, highlight=False)
        self._last: Progress | None = None

    def show(self, progress: Progress) -> None:
        if progress != self._last and progress.planned:
            self._console.print(
                f"{progress.moved} of {progress.planned} partitions moved, {progress.moving} moving"
            )
        self._last = progress


def print_rebalance(document: Mapping[str, Any]) -> None:
    """Print the moves, and the replicas of every broker before and after."""
    console = plain_console()
    moves = document["moves"]
    if document["under_way"]:
        console.print(f"moving already: {', '.join(document['under_way'])}")
    if not moves:
        console.print("nothing to move")
        return
    table = plain_table("partition", "replicas now", "replicas then", "to copy")
    for move in moves[:MOVES_MAX]:
        table.add_row(
            f"{move['topic']}-{move['partition']}",
            ",".join(map(str, move["from"])),
            ",".join(map(str, move["to"])),
            _size(move["bytes"]),
        )
    console.print(table)
    if len(moves) > MOVES_MAX:
        console.print(f"... and {len(moves) - MOVES_MAX} more")
    console.print(f"{len(moves)} partitions, {_size(document['bytes'])} to copy")
    brokers = plain_table("broker", "replicas", "then", "preferred leader of", "then")
    for each in document["brokers"]:
        names = ("replicas_before", "replicas_after", "preferred_before", "preferred_after")
        brokers.add_row(str(each["id"]), *(str(each[name]) for name in names))
    console.print(brokers)


def _size(size_bytes: int | None) -> str:
    """Return a size for people; an unknown one is a dash."""
    if size_bytes is None:
        return UNKNOWN
    size = float(size_bytes)
    for unit in _UNITS:
        if size < 1000 or unit == _UNITS[-1]:
            break
        size /= 1000
    return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
