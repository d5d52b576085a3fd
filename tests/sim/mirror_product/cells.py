"""The cell that a seed plays: one combination of the mirror's modes.

seed < len(covering())   rows that contain every pair of values of two dimensions
larger seeds             the whole product, cell by cell, in a shuffled order
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
"""Namings in which the source of a link is the target of another one."""
LOSSES: Final = frozenset({"cleaned", "retention", "recreated"})


@dataclass(frozen=True, slots=True)
class Cell:
    """One combination."""

    naming: str
    """The names of copies, and with them the clusters; see `topology`."""
    state: str
    """What happens to the source's logs."""
    sharing: str
    """Each link has its own worker, one worker has all links, or several share partitions."""
    flows: str
    """The number of partitions."""
    fault: str


def is_allowed(row: Row) -> bool:
    """Return whether a combination makes sense.

    If the source of a link is the target of another, a loss at the source is a loss at that target
    too: it does not keep what it acknowledged.
    """
    if row["naming"] not in BOTH_WAYS:
        return True
    return row["state"] not in LOSSES and row["fault"] not in ("deletions", "foreign", "storm")


@cache
def covering() -> tuple[Row, ...]:
    """Return the cells of the first seeds."""
    return tuple(covering_rows(DIMENSIONS, is_allowed, Random(0)))


@cache
def _product() -> tuple[Row, ...]:
    rows = product_rows(DIMENSIONS, is_allowed)
    Random(0).shuffle(rows)
    return tuple(rows)


def cell_of(seed: int) -> Cell:
    """Return the cell that a seed plays."""
    first = covering()
    if seed < len(first):
        return Cell(**first[seed])
    rows = _product()
    return Cell(**rows[(seed - len(first)) % len(rows)])
