"""Few rows of a product that contain every allowed pair of values of two dimensions. Pure."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from random import Random

Row = Mapping[str, str]
Allowed = Callable[[Row], bool]
_Pair = tuple[str, str, str, str]
CANDIDATES = 60
"""Rows tried per step; the one with the most new pairs is chosen."""


def product_rows(dimensions: Mapping[str, Sequence[str]], allowed: Allowed) -> list[Row]:
    """Return every allowed row of the product, in the order of the dimensions."""
    rows = (
        dict(zip(dimensions, values, strict=True))
        for values in itertools.product(*dimensions.values())
    )
    return [row for row in rows if allowed(row)]


def pairs_of(row: Row) -> set[_Pair]:
    """Return the pairs in a row: (dimension, value, other dimension, other value)."""
    return {(*left, *right) for left, right in itertools.combinations(row.items(), 2)}


def covering_rows(
    dimensions: Mapping[str, Sequence[str]], allowed: Allowed, random: Random
) -> list[Row]:
    """Return few rows that contain every pair of any allowed row."""
    rows = product_rows(dimensions, allowed)
    missing = set().union(*map(pairs_of, rows))
    chosen: list[Row] = []
    while missing:
        left, left_value, right, right_value = min(missing)
        holding = [row for row in rows if (row[left], row[right]) == (left_value, right_value)]
        tried = random.sample(holding, min(CANDIDATES, len(holding)))
        best = max(tried, key=lambda row: len(pairs_of(row) & missing))
        chosen.append(best)
        missing -= pairs_of(best)
    return chosen
