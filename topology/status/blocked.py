"""What cannot run on this host before daemons of other hosts run. Pure.

ZooKeeper node            needs a majority of its ensemble, and node 1 while the ensemble is new
broker                    needs the same of its ZooKeeper's nodes
mirror worker, aggregator needs one broker of its cluster; while it starts, it may need more
link                      needs one broker of its source and one of its target

A worker joins a group, whose topic a cluster creates when it has as many brokers as replicas.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

from topology.deployment.deployment import Daemon, Deployment

ANSWERS: Final = "answers"
NOT_STARTED: Final = "not_started"
UNREACHABLE: Final = "unreachable"
UNKNOWN: Final = "unknown"


class Peer(NamedTuple):
    """What is known about a daemon of another host."""

    state: str
    """One of the constants above."""
    reason: str | None = None


Peers = Mapping[str, Peer]
"""Daemons of other hosts, by key."""


def blocked_daemons(
    deployment: Deployment, peers: Peers, new_nodes: Collection[str] = ()
) -> dict[str, str]:
    """Return the daemons of this host that wait for other hosts, by key, with the reason.

    `new_nodes` are the ZooKeeper nodes here, by key, whose ensemble still needs node 1.
    """
    if not deployment.elsewhere:
        return {}
    blocked: dict[str, str] = {}
    # The daemons are in start order, so what one of them needs was decided before it.
    for daemon in deployment.daemons:
        needed = daemon.quorum or daemon.after
        missing = [key for key in needed if _is_missing(key, peers, blocked)]
        lacks_first = daemon.key in new_nodes and needed[0] in missing
        if missing and (lacks_first or not _are_enough(daemon, len(needed) - len(missing))):
            blocked[daemon.key] = f"it waits for {_names(deployment, missing, peers)}"
    return blocked


def _are_enough(daemon: Daemon, there: int) -> bool:
    """Return whether a daemon can run with so many of those that it needs."""
    if daemon.role in ("zookeeper", "broker"):
        return 2 * there > len(daemon.quorum or daemon.after)
    return there > 0


def held_up_daemons(
    deployment: Deployment, peers: Peers, blocked: Mapping[str, str]
) -> dict[str, str]:
    """Return the daemons that may need missing brokers to start, by key, with the reason.

    Those of `blocked` are not among them.
    """
    found = {}
    for daemon in deployment.daemons:
        if daemon.role in ("zookeeper", "broker") or daemon.key in blocked:
            continue
        missing = [key for key in daemon.after if _is_missing(key, peers, blocked)]
        if missing:
            found[daemon.key] = f"it waits for {_names(deployment, missing, peers)}"
    return found


def blocked_clusters(
    deployment: Deployment, peers: Peers, blocked: Mapping[str, str]
) -> dict[str, str]:
    """Return our own clusters without a broker that can run, by name, with the reason."""
    found = {}
    for cluster in deployment.clusters:
        keys = [broker.daemon for broker in cluster.brokers]
        if keys and all(_is_missing(key, peers, blocked) for key in keys):
            found[cluster.name] = f"it waits for {_names(deployment, keys, peers)}"
    return found


def _is_missing(key: str, peers: Peers, blocked: Mapping[str, str]) -> bool:
    return key in blocked or (key in peers and peers[key].state in (NOT_STARTED, UNREACHABLE))


def _names(deployment: Deployment, keys: list[str], peers: Peers) -> str:
    return "; ".join(_name(deployment.daemon(key), peers) for key in keys)


def _name(daemon: Daemon, peers: Peers) -> str:
    peer = peers.get(daemon.key)
    if peer is None:
        return daemon.label
    state = "not started yet" if peer.state == NOT_STARTED else peer.reason or peer.state
    return f"{daemon.label} on {daemon.host}: {state}"
