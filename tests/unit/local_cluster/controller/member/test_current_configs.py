"""The configs in use: which source wins, and that a reader sees changes at once."""

from __future__ import annotations

from dataclasses import replace

from local_cluster.controller.member.current_configs import CurrentConfigs
from local_cluster.controller.model.cluster_image import ClusterImage, difference
from local_cluster.controller.model.metadata_cache import MetadataCache
from local_cluster.wire.constants import ConfigSource
from tests.unit.local_cluster.controller.samples import SETTINGS, brokers

RETENTION, BACKOFF = "log.retention.ms", "log.cleaner.backoff.ms"
STATIC = replace(SETTINGS, config={RETENTION: "1000", "num.partitions": "3"})


def test_the_brokers_own_value_wins_over_that_of_all_and_the_settings() -> None:
    cache = MetadataCache(1)
    configs = CurrentConfigs(STATIC, cache)
    assert dict(configs) == STATIC.config
    assert configs.number(BACKOFF, 15) == 15
    cache.broker_configs = {"<default>": {RETENTION: "2000", BACKOFF: "20"}}
    assert (configs[RETENTION], configs.number(BACKOFF, 15)) == ("2000", 20)
    cache.broker_configs = {**cache.broker_configs, "1": {RETENTION: "3000"}, "2": {BACKOFF: "1"}}
    assert (configs[RETENTION], configs.number(BACKOFF, 15)) == ("3000", 20)
    assert configs.sources == (
        (ConfigSource.DYNAMIC_BROKER, {RETENTION: "3000"}),
        (ConfigSource.DYNAMIC_DEFAULT_BROKER, {RETENTION: "2000", BACKOFF: "20"}),
        (ConfigSource.STATIC_BROKER, STATIC.config),
    )
    cache.broker_configs = {}
    assert dict(configs) == STATIC.config


def test_what_an_outside_tool_wrote_wrongly_has_no_effect() -> None:
    cache = MetadataCache(1)
    cache.broker_configs = {
        "1": {RETENTION: "soon", "num.partitions": "9", "listener.name.l.ssl.key.password": "x"}
    }
    assert dict(CurrentConfigs(STATIC, cache)) == STATIC.config


def test_booleans() -> None:
    cache = MetadataCache(1)
    configs = CurrentConfigs(STATIC, cache)
    name = "unclean.leader.election.enable"
    assert (configs.flag(name, True), configs.flag(name, False)) == (True, False)
    cache.broker_configs = {"1": {name: " TRUE "}}
    assert configs.flag(name, False)


def test_the_cache_replaces_the_configs_exactly_if_they_changed() -> None:
    cache = MetadataCache(1)
    configs = CurrentConfigs(STATIC, cache)

    def publish(sequence: int, broker_configs: dict[str, dict[str, str]]) -> bool:
        image = ClusterImage(1, 1, sequence, brokers(1), {}, {}, broker_configs=broker_configs)
        return cache.apply(difference(None, image, cache.broker_epoch)).broker_configs

    assert publish(1, {"1": {RETENTION: "5"}})
    assert configs[RETENTION] == "5"
    seen = cache.broker_configs
    assert not publish(2, {"1": {RETENTION: "5"}})
    assert cache.broker_configs is seen
    assert publish(3, {"1": {RETENTION: "6"}})
    assert configs[RETENTION] == "6"
