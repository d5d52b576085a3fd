"""Errors that a person can act on: problems of a topology file, and failures of a deployment.

Guarantees: each problem of a file is one line, `file:line:column: key: what was expected`, in file
order. A mistyped name comes with the most similar known name.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

Location = tuple[str | int, ...]
"""Path into the file: mapping keys and list indexes."""

PROBLEMS_MAX = 200
"""Most problems that are reported for one file."""


class DeployError(Exception):
    """A command on a deployment failed; `details` are further lines for the user."""

    def __init__(self, message: str, details: Iterable[str] = ()) -> None:
        super().__init__(message)
        self.details = tuple(details)


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """One problem of a file and its position; lines and columns count from 1."""

    line: int
    column: int
    key: str
    expected: str
    nearest: str | None = None

    def as_line(self, file: str) -> str:
        """Return `file:line:column: key: what was expected`, with a suggestion if there is one."""
        hint = f"; did you mean {self.nearest!r}?" if self.nearest else ""
        return f"{file}:{self.line}:{self.column}: {self.key}: {self.expected}{hint}"

    def as_json(self, file: str) -> dict[str, Any]:
        return {"file": file, **asdict(self)}


@dataclass(frozen=True, slots=True)
class Finding:
    """A problem whose position in the text is not known yet."""

    location: Location
    expected: str
    nearest: str | None = None
    at_key: bool = False
    """Point at the key rather than at its value."""


class InvalidTopology(Exception):
    """A topology file is invalid; carries every problem that was found."""

    def __init__(self, file: str, problems: Sequence[Problem]) -> None:
        super().__init__(f"{file} has {len(problems)} problems")
        self.file = file
        self.problems = sorted(set(problems))[:PROBLEMS_MAX]

    def lines(self) -> list[str]:
        return [problem.as_line(self.file) for problem in self.problems]


def nearest_name(given: object, known: Iterable[str]) -> str | None:
    """Return the known name that is most similar, or None if none is similar."""
    if not isinstance(given, str):
        return None
    by_lower = {name.lower(): name for name in known}
    found = difflib.get_close_matches(given.lower(), by_lower, n=1, cutoff=0.6)
    return by_lower[found[0]] if found else None


def unknown_name(what: str, given: str, known: Iterable[str]) -> str:
    """Return `no link 'x'; did you mean 'y'? there are: y, z`."""
    names = list(known)
    near = nearest_name(given, names)
    hint = f"; did you mean {near!r}?" if near else ";"
    return f"no {what} {given!r}{hint} there are: {', '.join(names) or 'none'}"


def key_text(location: Location) -> str:
    """Return a path as `clusters[0].brokers[1].port`; `topology` for the whole file."""
    text = ""
    for item in location:
        text += f"[{item}]" if isinstance(item, int) else f".{item}" if text else str(item)
    return text or "topology"
