"""Java's .properties files: `key=value` lines with comments, continuations and escapes. Pure.

Source: java.util.Properties.load. Not here: character sets; the text is what was decoded.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

_ENTRY: Final = re.compile(
    r"((?:\\.|[^\\=: \t\f])*)(?:[ \t\f]*[=:][ \t\f]*|[ \t\f]+|$)(.*)", re.DOTALL
)
_ESCAPE: Final = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_SIGNS: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


class Property(NamedTuple):
    """One entry, with the line where it begins (from 1)."""

    line: int
    key: str
    value: str


def parse_properties(text: str) -> list[Property]:
    """Every entry in the order of the file; of one that comes twice Java takes the last."""
    entries = []
    for line, logical in _logical_lines(text):
        found = _ENTRY.match(logical)
        assert found is not None, "the pattern matches any text"
        entries.append(Property(line, _unescape(found.group(1)), _unescape(found.group(2))))
    return entries


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines with their continuations, without comments and blank ones."""
    begun: str | None = None
    first = 0
    for number, raw in enumerate(re.split(r"\r\n|\r|\n", text), start=1):
        line = raw.lstrip(" \t\f")
        if begun is None:
            if not line or line[0] in "#!":
                continue
            begun, first = "", number
        begun += line
        if (len(begun) - len(begun.rstrip("\\"))) % 2:
            begun = begun[:-1]
            continue
        yield first, begun
        begun = None
    if begun is not None:
        yield first, begun


def _unescape(text: str) -> str:
    def sign(found: re.Match[str]) -> str:
        escaped = found.group(1)
        if escaped[0] == "u" and len(escaped) > 1:
            return chr(int(escaped[1:], 16))
        return _SIGNS.get(escaped, escaped)

    return _ESCAPE.sub(sign, text)
