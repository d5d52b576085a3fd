"""What `up` on other hosts would change in users, ACLs and quotas of clusters of other hosts.

A cluster is compared from this host. So its brokers and its ZooKeeper must be reachable from here,
and this host needs the secrets of the file. What cannot be compared says why.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from topology.deployment.deployment import ClusterView, Deployment
from topology.deployment.rights_difference import PlannedRights
from topology.hosts.answers import Answer
from topology.problems import DeployError

Compare = Callable[[ClusterView, bool], PlannedRights]


def planned_elsewhere(
    deployment: Deployment, answers: Mapping[str, Answer], compare: Compare | None = None
) -> list[PlannedRights]:
    """Return the steps of each cluster that only other hosts run, in the order of the file."""
    here = {each.key for each in deployment.daemons}
    found = []
    for cluster in deployment.clusters:
        keys = {each.daemon for each in cluster.brokers}
        if not cluster.declares_rights:
            continue
        if not keys.isdisjoint(here):
            continue
        told = [answers[each.host] for each in cluster.brokers if each.host in answers]
        if not any(each.state == "answers" for each in told):
            unknown = "users, ACLs and quotas are unknown, as no host of it answers"
            found.append(PlannedRights(cluster=cluster.name, unknown=unknown))
            continue
        rows = [row for each in told for row in each.daemons]
        is_running = any(row["key"] in keys and row["pid"] is not None for row in rows)
        try:
            found.append((compare or _compare)(cluster, is_running))
        except DeployError as error:
            unknown = f"users, ACLs and quotas cannot be compared from here: {error}"
            found.append(PlannedRights(cluster=cluster.name, unknown=unknown))
    return found


def _compare(cluster: ClusterView, is_running: bool) -> PlannedRights:
    from topology.operate.cluster_rights import planned_rights

    return planned_rights(cluster, cluster, is_running=is_running)
