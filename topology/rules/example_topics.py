"""Made-up topics that match topic patterns. Pure.

A pattern is a regular expression that must match the whole name, as in MirrorMaker 2. A plain topic
name is a pattern too.
"""

from __future__ import annotations

import re
import re._constants as sre  # type: ignore[import-not-found]  # no public name for these
import re._parser as sre_parse  # type: ignore[import-not-found]
from collections.abc import Callable, Sequence
from typing import Any

REPEATS_MAX = 3
"""Most repetitions of one part in an example."""

EXAMPLES_MAX = 400
"""Most topics for one topology."""

_LETTERS = "xbcdefghijklmnopqrstuvwyzaXBCDEFGHIJKLMNOPQRSTUVWYZA0123456789-_."
_CATEGORIES: dict[Any, Callable[[str], bool]] = {
    sre.CATEGORY_DIGIT: str.isdigit,
    sre.CATEGORY_NOT_DIGIT: lambda letter: not letter.isdigit(),
    sre.CATEGORY_SPACE: str.isspace,
    sre.CATEGORY_NOT_SPACE: lambda letter: not letter.isspace(),
}


def example_topics(patterns: Sequence[str]) -> list[str]:
    """Return topics that match each pattern.

    Open parts such as `.*` are filled with a letter, and with the examples of the other patterns.
    So two patterns that overlap get a topic that matches both.
    """
    plain = {_example(pattern, "x") for pattern in patterns}
    tails = {_example(pattern, "") for pattern in patterns}
    fillers = sorted(plain | tails | {"x", ""})
    examples = dict.fromkeys(sorted(plain))
    for pattern in patterns:
        for filler in fillers:
            examples[_example(pattern, filler)] = None
    legal = re.compile(r"[A-Za-z0-9._-]{1,249}")
    return [topic for topic in examples if legal.fullmatch(topic)][:EXAMPLES_MAX]


def _example(pattern: str, filler: str) -> str:
    return "".join(_spell(item, filler) for item in sre_parse.parse(pattern))


def _spell(item: tuple[Any, Any], filler: str) -> str:
    """Return one text that matches a part of a parsed expression; `.*` becomes the filler."""
    op: Any
    value: Any
    op, value = item
    if op is sre.LITERAL:
        return chr(value)
    if op is sre.ANY:
        return "x"
    if op is sre.IN:
        return _member(value)
    if op in (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT):
        least, most, inner = value
        if most is sre.MAXREPEAT and len(filler) >= least and _is_open(inner):
            return filler
        return "".join(_spell(part, filler) for part in inner) * min(int(least), REPEATS_MAX)
    if op is sre.SUBPATTERN:
        return "".join(_spell(part, filler) for part in value[-1])
    if op is sre.ATOMIC_GROUP:
        return "".join(_spell(part, filler) for part in value)
    if op is sre.BRANCH:
        return "".join(_spell(part, filler) for part in value[1][0])
    return ""  # anchors and look-arounds match no text


def _is_open(inner: Any) -> bool:
    return len(inner) == 1 and inner[0][0] in (sre.ANY, sre.IN)


def _member(members: Any) -> str:
    """Return a character that a class such as [a-z] accepts."""
    accepted = (letter for letter in _LETTERS if _accepts(members, letter))
    return next(accepted, "x")


def _accepts(members: Any, letter: str) -> bool:
    negated = False
    found = False
    for op, value in members:
        if op is sre.NEGATE:
            negated = True
        elif op is sre.LITERAL:
            found |= ord(letter) == value
        elif op is sre.RANGE:
            found |= value[0] <= ord(letter) <= value[1]
        elif op is sre.CATEGORY:
            test = _CATEGORIES.get(value)
            found |= test(letter) if test is not None else letter.isalnum()
    return found != negated
