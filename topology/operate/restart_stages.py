"""The stages of a rolling restart: changed brokers of a cluster restart one by one. Pure.

    a broker without a process   starts with its new settings at once
    a broker that runs           restarts when every broker of its cluster runs, all brokers that
                                 were restarted before are in sync again, and no partition would
                                 have a second replica out of sync

The brokers that restart later stay in the deployment as they run now. So the supervisor does not
know about the roll. If the roll ends early, they keep running as they do, and the next `up`
continues.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from topology.deployment.deployment import BrokerView, ClusterView, Daemon, Deployment


class PartitionState(NamedTuple):
    """A partition as the controller knows it: broker ids, and leader -1 without a leader."""

    name: str
    """Topic and partition: flights-0."""
    leader: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Restart:
    """Restart these brokers now with their new settings."""

    brokers: tuple[BrokerView, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """Wait, for these reasons, one line each."""

    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Done:
    """Every broker runs with its new settings and is in sync."""


Decision = Restart | Wait | Done


def rolling_brokers(
    deployment: Deployment, running: Mapping[str, Daemon]
) -> dict[str, tuple[BrokerView, ...]]:
    """Return the brokers that restart one after the other, by cluster. `running` is by daemon key.

    Clusters with one broker have none. A broker restarts together with the others if they could
    not run beside it: its ZooKeeper moves to another port, or another daemon takes over one of its
    ports.
    """
    wanted = {daemon.key: daemon for daemon in deployment.daemons}
    owners = {address: daemon.key for daemon in deployment.daemons for address in daemon.ports}

    def rolls(key: str) -> bool:
        if key not in running or running[key].digest == wanted[key].digest:
            return False
        needed = (wanted[each] for each in wanted[key].after if each in wanted)
        return all(_stays(each, running) for each in needed) and all(
            owners.get(address, key) == key for address in running[key].ports
        )

    found = {
        cluster.name: tuple(broker for broker in cluster.brokers if rolls(broker.daemon))
        for cluster in deployment.clusters
        if len(cluster.brokers) > 1
    }
    return {name: brokers for name, brokers in found.items() if brokers}


def _stays(zookeeper: Daemon, running: Mapping[str, Daemon]) -> bool:
    """Return whether brokers that know a node as it runs find it afterwards."""
    before = running.get(zookeeper.key)
    if before is not None:
        return before.ports == zookeeper.ports
    # Node 1 of an ensemble may have been the only one.
    single, _, number = zookeeper.key.partition(".")
    former = running.get(single) if number == "1" else None
    return former is None or former.ready_zookeeper == zookeeper.ready_zookeeper


def staged(
    deployment: Deployment,
    before: Deployment | None,
    running: Mapping[str, Daemon],
    later: Collection[BrokerView],
) -> Deployment:
    """Return the deployment with the brokers of `later` as they run now.

    Their clusters have the bootstrap addresses of `before` as well.
    """
    kept = {broker.daemon for broker in later}
    former = {cluster.name: cluster for cluster in before.clusters} if before is not None else {}
    return replace(
        deployment,
        daemons=tuple(
            running[each.key] if each.key in kept else each for each in deployment.daemons
        ),
        clusters=tuple(
            _with_former_addresses(each, former.get(each.name))
            if any(broker.daemon in kept for broker in each.brokers)
            else each
            for each in deployment.clusters
        ),
    )


def _with_former_addresses(cluster: ClusterView, former: ClusterView | None) -> ClusterView:
    if former is None:
        return cluster
    addresses = dict.fromkeys([*cluster.bootstrap.split(","), *former.bootstrap.split(",")])
    return replace(cluster, bootstrap=",".join(addresses))


def kept_replicas(
    partitions: Iterable[PartitionState], brokers: Iterable[BrokerView]
) -> list[PartitionState]:
    """Return the partitions without their replicas on brokers that the cluster no longer has.

    Those replicas were abandoned, and a roll that waited for them would wait for ever.
    """
    ids = {broker.id for broker in brokers}
    return [
        each._replace(replicas=tuple(replica for replica in each.replicas if replica in ids))
        for each in partitions
    ]


def decide(
    waiting: Sequence[BrokerView],
    restarted: Sequence[BrokerView],
    not_running: Mapping[str, str],
    has_process: Collection[str],
    partitions: Sequence[PartitionState] | None,
) -> Decision:
    """Return the next step of a cluster's roll.

    `waiting` are the brokers that still run with their old settings, `restarted` the others.
    `not_running` holds the daemons of the cluster and of its ZooKeeper that are not ready: label to
    state. `has_process` are keys of daemons. `partitions` is None if the cluster does not respond.
    """
    down = tuple(broker for broker in waiting if broker.daemon not in has_process)
    if down:
        return Restart(brokers=down)
    if not_running:
        return Wait(reasons=tuple(f"{label}: {state}" for label, state in not_running.items()))
    if partitions is None:
        return Wait(reasons=("its controller does not say which replicas are in sync",))
    behind = tuple(dict.fromkeys(s for each in restarted for s in _behind(partitions, each.id)))
    if behind:
        return Wait(reasons=behind)
    exposed: tuple[str, ...] = ()
    for broker in waiting:
        exposed = _exposed(partitions, broker.id)
        if not exposed:
            return Restart(brokers=(broker,))
    return Wait(reasons=exposed) if waiting else Done()


def out_of_sync(partitions: Iterable[PartitionState]) -> tuple[str, ...]:
    """Return the partitions that are not in sync on every replica, or that have no leader."""
    return tuple(
        sentence(each)
        for each in partitions
        if each.leader < 0 or not {*each.replicas} <= {*each.isr}
    )


def _behind(partitions: Iterable[PartitionState], broker_id: int) -> tuple[str, ...]:
    """Return the broker's partitions in which it is not in sync, or that have no leader."""
    return tuple(
        sentence(each)
        for each in partitions
        if broker_id in each.replicas and (broker_id not in each.isr or each.leader < 0)
    )


def _exposed(partitions: Iterable[PartitionState], broker_id: int) -> tuple[str, ...]:
    """Return the partitions with an out-of-sync replica for which the broker is in sync.

    Its restart would take a second replica out of sync.
    """
    return tuple(
        sentence(each)
        for each in partitions
        if broker_id in each.isr and not {*each.replicas} <= {*each.isr}
    )


def sentence(partition: PartitionState) -> str:
    """Return what is wrong with a partition that is not in sync, or has no leader."""
    missing = sorted({*partition.replicas} - {*partition.isr})
    if not missing:
        return f"{partition.name} has no leader"
    return f"{partition.name} is behind on broker {', '.join(map(str, missing))}"
