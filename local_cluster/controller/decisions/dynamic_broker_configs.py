"""Broker configs that change without a restart (KIP-226), and their valid values. Pure.

ZooKeeper holds them under /config/brokers/<id>, and for all brokers under
/config/brokers/<default>; the broker's own value wins. These are the configs that Kafka changes at
run time and this broker uses, and the defaults of topic configs. All others are refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from local_cluster.broker_configs import (
    KNOWN_BROKER_CONFIGS,
    base_name,
    did_you_mean,
    find_problem,
    find_unmet,
)
from local_cluster.kafka_configs.definition import LONG_MAX, ConfigDefinition, ConfigType
from local_cluster.kafka_configs.table import kafka_configs
from local_cluster.log.config.topic_configs import TOPIC_CONFIGS
from local_cluster.wire.errors import ErrorCode, KafkaError

DEFAULT_ENTITY: Final = "<default>"
"""Name of the znode with the defaults of all brokers."""

LEADER_RATE: Final = "leader.replication.throttled.rate"
FOLLOWER_RATE: Final = "follower.replication.throttled.rate"
LOG_DIRS_RATE: Final = "replica.alter.log.dirs.io.max.bytes.per.second"
USED_AT_RUN_TIME: Final = frozenset(
    {
        "group.consumer.assignment.interval.ms",
        "log.cleaner.backoff.ms",
        "log.cleaner.dedupe.buffer.size",
        "log.cleaner.io.buffer.load.factor",
        "log.cleaner.io.max.bytes.per.second",
        "max.connection.creation.rate",
        "max.connections",
        "max.connections.per.ip",
        "max.connections.per.ip.overrides",
        "producer.id.expiration.ms",
        "transaction.partition.verification.enable",
    }
)
"""Besides throttles and defaults of topic configs: what this broker reads anew when it changes."""
PER_LISTENER: Final = frozenset(
    {
        "ssl.key.password",
        "ssl.keystore.certificate.chain",
        "ssl.keystore.key",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.keystore.type",
        "ssl.truststore.certificates",
        "ssl.truststore.location",
        "ssl.truststore.password",
        "ssl.truststore.type",
    }
)
"""Kafka changes them under the prefix of a listener only (SslConfigs.RECONFIGURABLE_CONFIGS)."""
CLUSTER_WIDE: Final = frozenset(
    {"max.connection.creation.rate", "max.connections", "num.network.threads"}
)
"""Configs of listeners that Kafka also changes for all brokers at once."""

_LISTENER_PREFIX: Final = re.compile(r"listener\.name\.[^.]*\.(.*)")
_PER_BROKER: Final = re.compile(r"listener.*|principal\.builder\.class|sasl\..*|ssl\..*")


def _rate(name: str, doc: str) -> ConfigDefinition:
    return ConfigDefinition(
        name=name, type=ConfigType.LONG, default=str(LONG_MAX), doc=doc, minimum=0
    )


def _topic_defaults() -> dict[str, ConfigDefinition]:
    """Return the broker configs that are defaults of topic configs, by the broker's name."""
    kafkas = kafka_configs("broker")
    return {
        synonym.name: kafkas.get(synonym.name) or replace(config, name=synonym.name, synonyms=())
        for config in TOPIC_CONFIGS.values()
        for synonym in config.synonyms
        if synonym.name not in kafkas or kafkas[synonym.name].is_dynamic
    }


THROTTLES: Final[Mapping[str, ConfigDefinition]] = {
    config.name: config
    for config in (
        _rate(LEADER_RATE, "Bytes per second sent to throttled replicas that are not in sync."),
        _rate(FOLLOWER_RATE, "Bytes per second fetched for throttled replicas not in sync."),
        _rate(LOG_DIRS_RATE, "Bytes per second copied between log directories."),
    )
}
"""Kafka's replication throttles (KIP-73, KIP-113). DescribeConfigs shows them only while set."""
DYNAMIC_BROKER_CONFIGS: Final[Mapping[str, ConfigDefinition]] = {
    **THROTTLES,
    **_topic_defaults(),
    **{name: kafka_configs("broker")[name] for name in USED_AT_RUN_TIME},
}
"""Every config that can be changed at run time; some for one listener, too."""


def is_dynamic(name: str) -> bool:
    """Return whether a config can be changed at run time, for the broker or for a listener."""
    return base_name(name) in DYNAMIC_BROKER_CONFIGS


def check_broker_configs(configs: Mapping[str, str], *, for_all: bool) -> None:
    """Raise KafkaError(invalid_request) as Kafka 4.4 does, in its order; `for_all`: "<default>".

    Afterwards refuse names that Kafka takes and this broker does not use. Messages have no secrets.
    """
    kafkas = kafka_configs("broker")
    names = sorted(configs)
    _refuse([name for name in names if _is_fixed(name)], "Cannot update these configs dynamically")
    _refuse(
        [name for name in names if name in PER_LISTENER],
        "These security configs can be dynamically updated only per-listener using the listener"
        " prefix",
    )
    for name, value in configs.items():
        definition = DYNAMIC_BROKER_CONFIGS.get(name) or kafkas.get(_without_listener(name))
        if definition is not None and (refusal := definition.refusal(value, name)) is not None:
            raise KafkaError(ErrorCode.invalid_request, refusal)
    if for_all:
        _refuse(
            [name for name in names if _is_per_broker(name)],
            "Cannot update these configs at default cluster level, broker id must be specified",
        )
    for name in names:
        if not is_dynamic(name):
            raise KafkaError(ErrorCode.invalid_request, _why_unused(name))
    for name, value in configs.items():
        if (problem := value_problem(name, value)) is not None:
            raise KafkaError(ErrorCode.invalid_request, problem)


def value_problem(name: str, value: str) -> str | None:
    """Return why a value of a dynamic config is refused, None if it is valid."""
    base = base_name(name)
    refusal = DYNAMIC_BROKER_CONFIGS[base].refusal(value, name)
    if refusal is not None:
        return refusal
    unmet = find_unmet(base, value)
    if unmet is not None:
        return f"requirement failed: {name} must be {unmet}"
    expected = find_problem(name, value) if base in KNOWN_BROKER_CONFIGS else None
    return (
        None if expected is None else f"Invalid value {value} for configuration {name}: {expected}"
    )


def valid_configs(configs: Mapping[str, str]) -> dict[str, str]:
    """Return stored configs without unknown names and values that are not valid."""
    return {
        name: value
        for name, value in configs.items()
        if is_dynamic(name) and value_problem(name, value) is None
    }


def broker_overrides(entities: Mapping[str, Mapping[str, str]], broker_id: int) -> dict[str, str]:
    """Return the valid dynamic configs that a broker uses."""
    return {
        name: value
        for entity in (DEFAULT_ENTITY, str(broker_id))
        for name, value in valid_configs(entities.get(entity, {})).items()
    }


def _refuse(names: list[str], why: str) -> None:
    if names:
        raise KafkaError(ErrorCode.invalid_request, f"{why}: [{', '.join(names)}]")


def _is_fixed(name: str) -> bool:
    """Whether only a restart changes a config, in Kafka and here."""
    if is_dynamic(name):
        return False
    config = kafka_configs("broker").get(name)
    return name in KNOWN_BROKER_CONFIGS if config is None else not config.is_dynamic


def _without_listener(name: str) -> str:
    """Return the name without the prefix of a listener."""
    found = _LISTENER_PREFIX.fullmatch(name)
    return name if found is None else found.group(1)


def _is_per_broker(name: str) -> bool:
    return _PER_BROKER.fullmatch(name) is not None and _without_listener(name) not in CLUSTER_WIDE


def _why_unused(name: str) -> str:
    """Return why a config is refused that Kafka would take."""
    if _PER_BROKER.fullmatch(name) is not None:
        return (
            f"Cannot update these configs dynamically: [{name}]. Listeners change with a restart of"
            " this broker; it reloads a certificate by itself when the file changes"
        )
    if name in kafka_configs("broker"):
        return f"Cannot update these configs dynamically: [{name}]. This broker does not use it"
    return f"Unknown broker config name: {name}{did_you_mean(name, DYNAMIC_BROKER_CONFIGS)}"
