"""A properties file of Java: its entries, which of them were read, and remarks on them. Pure.

`javaproperties` parses the file as java.util.Properties does. Line numbers are added here, because
every remark names its line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import javaproperties


class InvalidProperties(Exception):
    """The text is no properties file."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(reason)
        self.line = line


class Property(NamedTuple):
    """One entry, and the line where it starts (from 1)."""

    line: int
    key: str
    value: str


@dataclass(frozen=True, slots=True, order=True)
class Remark:
    """A key that has no effect, or another effect than in the program whose file it is."""

    line: int
    key: str
    text: str
    is_problem: bool = False
    """Whether the file cannot be used with this key."""

    def sentence(self, file: str) -> str:
        return f"{file}:{self.line}: {self.key}: {self.text}"


def parse_properties(text: str) -> list[Property]:
    """Return every entry in file order. Raises InvalidProperties for a malformed `\\uXXXX`."""
    entries = []
    line = 1
    try:
        for element in javaproperties.parse(text):
            if isinstance(element, javaproperties.KeyValue):
                entries.append(Property(line, element.key, element.value))
            line += len(re.findall(r"\r\n|\r|\n", element.source))
    except javaproperties.InvalidUEscapeError as error:
        raise InvalidProperties(line, f"{error.escape} is no escape of a character") from error
    return entries


class PropertyKeys:
    """Lookup by key. The last entry of a key holds, as in Java."""

    def __init__(self, entries: Iterable[Property]) -> None:
        self._entries = {entry.key: entry for entry in entries}
        self._read: set[str] = set()
        self.remarks: list[Remark] = []

    @property
    def has_problems(self) -> bool:
        return any(remark.is_problem for remark in self.remarks)

    def has(self, key: str) -> bool:
        return key in self._entries

    def value(self, key: str) -> str | None:
        """Return the value of a key, or None."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        self._read.add(key)
        if re.search(r"\$\{[^}]*:", entry.value):
            self.problem(key, "config providers (`${...}`) are not supported")
        return entry.value.strip()

    def unread(self) -> list[str]:
        """Return the keys that were not read, in file order."""
        return [key for key in self._entries if key not in self._read]

    def remark(self, key: str, text: str, *, is_problem: bool = False) -> None:
        """Add a remark, once."""
        line = self._entries[key].line if key in self._entries else 1
        found = Remark(line, key, text, is_problem=is_problem)
        if found not in self.remarks:
            self.remarks.append(found)

    def problem(self, key: str, text: str) -> None:
        """Add a remark, once, that makes the file unusable."""
        self.remark(key, text, is_problem=True)
