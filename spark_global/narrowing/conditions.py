"""Spark's expressions, read over py4j, as predicates. What is not known here is `Unknown`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from spark_global.narrowing.predicates import (
    TURNED,
    Compare,
    Either,
    Every,
    OneOf,
    Operator,
    Predicate,
    Unknown,
    Value,
)
from spark_global.narrowing.regions import LISTED_MAX

COMPARISONS: Final = {
    "EqualTo": Operator.EQUAL,
    "EqualNullSafe": Operator.EQUAL,
    "LessThan": Operator.LESS,
    "LessThanOrEqual": Operator.AT_MOST,
    "GreaterThan": Operator.GREATER,
    "GreaterThanOrEqual": Operator.AT_LEAST,
}
"""By the names of Spark's classes. Like the others `<=>` bounds nothing if its literal is null."""
_TYPES: Final = frozenset({"string", "int", "bigint", "timestamp"})
"""Types that are compared as they are; a string with a collation is another type."""


def predicate_of(condition: Any, columns: Mapping[int, str]) -> Predicate:
    """Return the predicate of a condition; `columns` has names of columns by expression id."""
    kind = kind_of(condition)
    if kind in ("And", "Or"):
        parts = (
            predicate_of(condition.left(), columns),
            predicate_of(condition.right(), columns),
        )
        return Every(parts) if kind == "And" else Either(parts)
    if kind in COMPARISONS:
        return _comparison(COMPARISONS[kind], condition.left(), condition.right(), columns)
    if kind in ("In", "InSet"):
        return _listed(kind, condition, columns)
    return Unknown()


def items(sequence: Any) -> Iterator[Any]:
    """Yield the elements of a Scala Seq."""
    return (sequence.apply(index) for index in range(sequence.size()))


def _comparison(operator: Operator, left: Any, right: Any, columns: Mapping[int, str]) -> Predicate:
    if kind_of(left) == "Literal":
        operator, left, right = TURNED[operator], right, left
    column = _column(left, columns)
    if column is None or kind_of(right) != "Literal" or type_of(left) != type_of(right):
        return Unknown()
    return Compare(column, operator, _value(right.value()))


def _listed(kind: str, condition: Any, columns: Mapping[int, str]) -> Predicate:
    child = condition.value() if kind == "In" else condition.child()
    column = _column(child, columns)
    if column is None:
        return Unknown()
    if kind == "InSet":
        # Spark has made literals of the column's type of them.
        if condition.hset().size() > LISTED_MAX:
            return Unknown()
        return OneOf(column, tuple(map(_value, items(condition.hset().toSeq()))))
    listed = list(items(condition.list()))
    if any(kind_of(each) != "Literal" or type_of(each) != type_of(child) for each in listed):
        return Unknown()
    return OneOf(column, tuple(_value(each.value()) for each in listed))


def _column(expression: Any, columns: Mapping[int, str]) -> str | None:
    if kind_of(expression) != "AttributeReference" or type_of(expression) not in _TYPES:
        return None
    return columns.get(expression.exprId().id())


def _value(value: Any) -> Value:
    """Return the value of a literal; strings are objects of the JVM."""
    return value if value is None or isinstance(value, int) else str(value.toString())


def kind_of(expression: Any) -> str:
    """Return the name of an expression's class."""
    return str(expression.getClass().getSimpleName())


def type_of(expression: Any) -> str:
    """Return the type of an expression, as Spark SQL writes it."""
    return str(expression.dataType().simpleString())
