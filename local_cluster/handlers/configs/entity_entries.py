"""The configs of groups and client metrics as DescribeConfigs shows them.

A group that has no configs of its own has the broker's defaults, whether the group exists or not,
as in Kafka.
"""

from __future__ import annotations

from collections.abc import Mapping

from local_cluster.controller.model import znode_paths
from local_cluster.handlers.configs.broker_entries import places_of
from local_cluster.kafka_configs import client_metrics, groups
from local_cluster.kafka_configs.table import kafka_configs
from local_cluster.log.config.description import BrokerSources, ConfigEntry, ConfigSynonym
from local_cluster.log.config.topic_configs import marked_doc
from local_cluster.wire.constants import ConfigSource

EntityConfigs = Mapping[str, Mapping[str, str]]
"""Configs by path below /config, such as "groups/etl"."""


def group_entries(sources: BrokerSources, entities: EntityConfigs, group: str) -> list[ConfigEntry]:
    """Return every config of a group, by name; `sources` are the broker's configs."""
    entity = znode_paths.entity_of(znode_paths.GROUP_CONFIGS, group)
    overrides = entities.get(entity, {})
    brokers = kafka_configs("broker")
    entries = []
    for name, config in kafka_configs("group").items():
        places = [
            place
            for synonym in config.synonyms
            for place in places_of(brokers[synonym.name], sources)
        ]
        if not config.synonyms:
            places = [ConfigSynonym(name, config.default, ConfigSource.DEFAULT)]
        if name in overrides:
            places.insert(0, ConfigSynonym(name, overrides[name], ConfigSource.GROUP))
        source = places[0].source
        entries.append(
            ConfigEntry(
                name=name,
                value=places[0].value,
                source=source,
                synonyms=tuple(places),
                type=config.type,
                doc=marked_doc(config.doc, groups.why_without_effect(name)),
                is_default=source is ConfigSource.DEFAULT,
                read_only=False,
                is_sensitive=False,
            )
        )
    return entries


def client_metrics_entries(
    entities: EntityConfigs, name: str, *, has_effect: bool
) -> list[ConfigEntry]:
    """Return every config of a client metrics subscription, by name."""
    entity = znode_paths.entity_of(znode_paths.CLIENT_METRICS_CONFIGS, name)
    overrides = entities.get(entity, {})
    return [
        ConfigEntry(
            name=config.name,
            value=overrides.get(config.name, config.default),
            source=(
                ConfigSource.CLIENT_METRICS if config.name in overrides else ConfigSource.DEFAULT
            ),
            synonyms=(
                (ConfigSynonym(config.name, overrides[config.name], ConfigSource.CLIENT_METRICS),)
                if config.name in overrides
                else ()
            ),
            type=config.type,
            doc=marked_doc(config.doc, None if has_effect else client_metrics.NO_EFFECT),
            is_default=config.name not in overrides,
            read_only=False,
            is_sensitive=False,
        )
        for config in kafka_configs("client_metrics").values()
    ]
