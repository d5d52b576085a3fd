"""A rolling restart: brokers of one cluster that are changed restart one after the other. Pure.

    has no process   started as it is to be, whatever the others do
    runs             restarted when every broker of its cluster runs, those restarted before it are
                     in sync again, and no partition would have a second replica behind

What is to be restarted later is kept in the deployment as it runs. So the supervisor knows nothing
of this, and a roll that ends early leaves the others as they run, and the next `up` goes on.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from topology.deployment.deployment import BrokerView, ClusterView, Daemon, Deployment


class PartitionState(NamedTuple):
    """A partition as the controller knows it; brokers are ids, leader -1 is none."""

    name: str
    """Topic and partition: flights-0."""
    leader: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Restart:
    """Have these run as they are to be, now."""

    brokers: tuple[BrokerView, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """Not yet; what is waited for, one line each."""

    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Done:
    """Every broker runs as it is to, and is in sync."""


Decision = Restart | Wait | Done


def rolling_brokers(
    deployment: Deployment, running: Mapping[str, Daemon]
) -> dict[str, tuple[BrokerView, ...]]:
    """Brokers to be restarted one after the other, by cluster; `running` is by daemon key.

    Not of clusters with one broker. Nor those that others cannot go on beside: whose ZooKeeper
    moves to another port, or that hold a port which something else is to have.
    """
    wanted = {daemon.key: daemon for daemon in deployment.daemons}
    owners = {address: daemon.key for daemon in deployment.daemons for address in daemon.ports}

    def rolls(key: str) -> bool:
        if key not in running or running[key].digest == wanted[key].digest:
            return False
        before = (running.get(needed) for needed in wanted[key].after)
        zookeeper_stays = all(
            each is None or each.ports == wanted[each.key].ports for each in before
        )
        return zookeeper_stays and all(
            owners.get(address, key) == key for address in running[key].ports
        )

    found = {
        cluster.name: tuple(broker for broker in cluster.brokers if rolls(broker.daemon))
        for cluster in deployment.clusters
        if len(cluster.brokers) > 1
    }
    return {name: brokers for name, brokers in found.items() if brokers}


def staged(
    deployment: Deployment,
    before: Deployment | None,
    running: Mapping[str, Daemon],
    later: Collection[BrokerView],
) -> Deployment:
    """The deployment with the brokers of `later` as they run. Their clusters are found at the
    addresses that `before` has as well."""
    kept = {broker.daemon for broker in later}
    former = {cluster.name: cluster for cluster in before.clusters} if before is not None else {}
    return replace(
        deployment,
        daemons=tuple(
            running[each.key] if each.key in kept else each for each in deployment.daemons
        ),
        clusters=tuple(
            _at_both_places(each, former.get(each.name))
            if any(broker.daemon in kept for broker in each.brokers)
            else each
            for each in deployment.clusters
        ),
    )


def _at_both_places(cluster: ClusterView, former: ClusterView | None) -> ClusterView:
    if former is None:
        return cluster
    addresses = dict.fromkeys([*cluster.bootstrap.split(","), *former.bootstrap.split(",")])
    return replace(cluster, bootstrap=",".join(addresses))


def kept_replicas(
    partitions: Iterable[PartitionState], brokers: Iterable[BrokerView]
) -> list[PartitionState]:
    """The partitions without the replicas on brokers that are no part of the cluster any more.

    Who abandons a broker gives up what it has; a roll that waited for it would wait for ever.
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
    """The next step of a cluster's roll.

    `waiting` are the brokers that still run as they did, `restarted` those that do no more.
    `not_running` are the labels of the cluster's daemons, its ZooKeeper's among them, that are
    not ready, with their states. `has_process` are keys of daemons. `partitions` are None where
    the cluster does not answer.
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


def _behind(partitions: Iterable[PartitionState], broker_id: int) -> tuple[str, ...]:
    """Partitions that the broker has a replica of, and where it is not in sync or nobody leads."""
    return tuple(
        _sentence(each)
        for each in partitions
        if broker_id in each.replicas and (broker_id not in each.isr or each.leader < 0)
    )


def _exposed(partitions: Iterable[PartitionState], broker_id: int) -> tuple[str, ...]:
    """Partitions that the broker is in sync for while another replica is not: with it they would
    lose a second one."""
    return tuple(
        _sentence(each)
        for each in partitions
        if broker_id in each.isr and not {*each.replicas} <= {*each.isr}
    )


def _sentence(partition: PartitionState) -> str:
    missing = sorted({*partition.replicas} - {*partition.isr})
    if not missing:
        return f"{partition.name} has no leader"
    return f"{partition.name} is behind on broker {', '.join(map(str, missing))}"
