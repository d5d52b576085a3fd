"""Which faults happen when: a row of the table, or a mix from a seed. Pure."""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence
from typing import Final, NamedTuple

CALM_SECONDS: Final = 4.0
"""After healing and progress, before the next fault."""
PAIR_SHARE: Final = 0.3
"""Of the steps of a mix: two faults at once."""
STEP_OVERHEAD_SECONDS: Final = 8.0
"""What healing takes in a mix, about."""


class Step(NamedTuple):
    """Faults that are injected together, held, and healed together."""

    faults: tuple[str, ...]
    hold_seconds: float
    calm_seconds: float = CALM_SECONDS

    def __str__(self) -> str:
        return f"{' + '.join(self.faults)} for {self.hold_seconds:.1f} s"


def mix(
    faults: Sequence[str], seconds: float, seed: int, *, alone: Collection[str] = ()
) -> list[Step]:
    """Steps that take about so many seconds; the same for the same arguments.

    Faults that are `alone` are never paired: they do and undo several things by themselves.
    """
    randomly = random.Random(seed)
    steps: list[Step] = []
    left = seconds
    while left > 0:
        first = randomly.choice(sorted(faults))
        others = sorted(set(faults) - {first} - set(alone))
        is_pair = randomly.random() < PAIR_SHARE and first not in alone and others
        step = Step(
            (first, randomly.choice(others)) if is_pair else (first,),
            hold_seconds=round(randomly.uniform(0.5, 15.0), 1),
            calm_seconds=round(randomly.uniform(0.0, 2 * CALM_SECONDS), 1),
        )
        steps.append(step)
        left -= step.hold_seconds + step.calm_seconds + STEP_OVERHEAD_SECONDS
    return steps
