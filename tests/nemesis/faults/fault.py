"""What a fault is: something that is done to a cluster, and lasts until it is healed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final

from tests.nemesis.cluster import Cluster, ClusterOptions

OURS: Final = "ours"
KAFKA: Final = "kafka"
BOTH: Final = (OURS, KAFKA)
HOLD_SECONDS: Final = 9.0
"""Half as long again as a session: who is away is noticed to be."""


def _nothing() -> None:
    return None


@dataclass(frozen=True, kw_only=True)
class Fault:
    """`inject` begins it; `Cluster.heal` and then `mend` end it."""

    name: str
    title: str
    inject: Callable[[Cluster], Awaitable[object]]
    mend: Callable[[Cluster], Awaitable[object]] | None = None
    hold_seconds: float = HOLD_SECONDS
    options: ClusterOptions = field(default_factory=ClusterOptions)
    systems: tuple[str, ...] = BOTH
    is_mixed: bool = True
    """Whether a mix has it without being asked for it by name."""
    why_not: Callable[[], str | None] = _nothing
    """Why it cannot be done on this machine, or None."""
