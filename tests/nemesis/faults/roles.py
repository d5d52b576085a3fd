"""Which broker is meant: by what it does at the moment."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from tests.nemesis.cluster import Cluster

Role = Callable[[Cluster], Awaitable[tuple[int, ...]]]


async def leader(cluster: Cluster) -> tuple[int, ...]:
    """Whoever leads the first partition of a workload's topic."""
    return (await cluster.leader(cluster.watched_topic),)


async def follower(cluster: Cluster) -> tuple[int, ...]:
    """Who leads least of the workloads' partitions, and rather not the controller."""
    partitions = await cluster.partitions([cluster.watched_topic])
    controller = await cluster.controller()
    leaders = [each.leader for each in partitions.values()]
    return (min(cluster.nodes, key=lambda node: (leaders.count(node), node == controller)),)


async def controller(cluster: Cluster) -> tuple[int, ...]:
    return (await cluster.controller(),)


async def coordinator(cluster: Cluster) -> tuple[int, ...]:
    return (await cluster.coordinator(),)


async def all_of_them(cluster: Cluster) -> tuple[int, ...]:
    return tuple(cluster.nodes)


ROLES: Final[Mapping[str, Role]] = {
    "leader": leader,
    "follower": follower,
    "controller": controller,
    "coordinator": coordinator,
    "all": all_of_them,
}
