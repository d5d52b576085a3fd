"""Whether a plan may give other bounds when it is made again, because the query asks for the time.

The query that runs is planned later than the one whose bounds are used. A lower bound of
`timestamp` that grows with the time only reads too much then. Any other use may read too little.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any, Final

from spark_global.narrowing.conditions import COMPARISONS, items, kind_of, type_of
from spark_global.narrowing.walking import nodes_of

SPECIAL_TIMES: Final = re.compile(r"\b(now|today|tomorrow|yesterday)\b(?!\s*\()", re.IGNORECASE)
"""Words that Spark's parser makes a time of, in a literal. The plan does not show that."""
CLOCK_STEP_US: Final = 60_000_000
"""How much earlier such a bound is made, because clocks are also set back."""
_CLOCKS: Final = frozenset({"CurrentDate", "CurrentTimestamp", "Now"})
_MOVES: Final = frozenset(
    {
        "Cast",
        "DateAdd",
        "DateAddInterval",
        "DateAddYMInterval",
        "DateSub",
        "DatetimeSub",
        "TimestampAddInterval",
        "TimestampAddYMInterval",
    }
)
"""Operators that keep the order of times, if all of their other inputs are constant."""
_TIMES: Final = frozenset({"timestamp", "date"})


def bounds_depend_on_time(plan: Any, current: Any, timestamps: Collection[int]) -> bool:
    """Return whether an analysed plan of the JVM asks for the time in a way that may lose records.

    `current` is Spark's pattern of such expressions. `timestamps` are the ids of our columns of
    that name; they may be compared with a time that is a constant span from now.
    """
    return plan.containsPattern(current) and not all(
        _is_fine(expression, current, timestamps)
        for node in nodes_of(plan)
        for expression in items(node.expressions())
    )


def _is_fine(expression: Any, current: Any, timestamps: Collection[int]) -> bool:
    if not expression.containsPattern(current):
        return True
    if kind_of(expression) in COMPARISONS:
        sides = (expression.left(), expression.right())
        for column, time in (sides, sides[::-1]):
            is_ours = kind_of(column) == "AttributeReference" and (
                column.exprId().id() in timestamps
            )
            if is_ours and _grows(time, current):
                return True
    children = list(items(expression.children()))
    return bool(children) and all(_is_fine(each, current, timestamps) for each in children)


def _grows(expression: Any, current: Any) -> bool:
    """Return whether a time never gets earlier when it is evaluated later."""
    if type_of(expression) not in _TIMES:
        return False
    kind = kind_of(expression)
    if kind in _CLOCKS:
        return True
    asking = [each for each in items(expression.children()) if each.containsPattern(current)]
    others = [each for each in items(expression.children()) if not each.containsPattern(current)]
    return (
        kind in _MOVES
        and len(asking) == 1
        and all(each.foldable() for each in others)
        and _grows(asking[0], current)
    )
