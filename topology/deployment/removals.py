"""What an edited topology removes: brokers and log directories with replicas, the last rights.

A broker that stops for good takes its replicas along: its partitions have fewer replicas, and a
partition without another replica is lost. `up` therefore stops such a broker only after
`rebalance --drain` has moved its replicas. If a broker finds a replica in none of its log
directories, it creates an empty one. That is a loss if it was the last in-sync replica. `up`
therefore keeps every log directory that holds replicas.

A cluster whose last users, ACLs and quotas leave the file is still compared, so that `up` deletes
what it created there.

Pure, except `count_replicas`. `topology/operate/controller_metadata.py` asks the cluster how many
replicas a removed broker holds.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from local_cluster.client.auth.security import PLAINTEXT, ClientSecurity
from local_cluster.log.partition.partition_directory import parse_log_name
from topology.deployment.deployment import ClusterView, Daemon, Deployment
from topology.deployment.plan import Step


class RemovedBroker(NamedTuple):
    """A broker that the topology no longer has, of a cluster that it still has."""

    cluster: str
    broker_id: int
    daemon: str
    """Key of its daemon."""
    bootstrap: str
    """Bootstrap addresses of its cluster as it runs now."""
    security: ClientSecurity = PLAINTEXT

    def sentence(self, held: int | None) -> str:
        """Return why it cannot stop; `held` is None if its cluster does not respond."""
        who = f"broker {self.broker_id} of {self.cluster}"
        if held is None:
            return f"{who} may still hold replicas; its cluster does not answer"
        move = f"`heliograph rebalance {self.cluster} --drain {self.broker_id}` moves them"
        return f"{who} still holds {held} replicas; {move}"


class RemovedLogDir(NamedTuple):
    """A log directory that the topology no longer has, of a broker that it still has."""

    broker: str
    """Label of its daemon: broker 1 of ewr."""
    path: str


def removed_brokers(before: Deployment, after: Deployment) -> list[RemovedBroker]:
    """Return the brokers of `before` that `after` lacks.

    The brokers of a cluster that is removed as a whole are not among them.
    """
    kept = {cluster.name: {broker.id for broker in cluster.brokers} for cluster in after.clusters}
    return [
        RemovedBroker(cluster.name, broker.id, broker.daemon, cluster.bootstrap, cluster.security)
        for cluster in before.clusters
        if cluster.kind != "external"
        for broker in cluster.brokers
        if cluster.name in kept and broker.id not in kept[cluster.name]
    ]


def broker_problems(held: Mapping[RemovedBroker, int | None]) -> list[str]:
    """Return why brokers cannot stop, one line each; empty if all of them can."""
    return [broker.sentence(count) for broker, count in held.items() if count != 0]


def add_warnings(steps: list[Step], held: Mapping[RemovedBroker, int | None]) -> list[Step]:
    """Return the steps, with a reason at each that stops a broker which still holds replicas."""
    sentences = {each.daemon: each.sentence(count) for each, count in held.items() if count != 0}
    return [
        replace(step, reasons=(*step.reasons, sentences[step.key]))
        if step.action == "stop" and step.key in sentences
        else step
        for step in steps
    ]


def removed_log_dirs(before: Deployment, after: Deployment) -> list[RemovedLogDir]:
    """Return the log directories of `before` that brokers in both deployments lack in `after`.

    A broker that moves to another host leaves all of them here.
    """
    kept = {each.key: log_dirs_of(each) for each in after.daemons if each.role == "broker"}
    kept |= {each.key: [] for each in after.elsewhere if each.role == "broker"}
    return [
        RemovedLogDir(each.label, path)
        for each in before.daemons
        if each.role == "broker" and each.key in kept
        for path in log_dirs_of(each)
        if path not in kept[each.key]
    ]


def count_replicas(path: str) -> int:
    """Count the replicas in a log directory; 0 if it cannot be read, as on a disk that is gone."""
    try:
        return sum(parse_log_name(each.name) is not None for each in Path(path).iterdir())
    except OSError:
        return 0


def log_dir_problems(
    removed: list[RemovedLogDir], count: Callable[[str], int] = count_replicas
) -> list[str]:
    """Return why log directories cannot be removed, one line each; empty if all of them can."""
    held = [(each, count(each.path)) for each in removed]
    return [
        f"{path} of {broker} holds {replicas} replicas"
        for (broker, path), replicas in held
        if replicas
    ]


def log_dirs_of(daemon: Daemon) -> list[str]:
    """Return the log directories in a broker's settings file; none if an older version wrote it."""
    (settings,) = daemon.files.values()
    return [str(path) for path in json.loads(settings).get("log_dirs", ())]


def with_former_rights(deployment: Deployment, before: Deployment | None) -> Deployment:
    """Return the deployment in which clusters that had rights have none, instead of no such key.

    As it is stored, this holds for every later `up` too.
    """
    if before is None:
        return deployment
    former = {each.name: each.rights for each in before.clusters}

    def kept(cluster: ClusterView) -> ClusterView:
        rights = former.get(cluster.name)
        if cluster.rights is not None or rights is None or cluster.kind == "external":
            return cluster
        empty = replace(rights, has_authorizer=False, users=(), acls=(), quotas=())
        return replace(cluster, rights=empty)

    return replace(deployment, clusters=tuple(kept(each) for each in deployment.clusters))
