"""Configs of groups and client metrics: what Kafka 4.4 refuses, and with which words."""

from __future__ import annotations

import pytest

from local_cluster.controller.member.current_configs import CurrentConfigs
from local_cluster.controller.model import znode_paths
from local_cluster.controller.model.metadata_cache import MetadataCache
from local_cluster.groups.consumer.group_configs import GroupConfigs
from local_cluster.groups.consumer.requests import ConsumerGroupLimits
from local_cluster.kafka_configs.client_metrics import check_client_metrics
from local_cluster.kafka_configs.groups import check_group_configs, number_in_use
from local_cluster.wire.errors import ErrorCode, KafkaError
from tests.unit.local_cluster.controller.samples import SETTINGS

SESSION = "consumer.session.timeout.ms"


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("nonsense", "1", "Unknown group config name: nonsense"),
        (SESSION, "x", f"Invalid value x for configuration {SESSION}: Not a number of type INT"),
        (SESSION, "0", f"Invalid value 0 for configuration {SESSION}: Value must be at least 1"),
        (SESSION, "1", f"{SESSION} must be in the range 45000 to 60000 inclusive."),
        (SESSION, "60001", f"{SESSION} must be in the range 45000 to 60000 inclusive."),
        (
            "consumer.heartbeat.interval.ms",
            "1",
            "consumer.heartbeat.interval.ms must be in the range 5000 to 15000 inclusive.",
        ),
        (
            "share.record.lock.duration.ms",
            "1",
            "Invalid value 1 for configuration share.record.lock.duration.ms: "
            "Value must be at least 1000",
        ),
    ],
)
def test_refused_group_configs(name: str, value: str, message: str) -> None:
    with pytest.raises(KafkaError) as refused:
        check_group_configs({name: value}, {})
    assert (refused.value.code, refused.value.message) == (ErrorCode.invalid_config, message)


def test_the_broker_widens_the_bounds() -> None:
    broker = {"group.consumer.min.session.timeout.ms": "1000"}
    check_group_configs({SESSION: "6000"}, broker)
    with pytest.raises(KafkaError, match="must be greater than"):
        check_group_configs({SESSION: "5000"}, broker)


def test_a_stored_value_out_of_bounds_counts_as_the_nearest() -> None:
    assert number_in_use(SESSION, {SESSION: "1"}, {}) == 45_000
    assert number_in_use(SESSION, {SESSION: "99999"}, {}) == 60_000
    assert number_in_use(SESSION, {SESSION: "x"}, {}) == 45_000
    assert number_in_use(SESSION, {}, {"group.consumer.session.timeout.ms": "7"}) == 7


@pytest.mark.parametrize(
    ("name", "value", "code"),
    [
        ("x", "1", ErrorCode.invalid_request),
        ("interval.ms", "1", ErrorCode.invalid_request),
        ("match", "a=b", ErrorCode.invalid_config),
        ("match", "client_id=(", ErrorCode.invalid_config),
    ],
)
def test_refused_client_metrics(name: str, value: str, code: ErrorCode) -> None:
    with pytest.raises(KafkaError) as refused:
        check_client_metrics({name: value})
    assert refused.value.code is code


def test_valid_client_metrics() -> None:
    check_client_metrics({"interval.ms": "100", "match": "client_id=a.*,client_source_port=1"})


@pytest.mark.parametrize("name", ["etl", "a/b c", "..", ".", "gr\u00fc\u00df", "%41", "~*+"])
def test_any_group_id_is_one_znode(name: str) -> None:
    entity = znode_paths.entity_of("groups", name)
    assert znode_paths.kind_and_name(entity) == ("groups", name)
    assert entity.count("/") == 1
    assert entity.rpartition("/")[2] not in (".", "..")


def test_the_settings_of_a_group_follow_the_metadata() -> None:
    cache, limits = MetadataCache(), ConsumerGroupLimits()
    configs = GroupConfigs(limits, {}, cache)
    assert configs.limits_of("etl") == limits
    cache.entity_configs = {"groups/etl": {SESSION: "50000"}}
    assert configs.limits_of("etl").group_consumer_session_timeout_ms == 50_000
    assert configs.limits_of("other") == limits
    cache.entity_configs = {"groups/etl": {SESSION: "51000"}}
    assert configs.limits_of("etl").group_consumer_session_timeout_ms == 51_000


def test_the_assignment_interval_follows_the_brokers_dynamic_config() -> None:
    cache, limits = MetadataCache(1), ConsumerGroupLimits()
    configs = GroupConfigs(limits, CurrentConfigs(SETTINGS, cache), cache)
    assert configs.limits_of("etl").group_consumer_assignment_interval_ms == 1_000
    cache.entity_configs = {"groups/etl": {SESSION: "50000"}}
    cache.broker_configs = {"<default>": {"group.consumer.assignment.interval.ms": "7"}}
    for group in ("etl", "other"):
        assert configs.limits_of(group).group_consumer_assignment_interval_ms == 7
    cache.broker_configs = {}
    assert configs.limits_of("etl").group_consumer_assignment_interval_ms == 1_000
