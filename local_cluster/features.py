"""The features that ApiVersions v3+ tells (KIP-584): which levels are known, which one is on.

A finalized level switches protocols of clients: `transaction.version` 2 makes them use KIP-890's
second part (Produce v12+, EndTxn v5), `group.version` 1 offers them KIP-848 groups. A level may
be finalized only when every broker serves what it promises.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Feature(NamedTuple):
    """One feature; the level 0 means that it is off."""

    name: str
    level_min: int
    level_max: int
    level_finalized: int


FEATURES: Final = (
    Feature("group.version", 0, 1, 1),
    Feature("transaction.version", 0, 2, 2),
)

FINALIZED_EPOCH: Final = 2
"""Clients keep what they were told under the highest epoch: raise it with any finalized level
that is lowered or raised while clients may be connected to older brokers."""
