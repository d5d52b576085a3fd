"""DescribeConfigs of every config of Kafka 4.4, ours against Apache Kafka's own response.

Compared are name, value, type, source, synonyms, sensitivity, read-only and documentation. What
differs is in the tables below with its reason.
"""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from local_cluster.broker_configs import DEFAULTS, KNOWN_BROKER_CONFIGS
from local_cluster.kafka_configs.definition import ConfigType
from local_cluster.wire.api import ApiKey
from local_cluster.wire.constants import AlterOperation, ConfigResourceType, ConfigSource
from tests.compat.same_answers.asking import OUR_CONFIGS, Ask, Side, converse
from tests.support.cluster import running_broker
from tests.support.kafka_from_maven import running_kafka

pytestmark = [pytest.mark.real, pytest.mark.oracle]

BROKER, TOPIC, GROUP, METRICS = 4, 2, 32, 16
RESOURCES: Final = ((BROKER, "1"), (TOPIC, "t"), (GROUP, "g"), (METRICS, "m"))
SET: Final = {
    (GROUP, "g"): ("consumer.session.timeout.ms", "50000"),
    (METRICS, "m"): ("interval.ms", "1000"),
    (TOPIC, "t"): ("retention.ms", "5000"),
}
"""One config of each resource that can be altered, so that sources other than defaults show."""

OURS_ONLY: Final = frozenset({"zookeeper.connect", "group.consumer.regex.refresh.interval.ms"})
EACH_ITS_OWN: Final = frozenset(
    {
        "advertised.listeners",
        "auto.create.topics.enable",
        "broker.id",
        "controller.listener.names",
        "controller.quorum.voters",
        "group.initial.rebalance.delay.ms",
        "initial.broker.registration.timeout.ms",
        "inter.broker.listener.name",
        "listeners",
        "log.dirs",
        "node.id",
        "num.partitions",
        "offsets.topic.num.partitions",
        "offsets.topic.replication.factor",
        "process.roles",
        "share.coordinator.state.topic.min.isr",
        "share.coordinator.state.topic.replication.factor",
        "transaction.state.log.min.isr",
        "transaction.state.log.num.partitions",
        "transaction.state.log.replication.factor",
    }
)
"""Broker configs whose value and source come from the settings of the two brokers."""

KNOWN_SECONDS_MAX: Final = 60.0

Configs = Mapping[str, Mapping[str, Any]]


async def described(side: Side) -> dict[int, Configs]:
    """Return every config by name, by kind of resource."""
    topic = {"name": "t", "num_partitions": 1, "replication_factor": 1}
    topics = {"topics": [{**topic, "assignments": [], "configs": []}]}
    operation = AlterOperation.SET
    altered = [
        {
            "resource_type": kind,
            "resource_name": name,
            "configs": [{"name": config, "config_operation": operation, "value": value}],
        }
        for (kind, name), (config, value) in SET.items()
    ]
    resources = [
        {"resource_type": kind, "resource_name": name, "configuration_keys": None}
        for kind, name in RESOURCES
    ]
    alter = {"resources": altered, "validate_only": False}
    describe = {"resources": resources, "include_synonyms": True, "include_documentation": True}
    created, changed = await converse(
        side,
        [
            Ask(ApiKey.CREATE_TOPICS, 7, {**topics, "timeout": 30_000, "validate_only": False}),
            Ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, alter),
        ],
    )
    assert [topic["error_code"] for topic in created["topics"]] == ["none"], created
    assert {result["error_code"] for result in changed["responses"]} == {"none"}, changed
    async with asyncio.timeout(KNOWN_SECONDS_MAX):
        while True:
            (answer,) = await converse(side, [Ask(ApiKey.DESCRIBE_CONFIGS, 4, describe)])
            found: dict[int, Mapping[str, Any]] = {
                result["resource_type"]: {config["name"]: config for config in result["configs"]}
                for result in answer["results"]
            }
            # Kafka's broker hears of changes a moment after its controller has acknowledged them.
            if side.name == "ours" or is_changed(found):
                break
            await asyncio.sleep(0.05)
    assert {result["error_code"] for result in answer["results"]} == {"none"}
    assert is_changed(found)
    return found


def is_changed(found: Mapping[int, Configs]) -> bool:
    return all(
        config in found[kind] and found[kind][config]["value"] == value
        for (kind, _), (config, value) in SET.items()
    )


def difference(
    kind: int, name: str, ours: Mapping[str, Any], kafkas: Mapping[str, Any]
) -> dict[str, object]:
    """Return the fields that differ, except for what the tables accept."""
    differing: dict[str, object] = {
        key: (ours[key], kafkas[key])
        for key in kafkas
        if ours[key] != kafkas[key] and key != "documentation"
    }
    doc, kafkas_doc = ours["documentation"], kafkas["documentation"]
    marked = doc.startswith("Has no effect: ") and doc.endswith(f". {kafkas_doc}")
    if doc != kafkas_doc and not marked:
        differing["documentation"] = (doc, kafkas_doc)
    accepted: set[str] = set()
    if kind == BROKER and ours["read_only"] and name not in KNOWN_BROKER_CONFIGS:
        accepted |= {"read_only"}  # this broker does not use it
    if kind == BROKER and name in EACH_ITS_OWN | DEFAULTS.keys():
        accepted |= {"value", "config_source", "synonyms"}
    if name == "min.insync.replicas":
        # Kafka sets it for all brokers when a cluster is made.
        accepted |= {"config_source", "synonyms"}
    return {key: found for key, found in differing.items() if key not in accepted}


async def test_every_config_is_kafkas_and_those_of_groups_are_effective(
    tmp_path: Path, zookeeper: str
) -> None:
    async with running_kafka(tmp_path / "kafka") as kafka:
        side = Side("Kafka", "127.0.0.1", kafka.port)
        kafkas, kafkas_interval_ms = await described(side), await interval_after_change_ms(side)
    async with running_broker(zookeeper, tmp_path) as broker:
        host, _, port = broker.bootstrap.partition(":")
        side = Side("ours", host, int(port))
        ours, interval_ms = await described(side), await interval_after_change_ms(side)
    for kind, _ in RESOURCES:
        names = {name for name in ours[kind] if not name.startswith(OUR_CONFIGS)} - OURS_ONLY
        assert names == kafkas[kind].keys(), ConfigResourceType(kind)
        differing = {
            name: found
            for name in sorted(names)
            if (found := difference(kind, name, ours[kind][name], kafkas[kind][name]))
        }
        assert not differing, (ConfigResourceType(kind), differing)
    assert ours[BROKER]["num.partitions"]["config_type"] == ConfigType.INT
    assert ours[GROUP]["consumer.session.timeout.ms"]["config_source"] == ConfigSource.GROUP
    assert interval_ms == kafkas_interval_ms == 6_000


async def interval_after_change_ms(side: Side) -> int:
    """Set a group's heartbeat interval; return what a new member gets once it is no default."""
    config = {
        "name": "consumer.heartbeat.interval.ms",
        "config_operation": AlterOperation.SET,
        "value": "6000",
    }
    group = {"resource_type": GROUP, "resource_name": "g/1", "configs": [config]}
    join = {
        "group_id": "g/1",
        "member_id": "m-1",
        "member_epoch": 0,
        "instance_id": None,
        "rack_id": None,
        "rebalance_timeout": datetime.timedelta(milliseconds=5_000),
        "subscribed_topic_names": ["t"],
        "subscribed_topic_regex": None,
        "server_assignor": None,
        "topic_partitions": [],
    }
    alter = {"resources": [group], "validate_only": False}
    find = {"key_type": 0, "coordinator_keys": ["g/1"]}
    asks = [
        Ask(ApiKey.FIND_COORDINATOR, 4, find),  # it creates the topic of the offsets
        Ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, join),
    ]
    (changed,) = await converse(side, [Ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, alter)])
    assert [each["error_code"] for each in changed["responses"]] == ["none"]
    async with asyncio.timeout(60):
        while True:
            _, answer = await converse(side, asks)
            interval_ms: int = answer["heartbeat_interval"]
            if answer["error_code"] == "none" and interval_ms != 5_000:
                return interval_ms
            await asyncio.sleep(0.1)
