"""The stalled partitions of a link with their reasons, the worst first, up to a limit. Pure."""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from local_cluster.client.model import TopicPartition
from mirror_maker.model import FlowState
from mirror_maker.rules.trouble import Trouble

SHOWN_MAX: Final = 10
"""Partitions of a link that are listed with their reasons; the others are only counted."""

_WORST_FIRST: Final = (
    FlowState.FAILED,
    FlowState.PAUSED,
    FlowState.SOURCE_GONE,
    FlowState.STARTING,
)
"""States in which nothing is copied. STARTING counts only with a reason: it waits for something."""


class StalledPartition(NamedTuple):
    """A partition from which nothing is copied."""

    source: TopicPartition
    state: FlowState
    trouble: Trouble | None
    reason: str | None

    def sentence(self) -> str:
        """Return e.g. `orders-3 is FAILED (recreated): source topic orders was deleted ...`."""
        trouble = f" ({self.trouble})" if self.trouble is not None else ""
        return f"{self.source} is {self.state}{trouble}: {self.reason or 'the reason is unknown'}"

    def as_json(self) -> dict[str, Any]:
        return {
            "topic": self.source.topic,
            "partition": self.source.partition,
            "state": self.state.value,
            "trouble": self.trouble.value if self.trouble is not None else None,
            "reason": self.reason,
        }


class StalledPartitions(NamedTuple):
    """The worst partitions of a link, and how many more there are."""

    worst: tuple[StalledPartition, ...]
    more: int

    def sentence(self) -> str | None:
        """Return a sentence about the worst one and the number of the others; None if there is
        none.
        """
        if not self.worst:
            return None
        others = len(self.worst) - 1 + self.more
        if not others:
            return self.worst[0].sentence()
        more = "1 more partition is stopped" if others == 1 else f"{others} more are stopped"
        return f"{self.worst[0].sentence()}; {more}"


def find_stalled(flows: Iterable[StalledPartition]) -> StalledPartitions:
    """Return the worst of these, by state and then by name."""
    found = [
        flow
        for flow in flows
        if flow.state in _WORST_FIRST
        and (flow.state is not FlowState.STARTING or flow.reason is not None)
    ]
    worst = heapq.nsmallest(
        SHOWN_MAX, found, key=lambda flow: (_WORST_FIRST.index(flow.state), flow.source)
    )
    return StalledPartitions(tuple(worst), len(found) - len(worst))
