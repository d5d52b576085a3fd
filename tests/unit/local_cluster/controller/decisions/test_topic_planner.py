"""Plans for new topics and partitions, and the code of each refusal."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from local_cluster.controller.decisions.topic_planner import TopicPlanner, plan_partitions
from local_cluster.controller.model.cluster_image import TopicState
from local_cluster.controller.model.cluster_state import ClusterState, TopicDeletion
from local_cluster.controller.model.topic_requests import PartitionsSpec, TopicSpec
from local_cluster.wire.errors import ErrorCode, KafkaError
from tests.unit.local_cluster.controller.samples import (
    SETTINGS,
    brokers,
    partition,
    topic,
    topic_id,
)

STATE = ClusterState(
    brokers(1, 2),
    {"old": topic("old", partition(0, 1)), "a.b": topic("a.b", partition(0, 1))},
    {"going": TopicDeletion(topic("going", partition(0, 1)), frozenset({1}))},
)


def refusal(**fields: Any) -> KafkaError:
    with pytest.raises(KafkaError) as refused:
        TopicPlanner(STATE, SETTINGS).plan(TopicSpec(**{"name": "new", **fields}), topic_id("new"))
    return refused.value


def test_defaults_are_the_brokers() -> None:
    plan = TopicPlanner(STATE, SETTINGS).plan(TopicSpec(name="new"), topic_id("new"))
    assert len(plan.replicas) == 3
    assert all(len(replicas) == 1 for replicas in plan.replicas.values())
    assert plan.topic_id == topic_id("new")


def test_given_replicas_are_kept() -> None:
    spec = TopicSpec(name="new", assignments={1: (1,), 0: (2,)}, configs={"retention.ms": "9"})
    plan = TopicPlanner(STATE, SETTINGS).plan(spec, topic_id("new"))
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


def leader_of(planner: TopicPlanner, name: str) -> int:
    """Return the planned leader of a topic with one partition."""
    plan = planner.plan(TopicSpec(name=name, partitions=1), topic_id(name))
    return plan.replicas[0][0]


def test_topics_of_one_request_count_those_before() -> None:
    planner = TopicPlanner(STATE, SETTINGS)
    assert [leader_of(planner, f"n.{each}") for each in range(4)] == [2, 2, 1, 2]
    given = TopicSpec(name="given", assignments={0: (2,), 1: (2,)})
    planner.plan(given, topic_id("given"))
    assert [leader_of(planner, f"m.{each}") for each in range(3)] == [1, 1, 1]
    for name, code in (
        ("n.1", ErrorCode.topic_already_exists),
        ("n_2", ErrorCode.invalid_topic_exception),
    ):
        with pytest.raises(KafkaError) as refused:
            planner.plan(TopicSpec(name=name), topic_id(name))
        assert refused.value.code is code


def test_a_refused_topic_does_not_block_the_next() -> None:
    planner = TopicPlanner(STATE, SETTINGS)
    with pytest.raises(KafkaError):
        planner.plan(TopicSpec(name="n", partitions=0), topic_id("n"))
    assert len(planner.plan(TopicSpec(name="n"), topic_id("n")).replicas) == 3


def test_existing_topics_are_counted_once_per_request() -> None:
    """2,000 topics in a request would block the loop for seconds."""
    looked: list[None] = []

    class Topics(dict[str, TopicState]):
        def __iter__(self) -> Iterator[str]:
            looked.append(None)
            return super().__iter__()

        def values(self) -> Any:
            looked.append(None)
            return super().values()

    planner = TopicPlanner(replace(STATE, topics=Topics(STATE.topics)), SETTINGS)
    begun = len(looked)
    assert begun <= 2, "the names, and the replicas"
    for index in range(10):
        planner.plan(TopicSpec(name=f"n_{index}"), topic_id(f"n_{index}"))
    assert len(looked) == begun


def test_replicas_of_a_partition_are_on_different_brokers() -> None:
    spec = TopicSpec(name="new", partitions=2, replication_factor=2)
    plan = TopicPlanner(STATE, SETTINGS).plan(spec, topic_id("new"))
    assert {partition: set(ids) for partition, ids in plan.replicas.items()} == {
        0: {1, 2},
        1: {1, 2},
    }


def test_without_brokers_nothing_can_be_placed() -> None:
    with pytest.raises(KafkaError) as refused:
        TopicPlanner(ClusterState(), SETTINGS).plan(TopicSpec(name="new"), topic_id("new"))
    assert refused.value.code is ErrorCode.invalid_replication_factor


def test_partitions_are_added_to_the_emptiest_broker() -> None:
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
