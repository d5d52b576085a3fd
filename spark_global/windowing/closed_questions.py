"""Questions that are asked of closed windows, and what they need."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from spark_global.catalogue.question import Question
from spark_global.catalogue.records import CONFLICTS, CROSS_DATACENTER_PAIRS, TOP_KEYS


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosedQuestion:
    """What an answer needs of the records, and to which window it belongs."""

    columns: tuple[str, ...]
    time: str = "window_start"
    """Column of the answer; the window in which it lies is the answer's."""
    reach: str | None = None
    """Parameter with the seconds after a window whose records belong to its answers too."""


CLOSED_QUESTIONS: Final[Mapping[str, tuple[Question, ClosedQuestion]]] = MappingProxyType(
    {
        TOP_KEYS.name: (
            TOP_KEYS,
            ClosedQuestion(columns=("datacenter", "topic", "timestamp", "key")),
        ),
        CONFLICTS.name: (
            CONFLICTS,
            ClosedQuestion(
                columns=(
                    *("datacenter", "topic", "partition", "aggregate_offset"),
                    *("timestamp", "key", "value"),
                )
            ),
        ),
        CROSS_DATACENTER_PAIRS.name: (
            CROSS_DATACENTER_PAIRS,
            ClosedQuestion(
                columns=("datacenter", "topic", "timestamp", "key", "value"),
                time="first_timestamp",
                reach="seconds",
            ),
        ),
    }
)
"""By name. All of them leave out records without a key."""
