"""Brokers that an edited topology does without, and the replicas that they still hold.

A broker that is stopped for good takes its replicas along: the partitions have fewer, and those
that it held alone are gone with it. So `up` does not stop it before `rebalance --drain` has moved
them. Pure; who asks the cluster is held_replicas.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from topology.deployment.deployment import Deployment
from topology.deployment.plan import Step


class LeavingBroker(NamedTuple):
    """A broker that is no longer in the topology, of a cluster that is."""

    cluster: str
    broker_id: int
    daemon: str
    """The key of what runs it."""
    bootstrap: str
    """Of its cluster as it runs."""

    def sentence(self, held: int | None) -> str:
        """What keeps it from being stopped."""
        who = f"broker {self.broker_id} of {self.cluster}"
        if held is None:
            return f"{who} may still hold replicas; its cluster does not answer"
        move = f"`heliograph rebalance {self.cluster} --drain {self.broker_id}` moves them"
        return f"{who} still holds {held} replicas; {move}"


def leaving_brokers(before: Deployment, after: Deployment) -> list[LeavingBroker]:
    """What `before` has and `after` has not; clusters that go as a whole are meant to."""
    kept = {cluster.name: {broker.id for broker in cluster.brokers} for cluster in after.clusters}
    return [
        LeavingBroker(cluster.name, broker.id, broker.daemon, cluster.bootstrap)
        for cluster in before.clusters
        if cluster.kind != "external"
        for broker in cluster.brokers
        if cluster.name in kept and broker.id not in kept[cluster.name]
    ]


def holding(held: Mapping[LeavingBroker, int | None]) -> list[str]:
    """Why not all of them may be stopped; nothing where all of them may."""
    return [broker.sentence(count) for broker, count in held.items() if count != 0]


def warned(steps: list[Step], held: Mapping[LeavingBroker, int | None]) -> list[Step]:
    """The steps, those that stop a broker which holds replicas saying so."""
    sentences = {each.daemon: each.sentence(count) for each, count in held.items() if count != 0}
    return [
        replace(step, reasons=(*step.reasons, sentences[step.key]))
        if step.action == "stop" and step.key in sentences
        else step
        for step in steps
    ]
