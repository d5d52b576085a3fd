"""Brokers that an edited topology removes."""

from __future__ import annotations

from dataclasses import replace

from topology.deployment.deployment import BrokerView, ClusterView, Deployment
from topology.deployment.plan import Step
from topology.deployment.removals import (
    RemovedBroker,
    add_warnings,
    broker_problems,
    removed_brokers,
)


def cluster(name: str, *broker_ids: int) -> ClusterView:
    brokers = tuple(
        BrokerView(id=i, host="h", port=9000 + i, daemon=f"broker-{name}-{i}") for i in broker_ids
    )
    return ClusterView(name=name, kind="local", datacenter=name, bootstrap="h:1", brokers=brokers)


def deployment(*clusters: ClusterView) -> Deployment:
    return Deployment(name="d", topology_file="d.yaml", clusters=clusters)


BEFORE = deployment(cluster("a", 1, 2, 3), cluster("b", 1))
LEAVING = RemovedBroker("a", 3, "broker-a-3", "h:1")
HOLDS = "broker 3 of a still holds 7 replicas; `heliograph rebalance a --drain 3` moves them"
SILENT = "broker 3 of a may still hold replicas; its cluster does not answer"


def test_brokers_that_the_new_file_lacks() -> None:
    assert removed_brokers(BEFORE, deployment(cluster("a", 1, 2, 4), cluster("b", 1))) == [LEAVING]
    assert removed_brokers(BEFORE, BEFORE) == []


def test_brokers_of_a_removed_cluster_are_not_checked() -> None:
    assert removed_brokers(BEFORE, deployment(cluster("b", 1))) == []


def test_brokers_of_an_external_cluster_are_not_checked() -> None:
    external = replace(cluster("a", 1, 2), kind="external")
    assert removed_brokers(deployment(external), deployment(replace(external, brokers=()))) == []


def test_a_broker_that_holds_or_may_hold_replicas_is_not_stopped() -> None:
    assert broker_problems({LEAVING: 0}) == []
    assert broker_problems({LEAVING: 7}) == [HOLDS]
    assert broker_problems({LEAVING: None}) == [SILENT]


def test_the_plan_has_a_warning() -> None:
    stop = Step(action="stop", key="broker-a-3", label="broker 3 of a", reasons=("gone",))
    other = Step(action="start", key="broker-a-4", label="broker 4 of a")
    assert add_warnings([stop, other], {LEAVING: 7}) == [
        replace(stop, reasons=("gone", HOLDS)),
        other,
    ]
    assert add_warnings([stop], {LEAVING: 0}) == [stop]
