"""Loggers of this broker as config resources (KIP-412): describe their levels, set them.

Levels have Kafka's names, loggers Python's. A level lasts until the broker stops.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import Final

from local_cluster.controller.decisions.config_requests import ConfigChange
from local_cluster.kafka_configs.definition import ConfigType
from local_cluster.log.config.description import ConfigEntry
from local_cluster.wire.constants import AlterOperation, ConfigSource
from local_cluster.wire.errors import ErrorCode, KafkaError

ROOT: Final = "root"
LEVELS: Final = {
    "TRACE": logging.DEBUG,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
}
"""Python has no TRACE: it is DEBUG here."""
_NAMES: Final = {level: name for name, level in LEVELS.items()}


def logger_entries() -> list[ConfigEntry]:
    """Return each logger with its effective level."""
    return [
        ConfigEntry(
            name=name,
            value=_level_name(logging.getLogger(None if name == ROOT else name)),
            source=ConfigSource.DYNAMIC_BROKER_LOGGER,
            synonyms=(),
            type=ConfigType.STRING,
            doc="",
            is_default=False,
            read_only=False,
            is_sensitive=False,
        )
        for name in _logger_names()
    ]


def alter_loggers(changes: Sequence[ConfigChange], *, validate_only: bool) -> None:
    """Set levels, or return to the parent's level (DELETE). All changes are applied or none.

    Raises KafkaError: invalid_config for an unknown logger or level, invalid_request for other
    operations.
    """
    known = set(_logger_names())
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
        level = logging.NOTSET if deletes else LEVELS[str(change.value)]
        logging.getLogger(None if change.name == ROOT else change.name).setLevel(level)


def _operation_name(operation: int) -> str:
    try:
        return AlterOperation(operation).name
    except ValueError:
        return str(operation)


def _logger_names() -> Iterator[str]:
    yield ROOT
    for name, logger in sorted(logging.root.manager.loggerDict.items()):
        if isinstance(logger, logging.Logger):
            yield name


def _level_name(logger: logging.Logger) -> str:
    level = logger.getEffectiveLevel()
    return _NAMES.get(max((known for known in _NAMES if known <= level), default=0), "DEBUG")
