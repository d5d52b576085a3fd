"""What a seed plays: one cell of the product of the mirror's modes.

seed < len(COVERING)   rows in which every pair of values of two dimensions occurs
beyond                 the whole product, one cell after another, in a mixed order
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from random import Random
from typing import Final

from tests.sim.mirror_product.pairwise import Row, covering_rows, product_rows

NAMINGS: Final = ("prefixed", "identity", "map", "merge", "probes", "ring", "pair", "hops")
STATES: Final = (
    "plain", "compacted", "transactions", "cleaned", "retention", "recreated", "grown",
)  # fmt: skip
SHARINGS: Final = ("own", "one", "several")
FLOWS: Final = ("few", "many", "crowd")
FAULTS: Final = (
    "none", "network", "kill", "unmapped", "overlap", "leaders", "deletions", "foreign", "storm",
)  # fmt: skip
DIMENSIONS: Final = {
    "naming": NAMINGS,
    "state": STATES,
    "sharing": SHARINGS,
    "flows": FLOWS,
    "fault": FAULTS,
}
BOTH_WAYS: Final = frozenset({"ring", "pair", "hops"})
"""Namings in which the source of a link is the target of another."""
LOSSES: Final = frozenset({"cleaned", "retention", "recreated"})


@dataclass(frozen=True, slots=True)
class Cell:
    """One combination."""

    naming: str
    """What the copies are called, and so which clusters there are; see `topology`."""
    state: str
    """What becomes of the source's logs."""
    sharing: str
    """Whether each link has a worker, one worker has all links, or several share the partitions."""
    flows: str
    """How many partitions there are."""
    fault: str


def is_allowed(row: Row) -> bool:
    """Whether a combination has a meaning.

    Where the source of a link is the target of another, what the source loses is lost there too:
    such a target is no copy of anything any more, by its own doing.
    """
    if row["naming"] not in BOTH_WAYS:
        return True
    return row["state"] not in LOSSES and row["fault"] not in ("deletions", "foreign", "storm")


@cache
def covering() -> tuple[Row, ...]:
    """The cells of the first seeds."""
    return tuple(covering_rows(DIMENSIONS, is_allowed, Random(0)))


@cache
def _product() -> tuple[Row, ...]:
    rows = product_rows(DIMENSIONS, is_allowed)
    Random(0).shuffle(rows)
    return tuple(rows)


def cell_of(seed: int) -> Cell:
    """The cell that a seed plays."""
    first = covering()
    if seed < len(first):
        return Cell(**first[seed])
    rows = _product()
    return Cell(**rows[(seed - len(first)) % len(rows)])
