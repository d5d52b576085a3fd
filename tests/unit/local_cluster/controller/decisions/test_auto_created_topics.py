"""Topics that are created on first use."""

from __future__ import annotations

from dataclasses import replace

from local_cluster.controller.decisions.auto_created_topics import auto_topic_spec
from local_cluster.controller.model.cluster_image import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from local_cluster.controller.model.topic_requests import TopicSpec
from tests.unit.local_cluster.controller.samples import SETTINGS


def test_the_internal_topics_have_the_configured_replicas() -> None:
    config = {
        "offsets.topic.replication.factor": "3",
        "transaction.state.log.replication.factor": "2",
        "transaction.state.log.min.isr": "1",
    }
    settings = replace(SETTINGS, config=config)
    assert auto_topic_spec(OFFSETS_TOPIC, settings).replication_factor == 3
    spec = auto_topic_spec(TRANSACTIONS_TOPIC, settings)
    assert (spec.replication_factor, spec.configs["min.insync.replicas"]) == (2, "1")


def test_the_offsets_topic_is_compacted() -> None:
    settings = replace(SETTINGS, config={"offsets.topic.num.partitions": "7"})
    spec = auto_topic_spec(OFFSETS_TOPIC, settings)
    assert (spec.partitions, spec.replication_factor) == (7, 1)
    assert spec.configs["cleanup.policy"] == "compact"
    assert auto_topic_spec("other", settings) == TopicSpec(name="other")
