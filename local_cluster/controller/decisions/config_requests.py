"""Changes of configs, checked and applied as Kafka 4.3 does. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from local_cluster.controller.decisions.dynamic_broker_configs import (
    DYNAMIC_BROKER_CONFIGS,
    check_broker_configs,
)
from local_cluster.kafka_configs.client_metrics import check_client_metrics
from local_cluster.kafka_configs.definition import ConfigDefinition, ConfigType
from local_cluster.kafka_configs.groups import check_group_configs
from local_cluster.kafka_configs.table import kafka_configs
from local_cluster.log.config.log_config import LogConfig
from local_cluster.log.config.topic_configs import TOPIC_CONFIGS
from local_cluster.wire.constants import AlterOperation
from local_cluster.wire.errors import ErrorCode, KafkaError


class ConfigChange(NamedTuple):
    """One config to change; the operation may be an unknown number."""

    name: str
    operation: int
    value: str | None


class ConfigRules(NamedTuple):
    """The configs of a kind of resource, and the check of their values."""

    known: Mapping[str, ConfigDefinition]
    check: Callable[[Mapping[str, str]], object]
    """Raises KafkaError for invalid overrides."""
    types: Mapping[str, ConfigDefinition] | None = None
    """Tells which configs are lists; `known` if it is None."""
    say_no_list: Callable[[str, str], str] = lambda operation, name: (
        f"Can't {operation} to key {name} because its type is not LIST."
    )
    """Returns the refusal to append to a config that is no list."""


def topic_rules(broker_config: Mapping[str, str]) -> ConfigRules:
    """Return the rules for topics; the broker's own configs give the defaults."""
    return ConfigRules(TOPIC_CONFIGS, lambda overrides: LogConfig.of(overrides, broker_config))


def group_rules(broker_config: Mapping[str, str]) -> ConfigRules:
    """Return the rules for groups; the broker's own configs give defaults and bounds."""
    return ConfigRules(
        kafka_configs("group"), lambda overrides: check_group_configs(overrides, broker_config)
    )


def broker_rules(*, for_all: bool) -> ConfigRules:
    """Return the rules for one running broker, or for all of them."""
    return ConfigRules(
        DYNAMIC_BROKER_CONFIGS,
        lambda overrides: check_broker_configs(overrides, for_all=for_all),
        types={**kafka_configs("broker"), **DYNAMIC_BROKER_CONFIGS},
        say_no_list=lambda operation, name: (
            f"Config value {operation.lower()} is not allowed for config key: {name}"
        ),
    )


CLIENT_METRICS_RULES: Final = ConfigRules(kafka_configs("client_metrics"), check_client_metrics)
"""The rules for client metrics subscriptions."""


def check_changes(changes: Sequence[ConfigChange]) -> None:
    """Raise KafkaError(invalid_request) for repeated names, missing values, unknown operations."""
    names = [change.name for change in changes]
    if len(set(names)) != len(names):
        raise KafkaError(ErrorCode.invalid_request, "Error due to duplicate config keys")
    empty = sorted(
        change.name
        for change in changes
        if change.value is None and change.operation != AlterOperation.DELETE
    )
    if empty:
        raise KafkaError(
            ErrorCode.invalid_request, f"Null value not supported for : {','.join(empty)}"
        )
    for change in changes:
        if change.operation not in set(AlterOperation):
            raise KafkaError(
                ErrorCode.invalid_request, f"Unknown operation type {change.operation}"
            )


def replaced_configs(changes: Sequence[ConfigChange], rules: ConfigRules) -> dict[str, str]:
    """Return the overrides after AlterConfigs: only the named configs stay. Raises KafkaError."""
    check_changes(changes)
    configs = {c.name: c.value for c in changes if c.value is not None}
    rules.check(configs)
    return configs


def changed_configs(
    current: Mapping[str, str], changes: Sequence[ConfigChange], rules: ConfigRules
) -> dict[str, str]:
    """Return the overrides after IncrementalAlterConfigs. Raises KafkaError.

    A list starts from its override, or else from the default of the config table, as in Kafka.
    """
    check_changes(changes)
    configs = dict(current)
    for name, operation, value in changes:
        if operation == AlterOperation.DELETE:
            configs.pop(name, None)
        elif operation == AlterOperation.SET:
            configs[name] = value or ""
        else:
            configs[name] = _changed_list(configs, rules, name, operation, value or "")
    # An unknown config that a tool of another version set before does not fail this request.
    kept = {n for n, v in current.items() if n not in rules.known and configs.get(n) == v}
    rules.check({name: value for name, value in configs.items() if name not in kept})
    return configs


def _changed_list(
    configs: Mapping[str, str], rules: ConfigRules, name: str, operation: int, value: str
) -> str:
    known = (rules.types or rules.known).get(name)
    if known is None or known.type is not ConfigType.LIST:
        verb = "APPEND" if operation == AlterOperation.APPEND else "SUBTRACT"
        raise KafkaError(ErrorCode.invalid_config, rules.say_no_list(verb, name))
    before = [part for part in configs.get(name, known.default or "").split(",") if part]
    given = value.split(",")
    if operation == AlterOperation.APPEND:
        return ",".join([*before, *(part for part in given if part not in before)])
    return ",".join(part for part in before if part not in given)
