"""The topology file of a plan (docs/operations/topology.md). Pure except for the YAML writer."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Any, Final

from ruamel.yaml import YAML

from tests.referee.plan import ClusterPlan, Plan

BROKER_CONFIG: Final = {
    "auto.create.topics.enable": False,
    "group.initial.rebalance.delay.ms": 0,
    "log.cleaner.backoff.ms": 300,
    "log.retention.check.interval.ms": 500,
    "offsets.topic.num.partitions": 4,
    "transaction.state.log.num.partitions": 4,
}


class Ports:
    """The ports of a deployment: ZooKeeper's, and of each cluster its brokers' and aggregator's."""

    def __init__(self, plan: Plan, free: Sequence[int]) -> None:
        """`free` has at least `count(plan)` ports."""
        left = iter(free)
        self.zookeeper = next(left)
        self.brokers = {
            each.name: [next(left) for _ in range(each.brokers)] for each in plan.clusters
        }
        self.aggregators = {target: next(left) for target in plan.shape.targets}

    @staticmethod
    def count(plan: Plan) -> int:
        """How many ports the deployment of a plan needs."""
        return 1 + sum(each.brokers for each in plan.clusters) + len(plan.shape.targets)


def topology_text(plan: Plan, ports: Ports, name: str, *, with_links: bool) -> str:
    """The YAML text of a plan's topology."""
    document: dict[str, Any] = {
        "name": name,
        "zookeepers": [{"name": "main", "port": ports.zookeeper}],
        "clusters": [_cluster(plan, each, ports) for each in plan.clusters],
    }
    if with_links:
        document["links"] = [
            {
                "source": link.source,
                "target": link.target,
                "topics": [".*"],
                **plan.shape.options,
                "groups": {"sync": True},
                "on": dict(plan.policies),
            }
            for link in plan.shape.links
        ]
    text = io.StringIO()
    YAML().dump(document, text)
    return text.getvalue()


def _cluster(plan: Plan, cluster: ClusterPlan, ports: Ports) -> Mapping[str, Any]:
    entry: dict[str, Any] = {"name": cluster.name}
    if cluster.name in ports.aggregators:
        entry["aggregator"] = {"port": ports.aggregators[cluster.name]}
    broker_ports = ports.brokers[cluster.name]
    if cluster.is_external:
        return {**entry, "external": ",".join(f"127.0.0.1:{port}" for port in broker_ports)}
    replicas = len(broker_ports)
    return {
        **entry,
        "kind": "aggregate" if cluster.name == "hub" else "local",
        "zookeeper": {"embedded": "main", "chroot": f"/{cluster.name}"},
        "brokers": [{"id": number + 1, "port": port} for number, port in enumerate(broker_ports)],
        "flush": cluster.flush,
        "topic_defaults": {
            "replication_factor": replicas,
            "config": {"min.insync.replicas": 2 if replicas > 2 else 1},
        },
        "config": {
            **BROKER_CONFIG,
            "offsets.topic.replication.factor": replicas,
            "transaction.state.log.replication.factor": replicas,
            "transaction.state.log.min.isr": 1,
        },
    }
