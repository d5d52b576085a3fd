"""Loggers of this broker as config resources (KIP-412): describe their levels, set them.

A level lasts until the broker stops.
"""

from __future__ import annotations

from collections.abc import Sequence

from local_cluster.controller.decisions.config_requests import ConfigChange
from local_cluster.kafka_configs.definition import ConfigType
from local_cluster.log.config.description import ConfigEntry
from local_cluster.log_levels import LEVELS, ROOT, logger_levels, logger_names, set_level
from local_cluster.wire.constants import AlterOperation, ConfigSource
from local_cluster.wire.errors import ErrorCode, KafkaError


def logger_entries() -> list[ConfigEntry]:
    """Return each logger with its effective level."""
    return [
        ConfigEntry(
            name=each.logger,
            value=each.level,
            source=ConfigSource.DYNAMIC_BROKER_LOGGER,
            synonyms=(),
            type=ConfigType.STRING,
            doc="",
            is_default=False,
            read_only=False,
            is_sensitive=False,
        )
        for each in logger_levels()
    ]


def alter_loggers(changes: Sequence[ConfigChange], *, validate_only: bool, by: str) -> None:
    """Set levels, or return to the parent's level (DELETE). All changes are applied or none.

    `by` says in the log who asked. Raises KafkaError: invalid_config for an unknown logger or
    level, invalid_request for other operations.
    """
    known = set(logger_names())
    for change in changes:
        if change.operation not in (AlterOperation.SET, AlterOperation.DELETE):
            raise KafkaError(
                ErrorCode.invalid_request,
                f"{_operation_name(change.operation)} operation is not allowed for the"
                " BROKER_LOGGER resource",
            )
        if change.name not in known:
            raise KafkaError(ErrorCode.invalid_config, f"Logger {change.name} does not exist!")
        if change.operation == AlterOperation.SET and change.value not in LEVELS:
            raise KafkaError(
                ErrorCode.invalid_config,
                f"Cannot set the log level of {change.name} to {change.value} as it is not a "
                f"supported log level. Valid log levels are {', '.join(sorted(LEVELS))}",
            )
        if change.operation == AlterOperation.DELETE and change.name == ROOT:
            raise KafkaError(
                ErrorCode.invalid_request,
                f"Removing the log level of the {ROOT} logger is not allowed",
            )
    for change in changes if not validate_only else ():
        deletes = change.operation == AlterOperation.DELETE
        set_level(change.name, None if deletes else change.value, by=by)


def _operation_name(operation: int) -> str:
    try:
        return AlterOperation(operation).name
    except ValueError:
        return str(operation)
