"""Answers over the copies of all datacenters: who must be waited for, and who is missing. Pure.

| answer | its time | a dead datacenter |
|---|---|---|
| strict | the least over all copies | holds it back, and is named |
| fast | the least over the copies that are not late | is named as missing, and not waited for |
| per datacenter | each copy's own | concerns no other one |

A copy is *late* if its time is unknown, or more than `late_ms` before now. A fast answer without
any copy is unknown: nothing is claimed about a datacenter that did not answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from aggregator.completeness.parts import (
    CompletenessState,
    HeldBack,
    PartCompleteness,
    state_of,
)

LATE_MS: Final = 30_000
"""The default of how long a fast answer waits for a datacenter."""


@dataclass(frozen=True, slots=True)
class GlobalAnswer:
    """Until when an answer over several copies is complete."""

    complete_through_ms: int | None
    state: CompletenessState
    held_back: HeldBack | None
    """The copy with the least time, if something holds it back."""
    missing: tuple[HeldBack, ...]
    """Copies that the answer continues without; only of fast answers."""


def strict_answer(parts: Sequence[PartCompleteness]) -> GlobalAnswer:
    """Return the answer that waits for every copy."""
    return _over(parts, ())


def fast_answer(parts: Sequence[PartCompleteness], now_ms: int, late_ms: int) -> GlobalAnswer:
    """Return the answer that continues without late copies, and names them."""
    late = [part for part in parts if is_late(part, now_ms, late_ms)]
    return _over([part for part in parts if part not in late], tuple(map(_as_missing, late)))


def is_late(part: PartCompleteness, now_ms: int, late_ms: int) -> bool:
    """Return whether a fast answer continues without this copy."""
    return part.complete_through_ms is None or part.complete_through_ms < now_ms - late_ms


def _over(parts: Sequence[PartCompleteness], missing: tuple[HeldBack, ...]) -> GlobalAnswer:
    if not parts:
        return GlobalAnswer(None, CompletenessState.UNKNOWN, None, missing)
    worst = min(parts, key=_through_or_never)
    through_ms = worst.complete_through_ms
    gaps = sum(part.gaps for part in parts)
    return GlobalAnswer(through_ms, state_of(through_ms, gaps), worst.held_back, missing)


def _as_missing(part: PartCompleteness) -> HeldBack:
    return part.held_back or HeldBack(
        part.link,
        part.datacenter,
        part.source_topic,
        None,
        "it is late",
        part.complete_through_ms,
    )


def _through_or_never(part: PartCompleteness) -> int:
    return -1 if part.complete_through_ms is None else part.complete_through_ms
