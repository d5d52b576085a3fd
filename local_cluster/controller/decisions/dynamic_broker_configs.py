"""Broker configs that change without a restart, and the values that one broker uses. Pure.

ZooKeeper holds them under /config/brokers/<id>, and for all brokers under
/config/brokers/<default>; the broker's own value wins. They are Kafka's replication throttles
(KIP-73, KIP-113). The other dynamic configs of Kafka need a restart here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from local_cluster.kafka_configs.definition import LONG_MAX, ConfigDefinition, ConfigType
from local_cluster.wire.errors import ErrorCode, KafkaError

DEFAULT_ENTITY: Final = "<default>"
"""Name of the znode with the defaults of all brokers."""

LEADER_RATE: Final = "leader.replication.throttled.rate"
FOLLOWER_RATE: Final = "follower.replication.throttled.rate"
LOG_DIRS_RATE: Final = "replica.alter.log.dirs.io.max.bytes.per.second"


def _rate(name: str, doc: str) -> ConfigDefinition:
    return ConfigDefinition(
        name=name, type=ConfigType.LONG, default=str(LONG_MAX), doc=doc, minimum=0
    )


DYNAMIC_BROKER_CONFIGS: Final[Mapping[str, ConfigDefinition]] = {
    config.name: config
    for config in (
        _rate(LEADER_RATE, "Bytes per second sent to throttled replicas that are not in sync."),
        _rate(FOLLOWER_RATE, "Bytes per second fetched for throttled replicas not in sync."),
        _rate(LOG_DIRS_RATE, "Bytes per second copied between log directories."),
    )
}
"""DescribeConfigs shows them only while they are set, as Kafka does."""


def check_broker_configs(configs: Mapping[str, str]) -> None:
    """Raise KafkaError: invalid_request for a config that is not dynamic, invalid_config for a
    wrong value."""
    fixed = sorted(configs.keys() - DYNAMIC_BROKER_CONFIGS.keys())
    if fixed:
        raise KafkaError(
            ErrorCode.invalid_request,
            f"Cannot update these configs dynamically: [{', '.join(fixed)}]",
        )
    for name, value in configs.items():
        problem = DYNAMIC_BROKER_CONFIGS[name].problem(value)
        if problem is not None:
            raise KafkaError(
                ErrorCode.invalid_config,
                f"Invalid value {value} for configuration {name}: {problem}",
            )


def broker_overrides(entities: Mapping[str, Mapping[str, str]], broker_id: int) -> dict[str, str]:
    """Return the values that a broker uses, without unknown configs and values out of bounds."""
    return {
        name: value
        for entity in (DEFAULT_ENTITY, str(broker_id))
        for name, value in entities.get(entity, {}).items()
        if name in DYNAMIC_BROKER_CONFIGS and DYNAMIC_BROKER_CONFIGS[name].problem(value) is None
    }
