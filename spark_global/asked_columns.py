"""Which columns of the records a query needs, so that a read builds no other.

Spark does not tell a Python Data Source which columns it needs. So the query is first planned over
views that are empty and have the same schema, and the plan tells. A plan with an operator that is
not known here needs every column.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from spark_global.source.tables import RECORDS, RECORDS_TABLE, spark_schema

ONE_COLUMN: Final = ("partition",)
"""What a query reads that needs rows and no column of them, as `count(*)`."""
_LEAF: Final = "LogicalRDD"
_NAMES_ITS_COLUMNS: Final = frozenset(
    {
        "Aggregate",
        "Expand",
        "Filter",
        "Generate",
        "GlobalLimit",
        "Join",
        "LocalLimit",
        "Offset",
        "Project",
        "Sort",
        "Window",
    }
)
"""Operators that refer to every column which they need. Columns that pass have the same id."""
_BY_POSITION: Final = frozenset({"Union"})
"""Operators that need every column of what is below them."""


def asked_columns(session: SparkSession, query: str, views: Iterable[str]) -> tuple[str, ...]:
    """Return the columns of `records` that a query over such views needs; empty for all of them.

    Creates empty views of these names, to be replaced.
    """
    empty = session.createDataFrame(session.sparkContext.emptyRDD(), spark_schema(RECORDS_TABLE))
    for name in views:
        empty.createOrReplaceTempView(name)
    try:
        plan = session.sql(query)._jdf.queryExecution().optimizedPlan()
        nodes = list(_nodes(plan))
    except PySparkException:
        return ()  # whoever runs the query says what is wrong with it
    names = {node.nodeName() for node in nodes}
    if not names <= _NAMES_ITS_COLUMNS | _BY_POSITION | {_LEAF}:
        return ()
    needed = _ids(plan.output())
    columns: dict[int, str] = {}
    for node in nodes:
        match node.nodeName():
            case name if name == _LEAF:
                columns |= {each.exprId().id(): each.name() for each in _items(node.output())}
            case name if name in _BY_POSITION:
                for child in _items(node.children()):
                    needed |= _ids(child.output())
            case _:
                needed |= _ids(node.references().toSeq())
    found = {name for key, name in columns.items() if key in needed}
    return tuple(name for name in RECORDS.names if name in found) or ONE_COLUMN


def _nodes(plan: Any) -> Iterator[Any]:
    """Yield a plan of the JVM, what is below it, and the plans of its subqueries."""
    yield plan
    for part in (plan.children(), plan.subqueries()):
        for each in _items(part):
            yield from _nodes(each)


def _items(sequence: Any) -> Iterator[Any]:
    """Yield the elements of a Scala Seq."""
    return (sequence.apply(index) for index in range(sequence.size()))


def _ids(attributes: Any) -> set[int]:
    return {each.exprId().id() for each in _items(attributes)}
