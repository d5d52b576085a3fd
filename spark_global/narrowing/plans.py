"""What a query needs of each load of `records`, as Spark's plan of the query tells.

The query is planned over frames that are empty and have the same schema. The plan says which
columns of each frame are used, and which conditions stand directly above it. A load that several
parts of the query use needs what any of them needs.

A plan with an operator that is not known here needs everything. So does, as far as bounds go, a
plan that `clock.py` warns of.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from spark_global.narrowing.clock import CLOCK_STEP_US, SPECIAL_TIMES, bounds_depend_on_time
from spark_global.narrowing.conditions import items, predicate_of
from spark_global.narrowing.predicates import Every, Predicate, hull_of, region_of
from spark_global.narrowing.regions import Region
from spark_global.narrowing.walking import columns_of, ids_of, nodes_of
from spark_global.source.tables import RECORDS, RECORDS_TABLE, spark_schema

ONE_COLUMN: Final = ("partition",)
"""What a query reads that needs rows and no column of them, as `count(*)`."""
_LEAF: Final = "LogicalRDD"
_NAMES_ITS_COLUMNS: Final = frozenset(
    {
        "Aggregate",
        "ArrowEvalPython",
        "BatchEvalPython",
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
_KEEPS_ROWS: Final = frozenset({"ArrowEvalPython", "BatchEvalPython", "Project"})
"""Operators through which a condition holds for what is below, where it names the same columns."""
_WITHOUT_INPUT: Final = frozenset({"LocalRelation", "OneRowRelation", "Range"})
_NOT_NARROWER: Final = frozenset(
    {"Deduplicate", "Distinct", "RepartitionByExpression", "Sample", *_WITHOUT_INPUT}
)
"""Further operators whose plan is seen whole, so that no use of a load is missed."""


@dataclass(frozen=True, slots=True)
class Need:
    """What a query needs of one load."""

    columns: tuple[str, ...] = ()
    """Columns of `records`; empty for all of them."""
    region: Region = field(default_factory=Region)
    """Where the needed records lie."""


class Rehearsal:
    """Empty frames in the place of loads, and what a query over them needs."""

    def __init__(self, session: SparkSession) -> None:
        self._session = session
        self._loads: dict[int, str] = {}
        """By the id of the empty RDD."""

    def records(self, load: str) -> DataFrame:
        """Return an empty frame in the place of a load of `records`."""
        frame = self.table(RECORDS_TABLE)
        self._loads[_plan_of(frame).analyzed().rdd().id()] = load
        return frame

    def table(self, table: str) -> DataFrame:
        """Return an empty frame in the place of another load, of which nothing is asked."""
        return self.empty(spark_schema(table))

    def empty(self, schema: StructType) -> DataFrame:
        """Return an empty frame of any columns, of which nothing is asked."""
        return self._session.createDataFrame(self._session.sparkContext.emptyRDD(), schema)

    def needs_of_query(self, query: str) -> Mapping[str, Need]:
        """Return what a query needs, by load; a load that has no entry is needed whole.

        The query is only planned, also if it is a command. There is no entry for any load if
        Spark does not plan it: whoever runs the query says what is wrong with it.
        """
        java: Any = self._session._jsparkSession
        jvm: Any = self._session._jvm
        try:
            state = java.sessionState()
            skip = jvm.org.apache.spark.sql.execution.CommandExecutionMode.SKIP()
            execution = state.executePlan(state.sqlParser().parsePlan(query), skip)
            return self._needs(execution, tells_time=bool(SPECIAL_TIMES.search(query)))
        except (PySparkException, Py4JError):
            return {}

    def needs_of_frame(self, frame: DataFrame) -> Mapping[str, Need]:
        """Return what a frame over the frames of this rehearsal needs, as `needs_of_query`."""
        try:
            return self._needs(_plan_of(frame), tells_time=False)
        except (PySparkException, Py4JError):
            return {}

    def _needs(self, execution: Any, *, tells_time: bool) -> dict[str, Need]:
        jvm: Any = self._session._jvm
        current = jvm.org.apache.spark.sql.catalyst.trees.TreePattern.CURRENT_LIKE()
        analyzed = execution.analyzed()
        asks = analyzed.containsPattern(current)
        if asks and not tells_time:
            tells_time = bounds_depend_on_time(analyzed, current, self._timestamps(analyzed))
        plan = execution.optimizedPlan()
        nodes = list(nodes_of(plan))
        names = {node.nodeName() for node in nodes}
        whole_plan = _NAMES_ITS_COLUMNS | _BY_POSITION | {_LEAF}
        columns = self._columns(plan, nodes) if names <= whole_plan else {}
        regions: dict[str, Region] = {}
        if names <= whole_plan | _NOT_NARROWER and not tells_time:
            regions = self._regions(plan)
        if asks:
            regions = {load: each.from_earlier(CLOCK_STEP_US) for load, each in regions.items()}
        return {
            load: Need(columns.get(load, ()), regions.get(load, Region()))
            for load in columns.keys() | regions.keys()
        }

    def _timestamps(self, plan: Any) -> set[int]:
        leaves = (node for node in nodes_of(plan) if node.nodeName() == _LEAF)
        return {
            key
            for leaf in leaves
            if self._load(leaf) is not None
            for key, name in columns_of(leaf).items()
            if name == "timestamp"
        }

    def _load(self, leaf: Any) -> str | None:
        return self._loads.get(leaf.rdd().id())

    def _columns(self, plan: Any, nodes: Sequence[Any]) -> dict[str, tuple[str, ...]]:
        needed = ids_of(plan.output())
        of_loads: dict[str, dict[int, str]] = {}
        for node in nodes:
            match node.nodeName():
                case name if name == _LEAF:
                    if (load := self._load(node)) is not None:
                        of_loads.setdefault(load, {}).update(columns_of(node))
                case name if name in _BY_POSITION:
                    for child in items(node.children()):
                        needed |= ids_of(child.output())
                case _:
                    needed |= ids_of(node.references().toSeq())
        found = {
            load: {name for key, name in columns.items() if key in needed}
            for load, columns in of_loads.items()
        }
        return {
            load: tuple(name for name in RECORDS.names if name in names) or ONE_COLUMN
            for load, names in found.items()
        }

    def _regions(self, plan: Any) -> dict[str, Region]:
        uses: dict[str, list[Region]] = {}
        for leaf, conditions in _leaves(plan, ()):
            if (load := self._load(leaf)) is not None:
                named = columns_of(leaf)
                each: tuple[Predicate, ...] = tuple(predicate_of(one, named) for one in conditions)
                uses.setdefault(load, []).append(region_of(Every(each)))
        return {load: hull_of(regions) for load, regions in uses.items()}


def _plan_of(frame: DataFrame) -> Any:
    java: Any = frame._jdf
    return java.queryExecution()


def _leaves(plan: Any, above: tuple[Any, ...]) -> Iterator[tuple[Any, tuple[Any, ...]]]:
    """Yield every leaf of our frames with the conditions that each of its rows must fulfil."""
    name = plan.nodeName()
    if name == _LEAF:
        yield plan, above
    for each in items(plan.subqueries()):
        yield from _leaves(each, ())
    if name == "Filter":
        above = (*above, plan.condition())
    elif name not in _KEEPS_ROWS:
        above = ()
    for each in items(plan.children()):
        yield from _leaves(each, above)
