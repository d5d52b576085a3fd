"""The condition of a filter as plain data, and the region that has every row it lets through. Pure.

Only what is known to bound its rows bounds them here. The rest is `Unknown`, which bounds nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import reduce
from typing import Final, assert_never

from spark_global.narrowing.regions import NAMES, NUMBERS, Region, Span

Value = str | int | None
"""A literal; timestamps are microseconds since 1970."""


class Operator(StrEnum):
    """How a column is compared with a literal."""

    EQUAL = "="
    LESS = "<"
    AT_MOST = "<="
    GREATER = ">"
    AT_LEAST = ">="


TURNED: Final = {
    Operator.EQUAL: Operator.EQUAL,
    Operator.LESS: Operator.GREATER,
    Operator.AT_MOST: Operator.AT_LEAST,
    Operator.GREATER: Operator.LESS,
    Operator.AT_LEAST: Operator.AT_MOST,
}
"""The operators with their sides exchanged."""


@dataclass(frozen=True, slots=True)
class Compare:
    """A column compared with a literal; as in SQL, a null makes it not true."""

    column: str
    operator: Operator
    value: Value


@dataclass(frozen=True, slots=True)
class OneOf:
    """`column IN (...)`; a null among the values matches nothing."""

    column: str
    values: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Every:
    """All parts are true."""

    parts: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Either:
    """One part is true, or several are."""

    parts: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Unknown:
    """A condition of which nothing is known."""


Predicate = Compare | OneOf | Every | Either | Unknown


def region_of(predicate: Predicate) -> Region:
    """Return a region that has every record for which the predicate is true."""
    match predicate:
        case Compare(column, Operator.EQUAL, value):
            return _one_of(column, (value,))
        case Compare(column, operator, value):
            return _compared(column, operator, value)
        case OneOf(column, values):
            return _one_of(column, values)
        case Every(parts):
            return reduce(Region.meet, map(region_of, parts), Region())
        case Either(parts):
            return hull_of([region_of(part) for part in parts])
        case Unknown():
            return Region()
        case _:
            assert_never(predicate)


def hull_of(regions: Sequence[Region]) -> Region:
    """Return a region with the records of each; everything if there is none."""
    return reduce(Region.hull, regions[1:], regions[0]) if regions else Region()


def _one_of(column: str, values: tuple[Value, ...]) -> Region:
    known = [each for each in values if each is not None]
    if not known or not all(_fits(column, each) for each in known):
        return Region()
    return Region.listing(column, frozenset(known))


def _compared(column: str, operator: Operator, value: Value) -> Region:
    if not isinstance(value, int) or not _fits(column, value):
        return Region()
    match operator:
        case Operator.LESS:
            span = Span(end=value)
        case Operator.AT_MOST:
            span = Span(end=value + 1)
        case Operator.GREATER:
            span = Span(first=value + 1)
        case _:
            span = Span(first=value)
    return Region(spans={column: span})


def _fits(column: str, value: str | int) -> bool:
    if isinstance(value, str):
        return column in NAMES
    return column in NUMBERS and not isinstance(value, bool)
