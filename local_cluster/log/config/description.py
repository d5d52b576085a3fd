"""Where the value of a topic config comes from, and what DescribeConfigs shows.

A value comes from the topic's override, else from the broker's config under one of its names
there, else from the default. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from local_cluster.kafka_configs.definition import ConfigDefinition, ConfigType
from local_cluster.log.config.topic_configs import TOPIC_CONFIGS
from local_cluster.wire.constants import ConfigSource
from local_cluster.wire.errors import ErrorCode, KafkaError

BrokerSources = Sequence[tuple[ConfigSource, Mapping[str, str]]]
"""Broker configs by where they come from; the first source wins."""


class ConfigSynonym(NamedTuple):
    """One place where a value could come from; the first one wins."""

    name: str
    value: str | None
    source: ConfigSource


class ConfigEntry(NamedTuple):
    """One config as DescribeConfigs shows it."""

    name: str
    value: str | None
    source: ConfigSource
    synonyms: tuple[ConfigSynonym, ...]
    type: ConfigType
    doc: str
    is_default: bool
    read_only: bool
    is_sensitive: bool


def resolve(
    config: ConfigDefinition, overrides: Mapping[str, str], broker: BrokerSources
) -> list[ConfigSynonym]:
    """Return every place where the value could come from, the one that wins first.

    Raises KafkaError(invalid_config) where the broker's own config is not valid.
    """
    places = []
    if config.name in overrides:
        places.append(
            ConfigSynonym(config.name, overrides[config.name], ConfigSource.DYNAMIC_TOPIC)
        )
    for source, values in broker:
        for synonym in config.synonyms:
            value = values.get(synonym.name)
            if value is None:
                continue
            try:
                converted = synonym.convert(value)
            except ValueError as error:
                raise KafkaError(
                    ErrorCode.invalid_config, f"{synonym.name}={value}: expected a whole number"
                ) from error
            config.require(converted, synonym.name)
            places.append(ConfigSynonym(synonym.name, converted, source))
    if config.default is not None:
        name = config.synonyms[0].name if config.synonyms else config.name
        places.append(ConfigSynonym(name, config.default, ConfigSource.DEFAULT))
    return places


def describe(topic_overrides: Mapping[str, str], broker: BrokerSources) -> list[ConfigEntry]:
    """Return every topic config with its value and where it comes from, by name."""
    entries = []
    for name in sorted(TOPIC_CONFIGS):
        config = TOPIC_CONFIGS[name]
        if config.is_internal and name not in topic_overrides:
            continue
        places = resolve(config, topic_overrides, broker)
        entries.append(
            ConfigEntry(
                name=name,
                value=places[0].value,
                source=places[0].source,
                synonyms=_shown(config, places),
                type=config.type,
                doc=config.doc,
                is_default=places[0].source is ConfigSource.DEFAULT,
                read_only=False,
                is_sensitive=False,
            )
        )
    return entries


def _shown(config: ConfigDefinition, places: list[ConfigSynonym]) -> tuple[ConfigSynonym, ...]:
    """Return the places that DescribeConfigs shows.

    Kafka shows no default where several broker configs (log.retention.ms, .minutes, .hours) or
    none can set the value.
    """
    if len(config.synonyms) == 1:
        return tuple(places)
    return tuple(place for place in places if place.source is not ConfigSource.DEFAULT)
