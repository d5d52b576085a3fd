"""Why a name does not match patterns, and which pattern nearly does. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from topology.problems import nearest_name

_PLAIN: Final = re.compile(r"[\w.-]+")


def matching(patterns: Iterable[str], name: str) -> str | None:
    """Return the first pattern that matches a whole name."""
    return next((each for each in patterns if re.fullmatch(each, name)), None)


def near_miss(patterns: Sequence[str], name: str) -> str | None:
    """Return a sentence about the pattern that nearly matches a name; None if none does."""
    for each in patterns:
        if re.fullmatch(each, name, re.IGNORECASE):
            return f"pattern {each!r} differs in case only"
    for each in patterns:
        found = re.search(each, name)
        if found is not None and found[0]:
            return (
                f"pattern {each!r} matches only {found[0]!r} of it, and patterns must match whole"
                f" names: {_extended(each, name)!r} does"
            )
    for each in patterns:
        if _PLAIN.fullmatch(each) and re.fullmatch(re.escape(each.strip()), name.strip()):
            return f"pattern {each!r} has a blank too many"
    plain = [each for each in patterns if _PLAIN.fullmatch(each)]
    near = nearest_name(name, plain)
    if near is not None:
        return f"pattern {near!r} is similar, and not the same"
    for each in patterns:
        literal = each.replace("\\.", ".")
        if literal != each and re.fullmatch(re.escape(literal), name):
            return f"pattern {each!r} is nearly it"
        if _without_wildcards(each) and nearest_name(
            name[: len(_without_wildcards(each))], [_without_wildcards(each)]
        ):
            return f"pattern {each!r} is similar, and does not match"
    return None


def _without_wildcards(pattern: str) -> str:
    return re.sub(r"(\.\*|\.\+|\\)", "", pattern)


def _extended(pattern: str, name: str) -> str:
    """Return a pattern that also matches what is before and after the match."""
    for extended in (f"{pattern}.*", f".*{pattern}", f".*{pattern}.*"):
        if re.fullmatch(extended, name):
            return extended
    return f".*(?:{pattern}).*"
