"""A broker's wall clock is set forward, back, and to and fro.

A mix has these faults only where they are named.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from tests.nemesis import clock
from tests.nemesis.cluster import Cluster, ClusterOptions
from tests.nemesis.faults.fault import HOLD_SECONDS, OURS, Fault

NODE: Final = 1
"""It leads what the workloads write first."""
JUMP_SECONDS: Final = 3_000
"""Less than an hour: beyond that a broker refuses timestamps (message.timestamp.after.max.ms)."""


def _set(cluster: Cluster, seconds: int) -> None:
    clock.set_offset(cluster.log_directory(NODE).parent, seconds)


async def _forward(cluster: Cluster) -> None:
    _set(cluster, JUMP_SECONDS)


async def _back(cluster: Cluster) -> None:
    _set(cluster, -JUMP_SECONDS)


async def _strobe(cluster: Cluster) -> None:
    for _ in range(20):
        _set(cluster, JUMP_SECONDS)
        await cluster.sleep(0.25)
        _set(cluster, -JUMP_SECONDS)
        await cluster.sleep(0.25)


async def _right(cluster: Cluster) -> None:
    _set(cluster, 0)


def _fault(
    name: str,
    title: str,
    inject: Callable[[Cluster], Awaitable[None]],
    hold_seconds: float = HOLD_SECONDS,
) -> Fault:
    return Fault(
        name=name,
        title=title,
        inject=inject,
        mend=_right,
        hold_seconds=hold_seconds,
        options=ClusterOptions(clock_node=NODE),
        systems=(OURS,),
        is_mixed=False,
    )


FAULTS: Final = (
    _fault("clock-forward", "a leader's clock jumps 50 minutes ahead", _forward),
    _fault("clock-back", "a leader's clock jumps 50 minutes back", _back),
    _fault("clock-strobe", "a leader's clock jumps to and fro, twice a second", _strobe, 0.0),
)
