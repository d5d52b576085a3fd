"""A problem of a topology file, and how it is said to a person.

Guarantees: one line per problem, `file:line:column: key: what was expected`, in file order, with
the nearest known name where a name was mistyped.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

Location = tuple[str | int, ...]
"""Path into the file: mapping keys and list indexes."""

PROBLEMS_MAX = 200
"""Most problems reported of one file."""


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """One thing that is wrong, and where; lines and columns count from 1."""

    line: int
    column: int
    key: str
    expected: str
    nearest: str | None = None

    def as_line(self, file: str) -> str:
        """`file:line:column: key: what was expected`, and a suggestion if there is one."""
        hint = f"; did you mean {self.nearest!r}?" if self.nearest else ""
        return f"{file}:{self.line}:{self.column}: {self.key}: {self.expected}{hint}"

    def as_json(self, file: str) -> dict[str, Any]:
        return {"file": file, **asdict(self)}


@dataclass(frozen=True, slots=True)
class Finding:
    """A problem before its position is known."""

    location: Location
    expected: str
    nearest: str | None = None
    at_key: bool = False
    """Point at the key rather than at its value."""


class InvalidTopology(Exception):
    """The file describes no deployment; carries every problem found."""

    def __init__(self, file: str, problems: Sequence[Problem]) -> None:
        super().__init__(f"{file} has {len(problems)} problems")
        self.file = file
        self.problems = sorted(set(problems))[:PROBLEMS_MAX]

    def lines(self) -> list[str]:
        return [problem.as_line(self.file) for problem in self.problems]


def nearest_name(given: object, known: Iterable[str]) -> str | None:
    """The known name most like the given one, or None where none is near."""
    if not isinstance(given, str):
        return None
    by_lower = {name.lower(): name for name in known}
    found = difflib.get_close_matches(given.lower(), by_lower, n=1, cutoff=0.6)
    return by_lower[found[0]] if found else None


def unknown_name(what: str, given: str, known: Iterable[str]) -> str:
    """`no link 'x'; did you mean 'y'? there are: y, z`."""
    names = list(known)
    near = nearest_name(given, names)
    hint = f"; did you mean {near!r}?" if near else ";"
    return f"no {what} {given!r}{hint} there are: {', '.join(names) or 'none'}"


def key_text(location: Location) -> str:
    """`clusters[0].brokers[1].port` from a path; `topology` for the whole file."""
    text = ""
    for item in location:
        text += f"[{item}]" if isinstance(item, int) else f".{item}" if text else str(item)
    return text or "topology"
