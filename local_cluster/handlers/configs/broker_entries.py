"""The configs of a broker as DescribeConfigs shows them: all of Kafka's, and our own.

A value comes from the broker's dynamic config, else from that of all brokers, else from the
settings file, else from the default. A config that this broker does not use says so at the start
of its documentation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from local_cluster.broker_configs import DEFAULTS, KNOWN_BROKER_CONFIGS, base_name, type_of_own
from local_cluster.controller.decisions.dynamic_broker_configs import (
    DEFAULT_ENTITY,
    DYNAMIC_BROKER_CONFIGS,
    valid_configs,
)
from local_cluster.kafka_configs.definition import ConfigDefinition, ConfigType
from local_cluster.kafka_configs.table import kafka_configs
from local_cluster.log.config.description import BrokerSources, ConfigEntry, ConfigSynonym
from local_cluster.log.config.topic_configs import TOPIC_CONFIGS, WITHOUT_EFFECT, marked_doc
from local_cluster.settings import BrokerSettings
from local_cluster.wire.constants import ConfigSource

Entities = Mapping[str, Mapping[str, str]]
"""Dynamic configs by broker id, as text, or "<default>"."""

_SECRET_PARTS: Final = ("password", "secret", "jaas", "private.key", "credential")
_UNUSED: Final = "this broker does not use it"
_WITHOUT_EFFECT: Final = {
    synonym.name: why
    for topic_config, why in WITHOUT_EFFECT.items()
    for synonym in TOPIC_CONFIGS[topic_config].synonyms
}


def broker_entries(settings: BrokerSettings, dynamic: Entities) -> list[ConfigEntry]:
    """Return every config of this broker, by name."""
    static = static_configs(settings)
    sources = broker_sources(settings, dynamic)
    known = kafka_configs("broker")
    named = static.keys() | {name for _, values in sources for name in values}
    own = {name: _own(name) for name in named if name not in known}
    altered = {
        name: config
        for name, config in DYNAMIC_BROKER_CONFIGS.items()
        if any(name in values for _, values in sources)
    }
    used = named | KNOWN_BROKER_CONFIGS | DYNAMIC_BROKER_CONFIGS.keys()
    return [
        _entry(config, sources, is_used=name in used)
        for name, config in sorted({**known, **own, **altered}.items())
    ]


def broker_sources(settings: BrokerSettings, dynamic: Entities) -> BrokerSources:
    """Return the configs of this broker by where they come from, the first source wins.

    Stored values that are not valid have no effect, and are left out.
    """
    return (
        (ConfigSource.DYNAMIC_BROKER, valid_configs(dynamic.get(str(settings.broker_id), {}))),
        (ConfigSource.DYNAMIC_DEFAULT_BROKER, valid_configs(dynamic.get(DEFAULT_ENTITY, {}))),
        (ConfigSource.STATIC_BROKER, static_configs(settings)),
    )


def default_entries(settings: BrokerSettings, dynamic: Entities) -> list[ConfigEntry]:
    """Return the configs that are set for all brokers; their other values are not shown."""
    dynamic_default = ConfigSource.DYNAMIC_DEFAULT_BROKER
    entries = broker_entries(settings, {DEFAULT_ENTITY: dynamic.get(DEFAULT_ENTITY, {})})
    return [
        entry._replace(synonyms=tuple(s for s in entry.synonyms if s.source is dynamic_default))
        for entry in entries
        if entry.source is dynamic_default
    ]


def static_configs(settings: BrokerSettings) -> dict[str, str]:
    """Return what the settings file sets, under Kafka's names."""
    listeners = ",".join(f"{each.name}://{each.host}:{each.port}" for each in settings.listeners)
    rack = {} if settings.rack is None else {"broker.rack": settings.rack}
    return {
        "broker.id": str(settings.broker_id),
        **rack,
        "heliograph.flush": settings.flush,
        "inter.broker.listener.name": settings.inter_broker_listener,
        "listeners": listeners,
        "log.dirs": ",".join(settings.log_dirs),
        "node.id": str(settings.broker_id),
        "zookeeper.connect": settings.zookeeper_connect,
        **settings.config,
    }


def default_of(config: ConfigDefinition) -> str | None:
    """Return the default of a broker config here, which may differ from Kafka's."""
    return DEFAULTS.get(config.name, config.default)


def places_of(config: ConfigDefinition, sources: BrokerSources) -> list[ConfigSynonym]:
    """Return the places where a broker config could come from, the one that wins first.

    As in Kafka, none comes before the first one under the config's own name.
    """
    known = kafka_configs("broker")
    names = [synonym.name for synonym in config.synonyms] or [config.name]
    places = [
        ConfigSynonym(name, values[name], source)
        for source, values in sources
        for name in names
        if name in values
    ]
    for name in names:
        default = default_of(known[name]) if name in known else None
        if default is not None:
            places.append(ConfigSynonym(name, default, ConfigSource.DEFAULT))
    while places and places[0].name != config.name:
        del places[0]
    return places


def _entry(
    config: ConfigDefinition,
    sources: BrokerSources,
    *,
    is_used: bool,
) -> ConfigEntry:
    places = places_of(config, sources)
    source = places[0].source if places else ConfigSource.DEFAULT
    why = _WITHOUT_EFFECT.get(config.name, None if is_used else _UNUSED)
    return ConfigEntry(
        name=config.name,
        value=places[0].value if places else default_of(config),
        source=source,
        synonyms=tuple(places),
        type=config.type,
        doc=marked_doc(config.doc, why),
        is_default=source is ConfigSource.DEFAULT,
        read_only=config.name not in DYNAMIC_BROKER_CONFIGS,
        is_sensitive=config.is_sensitive,
    )


def _own(name: str) -> ConfigDefinition:
    base = kafka_configs("broker").get(base_name(name))
    if base is not None:  # of one listener
        return replace(base, name=name, default=None, synonyms=())
    is_secret = any(part in name for part in _SECRET_PARTS)
    kind = ConfigType.PASSWORD if is_secret else type_of_own(name)
    return ConfigDefinition(name=name, type=kind, default=None, doc="")
