"""What may be asked about topics, and the code of each refusal."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from local_cluster.controller.fsm import ClusterState, Deletion
from local_cluster.controller.model import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from local_cluster.controller.topic_requests import (
    PartitionsSpec,
    TopicSpec,
    auto_topic_spec,
    plan_partitions,
    plan_topic,
    repeated,
    topic_name_problem,
)
from local_cluster.settings import BrokerSettings, Listener
from local_cluster.wire.errors import ErrorCode, KafkaError

from .samples import brokers, partition, topic, topic_id

SETTINGS = BrokerSettings(
    cluster="c",
    broker_id=1,
    listeners=(Listener(name="P", host="h", port=1),),
    inter_broker_listener="P",
    zookeeper_connect="",
    log_dirs=("",),
    ready_file="",
    config={"num.partitions": "3"},
)
STATE = ClusterState(
    brokers(1, 2),
    {"old": topic("old", partition(0, 1)), "a.b": topic("a.b", partition(0, 1))},
    {"going": Deletion(topic("going", partition(0, 1)), frozenset({1}))},
)


def refusal(**fields: Any) -> KafkaError:
    with pytest.raises(KafkaError) as refused:
        plan_topic(TopicSpec(**{"name": "new", **fields}), STATE, SETTINGS, topic_id("new"))
    return refused.value


def test_defaults_are_the_brokers() -> None:
    plan = plan_topic(TopicSpec(name="new"), STATE, SETTINGS, topic_id("new"))
    assert len(plan.replicas) == 3
    assert all(len(replicas) == 1 for replicas in plan.replicas.values())
    assert plan.topic_id == topic_id("new")


def test_given_replicas_are_kept() -> None:
    spec = TopicSpec(name="new", assignments={1: (1,), 0: (2,)}, configs={"retention.ms": "9"})
    plan = plan_topic(spec, STATE, SETTINGS, topic_id("new"))
    assert plan.replicas == {0: (2,), 1: (1,)}
    assert plan.configs == {"retention.ms": "9"}


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"name": "old"}, ErrorCode.topic_already_exists),
        ({"name": "going"}, ErrorCode.topic_already_exists),
        ({"name": "a_b"}, ErrorCode.invalid_topic_exception),
        ({"name": ""}, ErrorCode.invalid_topic_exception),
        ({"name": "a/b"}, ErrorCode.invalid_topic_exception),
        ({"partitions": 0}, ErrorCode.invalid_partitions),
        ({"partitions": -2}, ErrorCode.invalid_partitions),
        ({"partitions": 10_001}, ErrorCode.policy_violation),
        ({"replication_factor": 0}, ErrorCode.invalid_replication_factor),
        ({"replication_factor": 3}, ErrorCode.invalid_replication_factor),
        ({"partitions": 1, "assignments": {0: (1,)}}, ErrorCode.invalid_request),
        ({"assignments": {1: (1,)}}, ErrorCode.invalid_replica_assignment),
        ({"assignments": {0: (1, 1)}}, ErrorCode.invalid_replica_assignment),
        ({"assignments": {0: ()}}, ErrorCode.invalid_replica_assignment),
        ({"assignments": {0: (9,)}}, ErrorCode.invalid_replica_assignment),
        ({"assignments": {0: (1, 2), 1: (2,)}}, ErrorCode.invalid_replica_assignment),
        ({"configs": {"no.such.config": "1"}}, ErrorCode.invalid_config),
        ({"configs": {"retention.ms": "soon"}}, ErrorCode.invalid_config),
        ({"configs": {"retention.ms": None}}, ErrorCode.invalid_config),
    ],
)
def test_refusals(fields: dict[str, Any], code: ErrorCode) -> None:
    error = refusal(**fields)
    assert error.code is code
    assert error.message


def test_replicas_of_a_partition_are_on_different_brokers() -> None:
    spec = TopicSpec(name="new", partitions=2, replication_factor=2)
    plan = plan_topic(spec, STATE, SETTINGS, topic_id("new"))
    assert {partition: set(ids) for partition, ids in plan.replicas.items()} == {
        0: {1, 2},
        1: {1, 2},
    }


def test_the_internal_topics_have_the_replicas_that_are_asked_for() -> None:
    config = {
        "offsets.topic.replication.factor": "3",
        "transaction.state.log.replication.factor": "2",
        "transaction.state.log.min.isr": "1",
    }
    settings = replace(SETTINGS, config=config)
    assert auto_topic_spec(OFFSETS_TOPIC, settings).replication_factor == 3
    spec = auto_topic_spec(TRANSACTIONS_TOPIC, settings)
    assert (spec.replication_factor, spec.configs["min.insync.replicas"]) == (2, "1")


def test_without_brokers_nothing_can_be_placed() -> None:
    with pytest.raises(KafkaError) as refused:
        plan_topic(TopicSpec(name="new"), ClusterState(), SETTINGS, topic_id("new"))
    assert refused.value.code is ErrorCode.invalid_replication_factor


@pytest.mark.parametrize("name", ["a", "A.b-c_9", "x" * 249])
def test_names_that_are_legal(name: str) -> None:
    assert topic_name_problem(name) is None


@pytest.mark.parametrize("name", ["", ".", "..", "x" * 250, "a b", "a/b", "\u00e4", "a\n"])
def test_names_that_are_not(name: str) -> None:
    assert topic_name_problem(name)


def test_the_offsets_topic_is_compacted() -> None:
    settings = replace(SETTINGS, config={"offsets.topic.num.partitions": "7"})
    spec = auto_topic_spec(OFFSETS_TOPIC, settings)
    assert (spec.partitions, spec.replication_factor) == (7, 1)
    assert spec.configs["cleanup.policy"] == "compact"
    assert auto_topic_spec("other", settings) == TopicSpec(name="other")


def test_repeated() -> None:
    assert repeated(["a", "b", "a", "c", "c", "a"]) == {"a", "c"}


def test_partitions_are_added_where_least_is() -> None:
    assert plan_partitions(PartitionsSpec(topic="old", count=3), STATE) == {1: (2,), 2: (2,)}


def test_partitions_may_be_placed_by_hand() -> None:
    spec = PartitionsSpec(topic="old", count=2, assignments=((2,),))
    assert plan_partitions(spec, STATE) == {1: (2,)}


@pytest.mark.parametrize(
    ("spec", "code"),
    [
        (PartitionsSpec(topic="none", count=2), ErrorCode.unknown_topic_or_partition),
        (PartitionsSpec(topic="going", count=2), ErrorCode.unknown_topic_or_partition),
        (PartitionsSpec(topic="old", count=1), ErrorCode.invalid_partitions),
        (PartitionsSpec(topic="old", count=0), ErrorCode.invalid_partitions),
        (PartitionsSpec(topic="old", count=20_000), ErrorCode.policy_violation),
        (
            PartitionsSpec(topic="old", count=3, assignments=((1,),)),
            ErrorCode.invalid_replica_assignment,
        ),
        (
            PartitionsSpec(topic="old", count=2, assignments=((1, 2),)),
            ErrorCode.invalid_replica_assignment,
        ),
    ],
)
def test_partitions_that_are_refused(spec: PartitionsSpec, code: ErrorCode) -> None:
    with pytest.raises(KafkaError) as refused:
        plan_partitions(spec, STATE)
    assert refused.value.code is code
