"""The network: cut off, cut one way, halved, slow, flapping."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from tests.nemesis.cluster import Cluster
from tests.nemesis.faults.fault import OURS, Fault
from tests.nemesis.faults.roles import ROLES, Role, controller, leader
from tests.nemesis.links import CLIENT, ZOOKEEPER, Link, both_ways, isolated

SLOW_MS: Final = 100
"""Each way, so that a round trip takes twice as long."""
LOSS: Final = 0.01
"""Share of packets."""


def _cutting(
    role: Role, links: Callable[[Cluster, str], Iterable[Link]]
) -> Callable[[Cluster], Awaitable[None]]:
    async def inject(cluster: Cluster) -> None:
        (node, *_) = await role(cluster)
        await cluster.network.cut(links(cluster, str(node)))

    return inject


def _from_peers(cluster: Cluster, node: str) -> Iterable[Link]:
    return isolated(node, cluster.peers_of(int(node)))


def _from_everybody(cluster: Cluster, node: str) -> Iterable[Link]:
    return isolated(node, [*cluster.peers_of(int(node)), CLIENT])


def _from_brokers(cluster: Cluster, node: str) -> Iterable[Link]:
    """ZooKeeper and clients still hear it."""
    return isolated(node, cluster.endpoints)


def _cannot_send(cluster: Cluster, node: str) -> Iterable[Link]:
    return [Link(node, peer) for peer in cluster.peers_of(int(node))]


def _cannot_hear(cluster: Cluster, node: str) -> Iterable[Link]:
    return [Link(peer, node) for peer in cluster.peers_of(int(node))]


def _from_clients(cluster: Cluster, node: str) -> Iterable[Link]:
    return isolated(node, [CLIENT])


def _from_zookeeper(cluster: Cluster, node: str) -> Iterable[Link]:
    return isolated(node, [ZOOKEEPER])


def _bridge(cluster: Cluster, node: str) -> Iterable[Link]:
    """The two others do not hear each other; both hear this one."""
    one, other = (each for each in cluster.endpoints if each != node)
    return both_ways([(one, other)])


async def _slow_links(cluster: Cluster, loss: float = 0.0) -> None:
    pairs = [(a, b) for a in cluster.endpoints for b in cluster.endpoints if a < b]
    pairs += [(CLIENT, a) for a in cluster.endpoints]
    await cluster.network.slow_down(both_ways(pairs), SLOW_MS, loss=loss)


async def _lossy_links(cluster: Cluster) -> None:
    await _slow_links(cluster, LOSS)


async def _flapping(cluster: Cluster) -> None:
    """Each broker is cut off from its peers for a second, five times around."""
    for _ in range(5):
        for node in cluster.endpoints:
            await cluster.network.cut(_from_peers(cluster, node))
            await cluster.sleep(1.0)
            await cluster.network.heal()
            await cluster.sleep(0.3)


async def _zookeeper_flapping(cluster: Cluster) -> None:
    """Connections to ZooKeeper are lost and found: SUSPENDED, never LOST."""
    for _ in range(5):
        await cluster.network.cut(isolated(ZOOKEEPER, cluster.endpoints))
        await cluster.sleep(2.5)
        await cluster.network.heal()
        await cluster.sleep(0.5)


def _partition(
    name: str,
    title: str,
    role: Role,
    links: Callable[[Cluster, str], Iterable[Link]],
    systems: tuple[str, ...] = (OURS, "kafka"),
) -> Fault:
    return Fault(name=name, title=title, inject=_cutting(role, links), systems=systems)


FAULTS: Final = (
    _partition("cut-leader", "the leader cut off from brokers and ZooKeeper", leader, _from_peers),
    _partition("cut-leader-alone", "the leader cut off from everybody", leader, _from_everybody),
    _partition(
        "cut-leader-brokers",
        "the leader cut off from brokers, ZooKeeper and clients reach it",
        leader,
        _from_brokers,
        (OURS,),
    ),
    _partition("cut-leader-sends", "nothing the leader sends arrives", leader, _cannot_send),
    _partition("cut-leader-hears", "nothing arrives at the leader", leader, _cannot_hear),
    _partition("cut-controller", "the controller cut off", controller, _from_peers),
    _partition(
        "cut-follower", "the follower cut off", ROLES["follower"], _from_peers
    ),
    _partition(
        "cut-coordinator", "the coordinator cut off", ROLES["coordinator"], _from_everybody
    ),
    _partition("cut-clients", "the leader cut off from clients only", leader, _from_clients),
    _partition(
        "cut-zookeeper", "the leader cut off from ZooKeeper only", leader, _from_zookeeper, (OURS,)
    ),
    _partition("cut-bridge", "two brokers hear only the third", leader, _bridge),
    Fault(name="slow-links", title=f"every link {SLOW_MS} ms slower", inject=_slow_links),
    Fault(
        name="lossy-links",
        title=f"every link {SLOW_MS} ms slower, and {LOSS:.0%} of packets lost",
        inject=_lossy_links,
    ),
    Fault(
        name="flapping-links",
        title="each broker cut off for a second, in turn",
        inject=_flapping,
        hold_seconds=0.0,
    ),
    Fault(
        name="flapping-zookeeper",
        title="ZooKeeper cut off for 2.5 s, five times",
        inject=_zookeeper_flapping,
        hold_seconds=0.0,
        systems=(OURS,),
    ),
)  # fmt: skip
