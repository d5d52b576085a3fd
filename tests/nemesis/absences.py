"""Which brokers had no live session when, as the faults had it. Pure, but for its clock.

A broker that follows nothing cannot follow a revocation. Faults tell this module what they do, and
no broker is asked.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable
from typing import Final, NamedTuple

from tests.nemesis.links import CLIENT, ZOOKEEPER, Link

SETTLE_SECONDS: Final = 10.0
"""After a fault has healed, a broker has a live session: half as long again as one lasts."""
CUT: Final = "cut off"
PAUSED: Final = "paused"
NO_ZOOKEEPER: Final = "no ZooKeeper"


class Absence(NamedTuple):
    """A broker that cannot be expected to have a live session. Times are in monotonic seconds."""

    node: int
    began: float
    ended: float


class Absences:
    """Of each broker, why it is away and since when, and when it was."""

    def __init__(
        self,
        nodes: Collection[int],
        *,
        has_zookeeper: bool,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Without ZooKeeper, brokers follow each other."""
        self._nodes = tuple(nodes)
        self._has_zookeeper = has_zookeeper
        self._clock = clock
        self._why: dict[int, set[str]] = {node: set() for node in nodes}
        self._since: dict[int, float] = {}
        self._over: list[Absence] = []

    def cut_links(self, cut: Iterable[Link]) -> None:
        """These links pass nothing from now on, and all others pass."""
        ends = [{link.sender, link.receiver} for link in cut]
        for node in self._nodes:
            others = [each - {str(node)} for each in ends if str(node) in each]
            is_away = any(
                ZOOKEEPER in other if self._has_zookeeper else CLIENT not in other
                for other in others
            )
            self._note(node, CUT, is_away=is_away)

    def paused(self, node: int, *, is_away: bool) -> None:
        """A broker was stopped by a signal, or continues."""
        self._note(node, PAUSED, is_away=is_away)

    def zookeeper_lost(self, *, is_away: bool) -> None:
        """ZooKeeper is gone for all, or is back."""
        for node in self._nodes:
            self._note(node, NO_ZOOKEEPER, is_away=is_away)

    def all(self) -> list[Absence]:
        """Every absence so far; one that lasts has no end."""
        lasting = [Absence(node, since, float("inf")) for node, since in self._since.items()]
        return [*self._over, *lasting]

    def settled_at(self) -> float:
        """When the last one ends; infinity while one lasts."""
        return max((each.ended for each in self.all()), default=0.0)

    def _note(self, node: int, why: str, *, is_away: bool) -> None:
        reasons = self._why[node]
        if is_away:
            reasons.add(why)
            self._since.setdefault(node, self._clock())
        elif why in reasons:
            reasons.discard(why)
            if not reasons:
                ended = self._clock() + SETTLE_SECONDS
                self._over.append(Absence(node, self._since.pop(node), ended))
