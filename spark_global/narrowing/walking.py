"""Walks over Spark's plans, read over py4j."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from spark_global.narrowing.conditions import items


def nodes_of(plan: Any) -> Iterator[Any]:
    """Yield a plan of the JVM, what is below it, and the plans of its subqueries."""
    yield plan
    for part in (plan.children(), plan.subqueries()):
        for each in items(part):
            yield from nodes_of(each)


def columns_of(leaf: Any) -> dict[int, str]:
    """Return the names of a leaf's columns by their expression ids."""
    return {each.exprId().id(): str(each.name()) for each in items(leaf.output())}


def ids_of(attributes: Any) -> set[int]:
    """Return the expression ids of a Scala Seq of attributes."""
    return {each.exprId().id() for each in items(attributes)}
