"""The features in ApiVersions v3+ responses (KIP-584): known levels, and the finalized one.

A finalized level switches protocols of clients. `transaction.version` 2 makes them use the second
part of KIP-890 (Produce v12+, EndTxn v5). `group.version` 1 offers them KIP-848 groups. A level may
be finalized only if every broker serves it.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Feature(NamedTuple):
    """One feature. Level 0 means off."""

    name: str
    level_min: int
    level_max: int
    level_finalized: int


FEATURES: Final = (
    Feature("group.version", 0, 1, 1),
    Feature("transaction.version", 0, 2, 2),
)

FINALIZED_EPOCH: Final = 2
"""Clients keep the levels of the highest epoch. Raise it with every change of a finalized level
while clients may be connected to older brokers."""
