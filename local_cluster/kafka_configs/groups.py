"""The configs of one group (KIP-848): which values are valid, and which are in use. Pure.

A config such as consumer.session.timeout.ms has its default in the broker config
group.consumer.session.timeout.ms. Two more broker configs bound it, group.consumer.min.session.
timeout.ms and its max (Kafka's GroupConfig).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from local_cluster.kafka_configs.definition import ConfigDefinition
from local_cluster.kafka_configs.table import kafka_configs
from local_cluster.wire.errors import ErrorCode, KafkaError

WITHOUT_EFFECT: Final[Mapping[str, str]] = {
    "errors.": "there are no share groups",
    "share.": "there are no share groups",
    "streams.": "groups of the streams protocol are not served",
}
"""Kinds of group configs that are kept and shown without any effect, by the start of the name."""

BrokerConfigs = Mapping[str, str]
"""The configs that the broker's settings set."""


def why_without_effect(name: str) -> str | None:
    """Return why a group config has no effect, None if it has one."""
    return next((why for start, why in WITHOUT_EFFECT.items() if name.startswith(start)), None)


def check_group_configs(configs: Mapping[str, str], broker: BrokerConfigs) -> None:
    """Raise KafkaError(invalid_config) for an unknown name or an invalid value."""
    known = kafka_configs("group")
    for name in configs:
        if name not in known:
            raise KafkaError(ErrorCode.invalid_config, f"Unknown group config name: {name}")
    for name, value in configs.items():
        known[name].require(value, name)
    for name, value in configs.items():
        bounds = bounds_of(name, broker)
        if bounds is not None and not bounds[0] <= int(value) <= bounds[1]:
            raise KafkaError(
                ErrorCode.invalid_config,
                f"{name} must be in the range {bounds[0]} to {bounds[1]} inclusive.",
            )
    for kind in ("consumer", "share", "streams"):
        heartbeat, session = f"{kind}.heartbeat.interval.ms", f"{kind}.session.timeout.ms"
        if not {heartbeat, session} & configs.keys():
            continue
        if number_in_use(session, configs, broker) <= number_in_use(heartbeat, configs, broker):
            raise KafkaError(
                ErrorCode.invalid_config, f"{session} must be greater than {heartbeat}"
            )


def bounds_of(name: str, broker: BrokerConfigs) -> tuple[int, int] | None:
    """Return what the broker allows for a group config; None if it sets no bounds."""
    kind, _, rest = name.partition(".")
    known = kafka_configs("broker")
    bounds = [f"group.{kind}.{end}.{rest}" for end in ("min", "max")]
    if not all(bound in known for bound in bounds):
        return None
    low, high = (int(broker.get(bound, known[bound].default or "0")) for bound in bounds)
    return low, high


def number_in_use(name: str, configs: Mapping[str, str], broker: BrokerConfigs) -> int:
    """Return the value that a group uses.

    A stored value outside the present bounds of the broker counts as the nearest allowed one, and
    one that is no number as the default.
    """
    config = kafka_configs("group")[name]
    value = configs.get(name)
    if value is None or config.problem(value) is not None:
        return int(default_of(config, broker) or "0")
    bounds = bounds_of(name, broker)
    return int(value) if bounds is None else min(max(int(value), bounds[0]), bounds[1])


def default_of(config: ConfigDefinition, broker: BrokerConfigs) -> str | None:
    """Return the value of a group config that the group does not set."""
    for synonym in config.synonyms:
        if synonym.name in broker:
            return broker[synonym.name]
    return config.default
