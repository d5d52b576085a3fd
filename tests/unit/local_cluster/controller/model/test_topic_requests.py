"""What is asked about topics: names, and the topics that nobody asks for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from local_cluster.controller.decisions.auto_created_topics import auto_topic_spec
from local_cluster.controller.model.cluster_image import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from local_cluster.controller.model.topic_requests import TopicSpec, repeated, topic_name_problem
from tests.unit.local_cluster.controller.samples import SETTINGS


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
