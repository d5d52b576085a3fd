"""The selectors and the labels that a PromQL expression uses, checked against real scrapes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

Labels = Mapping[str, str]

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[a-zA-Z_:][a-zA-Z0-9_:]*|[0-9.]+[smhd]?|=~|!~|!=|[^\s]')
_AGGREGATIONS = frozenset({"sum", "count", "min", "max", "avg"})
_FUNCTIONS = frozenset({"rate", "increase", "histogram_quantile", "time", *_AGGREGATIONS})
_OPERATORS = frozenset({"and", "or", "unless", "bool"})
_GROUPINGS = frozenset({"by", "without", "on", "ignoring", "group_left", "group_right"})
_MATCHES: Mapping[str, Callable[[str, str], bool]] = {
    "=": lambda has, wants: has == wants,
    "!=": lambda has, wants: has != wants,
    "=~": lambda has, wants: re.fullmatch(wants, has) is not None,
    "!~": lambda has, wants: re.fullmatch(wants, has) is None,
}


@dataclass(frozen=True)
class Selector:
    """A metric with its matchers (label, operator, value)."""

    metric: str
    matchers: tuple[tuple[str, str, str], ...] = ()

    def matches(self, labels: Labels) -> bool:
        return all(_MATCHES[how](labels.get(name, ""), value) for name, how, value in self.matchers)


@dataclass(frozen=True)
class Parsed:
    """What an expression needs: series, and labels to group by."""

    selectors: tuple[Selector, ...]
    groupings: frozenset[str]


def parse(expr: str) -> Parsed:
    """Read an expression of the dashboards. Raises ValueError for anything that is not known."""
    tokens = _TOKEN.findall(expr)
    selectors: list[Selector] = []
    groupings: set[str] = set()
    position = 0
    while position < len(tokens):
        token = tokens[position]
        position += 1
        if token in _FUNCTIONS | _OPERATORS:
            continue
        if token in _GROUPINGS:
            names, position = _until(tokens, position, ")")
            groupings.update(name for name in names if name not in "(,")
        elif token == "[":
            _, position = _until(tokens, position, "]")
        elif re.match(r"[a-zA-Z_:]", token):
            matchers: list[tuple[str, str, str]] = []
            if position < len(tokens) and tokens[position] == "{":
                inside, position = _until(tokens, position + 1, "}")
                matchers = list(_matchers(inside))
            selectors.append(Selector(token, tuple(matchers)))
        elif not re.match(r"[0-9.()/*+\-<>=!,]", token):
            raise ValueError(f"{token!r} in {expr}")
    return Parsed(tuple(selectors), frozenset(groupings))


def _until(tokens: Sequence[str], position: int, end: str) -> tuple[Sequence[str], int]:
    closing = tokens.index(end, position)
    return tokens[position:closing], closing + 1


def _matchers(tokens: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    parts = [token for token in tokens if token != ","]
    for start in range(0, len(parts), 3):
        name, how, value = parts[start : start + 3]
        yield name, how, value.strip('"')


def problems(
    expr: str, series: Mapping[str, Sequence[Labels]], variables: Mapping[str, str]
) -> list[str]:
    """Return why an expression has no data in these series: metric -> the labels of each sample.

    `variables` are the values of the dashboard's variables.
    """
    for name, value in variables.items():
        expr = expr.replace(f"${name}", value)
    parsed = parse(expr)
    found: list[str] = []
    for selector in parsed.selectors:
        samples = series.get(selector.metric)
        if not samples:
            found.append(f"there is no metric {selector.metric}")
            continue
        matching = [labels for labels in samples if selector.matches(labels)]
        for name, _, _ in selector.matchers:
            if not any(name in labels for labels in samples):
                found.append(f"{selector.metric} has no label {name}")
        if not matching:
            found.append(f"no sample of {selector.metric} matches {selector.matchers}")
        found += [
            f"{selector.metric} has no label {name} to group by"
            for name in parsed.groupings
            if matching and not any(name in labels for labels in matching)
        ]
    return found
