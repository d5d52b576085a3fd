"""RE2's syntax as far as it concerns topic names: pattern -> tree. Raises ValueError."""

from __future__ import annotations

import string
from typing import Final, NamedTuple

PATTERN_CHARACTERS_MAX: Final = 1_024
DEPTH_MAX: Final = 50
COUNT_MAX: Final = 1_000
ALL: Final = -1
"""As the upper count of Repeated: without bound."""

_CLASSES: Final = {
    "d": frozenset(string.digits),
    "w": frozenset(string.ascii_letters + string.digits + "_"),
    "s": frozenset("\t\n\f\r "),
}
_POSIX: Final = {
    "alnum": frozenset(string.ascii_letters + string.digits),
    "alpha": frozenset(string.ascii_letters),
    "digit": frozenset(string.digits),
    "lower": frozenset(string.ascii_lowercase),
    "upper": frozenset(string.ascii_uppercase),
    "punct": frozenset(string.punctuation),
    "word": _CLASSES["w"],
    "xdigit": frozenset(string.hexdigits),
    "space": frozenset("\t\n\v\f\r "),
    "blank": frozenset("\t "),
}
_CONTROL: Final = {"a": "\a", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_EDGES: Final = {"A": "begin", "z": "end"}


class Characters(NamedTuple):
    """One character out of a set, or out of all others."""

    characters: frozenset[str]
    negated: bool = False


class Edge(NamedTuple):
    """The begin or end of the name."""

    name: str


class Sequence(NamedTuple):
    """One after another."""

    nodes: tuple[Node, ...]


class Alternatives(NamedTuple):
    """One of them."""

    nodes: tuple[Node, ...]


class Repeated(NamedTuple):
    """From `low` to `high` times."""

    node: Node
    low: int
    high: int


Node = Characters | Edge | Sequence | Alternatives | Repeated


def parse(pattern: str) -> Node:
    """The tree of a pattern. Raises ValueError with a message for people."""
    if len(pattern) > PATTERN_CHARACTERS_MAX:
        raise ValueError(f"longer than {PATTERN_CHARACTERS_MAX} characters")
    return _Parser(pattern).parse()


class _Parser:
    def __init__(self, pattern: str) -> None:
        self._ignores_case = pattern.startswith("(?i)")
        self._rest = pattern[4:] if self._ignores_case else pattern
        self._position = 0
        self._depth = 0

    def parse(self) -> Node:
        tree = self._alternatives()
        if self._position < len(self._rest):
            raise ValueError("unexpected )")
        return tree

    def _peek(self) -> str:
        return self._rest[self._position : self._position + 1]

    def _take(self, text: str) -> bool:
        if self._rest.startswith(text, self._position):
            self._position += len(text)
            return True
        return False

    def _next(self, inside: str) -> str:
        character = self._peek()
        if not character:
            raise ValueError(f"{inside} does not end")
        self._position += 1
        return character

    def _alternatives(self) -> Node:
        self._depth += 1
        if self._depth > DEPTH_MAX:
            raise ValueError(f"nested deeper than {DEPTH_MAX}")
        nodes = [self._sequence()]
        while self._take("|"):
            nodes.append(self._sequence())
        self._depth -= 1
        return nodes[0] if len(nodes) == 1 else Alternatives(tuple(nodes))

    def _sequence(self) -> Node:
        nodes: list[Node] = []
        while self._peek() not in ("", "|", ")"):
            nodes.append(self._repeated(self._atom()))
        return Sequence(tuple(nodes))

    def _repeated(self, node: Node) -> Node:
        counts = self._counts()
        if counts is None:
            return node
        low, high = counts
        # Greedy or not is the same where only the whole name counts.
        self._take("?")
        if self._peek() in ("*", "+", "?") and self._peek():
            raise ValueError("a repetition of a repetition")
        if high != ALL and low > high:
            raise ValueError(f"{{{low},{high}}} is no range")
        return Repeated(node, low, high)

    def _counts(self) -> tuple[int, int] | None:
        for sign, low, high in (("*", 0, ALL), ("+", 1, ALL), ("?", 0, 1)):
            if self._take(sign):
                return low, high
        end = self._rest.find("}", self._position)
        if self._peek() != "{" or end < 0:
            return None
        first, comma, second = self._rest[self._position + 1 : end].partition(",")
        if not first.isdecimal() or not (second.isdecimal() or not second):
            return None  # As in RE2 it is a literal brace then.
        self._position = end + 1
        low = int(first)
        high = (int(second) if second else ALL) if comma else low
        if max(low, high) > COUNT_MAX:
            raise ValueError(f"a count above {COUNT_MAX}")
        return low, high

    def _atom(self) -> Node:
        character = self._next("the pattern")
        match character:
            case "(":
                return self._group()
            case "[":
                return self._set()
            case ".":
                return Characters(frozenset("\n"), negated=True)
            case "^":
                return Edge("begin")
            case "$":
                return Edge("end")
            case "*" | "+" | "?":
                raise ValueError(f"nothing to repeat before {character}")
            case "\\":
                return self._escape()
            case _:
                return self._literal(character)

    def _group(self) -> Node:
        if self._take("?"):
            if self._take("P<") or (self._peek() == "<" and self._take("<")):
                name, closed, _ = self._rest[self._position :].partition(">")
                if not closed or not name.isidentifier():
                    raise ValueError("a group with a broken name (look-around is not in RE2)")
                self._position += len(name) + 1
            elif not self._take(":"):
                raise ValueError("(? is followed by what RE2 does not know")
        tree = self._alternatives()
        if not self._take(")"):
            raise ValueError("missing )")
        return tree

    def _literal(self, character: str) -> Characters:
        if self._ignores_case:
            return Characters(frozenset({character.lower(), character.upper()}))
        return Characters(frozenset(character))

    def _escape(self) -> Node:
        character = self._next("the pattern")
        if character in _EDGES:
            return Edge(_EDGES[character])
        if character == "Q":
            text, _, _ = self._rest[self._position :].partition("\\E")
            self._position = min(self._position + len(text) + 2, len(self._rest))
            return Sequence(tuple(self._literal(item) for item in text))
        return self._escaped_characters(character)

    def _escaped_characters(self, character: str) -> Characters:
        if character.lower() in _CLASSES:
            return Characters(_CLASSES[character.lower()], negated=character.isupper())
        if character in _CONTROL:
            return self._literal(_CONTROL[character])
        if character == "x":
            digits = self._next("an escape") + self._next("an escape")
            return self._literal(chr(int(digits, 16)))
        if character.isalnum():
            raise ValueError(f"\\{character} is not in RE2, or not for topic names")
        return self._literal(character)

    def _set(self) -> Characters:
        negated = self._take("^")
        found: set[str] = set()
        excluded: frozenset[str] | None = None
        first = True
        while first or self._peek() != "]":
            first = False
            if self._rest.startswith("[:", self._position):
                name, closed, _ = self._rest[self._position + 2 :].partition(":]")
                if not closed or name not in _POSIX:
                    raise ValueError(f"unknown class [:{name}:]")
                self._position += len(name) + 4
                found |= _POSIX[name]
                continue
            low = self._set_item()
            if low.negated:
                excluded = low.characters if excluded is None else excluded & low.characters
            elif len(low.characters) == 1 and self._is_range():
                self._position += 1
                high = self._set_item()
                if high.negated or len(high.characters) != 1:
                    raise ValueError("a class cannot end a range")
                begin, end = ord(min(low.characters)), ord(min(high.characters))
                if begin > end:
                    raise ValueError(f"{chr(begin)}-{chr(end)} is no range")
                found |= {chr(code) for code in range(begin, min(end, 255) + 1)}
            else:
                found |= low.characters
        self._position += 1
        if self._ignores_case:
            found |= {item.lower() for item in found} | {item.upper() for item in found}
        if excluded is not None:
            return Characters(frozenset(excluded - found), negated=not negated)
        return Characters(frozenset(found), negated=negated)

    def _is_range(self) -> bool:
        after = self._rest[self._position + 1 : self._position + 2]
        return self._peek() == "-" and after not in ("]", "")

    def _set_item(self) -> Characters:
        character = self._next("a [set]")
        if character == "\\":
            return self._escaped_characters(self._next("a [set]"))
        return Characters(frozenset(character))
