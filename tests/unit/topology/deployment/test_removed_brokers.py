"""Brokers that an edited topology does without."""

from __future__ import annotations

from dataclasses import replace

from topology.deployment.deployment import BrokerView, ClusterView, Deployment
from topology.deployment.plan import Step
from topology.deployment.removals import LeavingBroker, holding, leaving_brokers, warned


def cluster(name: str, *broker_ids: int) -> ClusterView:
    brokers = tuple(
        BrokerView(id=i, host="h", port=9000 + i, daemon=f"broker-{name}-{i}") for i in broker_ids
    )
    return ClusterView(name=name, kind="local", datacenter=name, bootstrap="h:1", brokers=brokers)


def deployment(*clusters: ClusterView) -> Deployment:
    return Deployment(name="d", topology_file="d.yaml", clusters=clusters)


BEFORE = deployment(cluster("a", 1, 2, 3), cluster("b", 1))
LEAVING = LeavingBroker("a", 3, "broker-a-3", "h:1")
HOLDS = "broker 3 of a still holds 7 replicas; `heliograph rebalance a --drain 3` moves them"
SILENT = "broker 3 of a may still hold replicas; its cluster does not answer"


def test_what_leaves() -> None:
    assert leaving_brokers(BEFORE, deployment(cluster("a", 1, 2, 4), cluster("b", 1))) == [LEAVING]
    assert leaving_brokers(BEFORE, BEFORE) == []


def test_a_cluster_that_goes_as_a_whole_is_meant_to() -> None:
    assert leaving_brokers(BEFORE, deployment(cluster("b", 1))) == []


def test_brokers_of_an_existing_cluster_are_not_ours() -> None:
    external = replace(cluster("a", 1, 2), kind="external")
    assert leaving_brokers(deployment(external), deployment(replace(external, brokers=()))) == []


def test_whoever_holds_something_or_may_do_so_is_not_stopped() -> None:
    assert holding({LEAVING: 0}) == []
    assert holding({LEAVING: 7}) == [HOLDS]
    assert holding({LEAVING: None}) == [SILENT]


def test_a_plan_says_so() -> None:
    stop = Step(action="stop", key="broker-a-3", label="broker 3 of a", reasons=("gone",))
    other = Step(action="start", key="broker-a-4", label="broker 4 of a")
    assert warned([stop, other], {LEAVING: 7}) == [replace(stop, reasons=("gone", HOLDS)), other]
    assert warned([stop], {LEAVING: 0}) == [stop]
