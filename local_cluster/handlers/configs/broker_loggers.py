"""Loggers of this broker as config resources (KIP-412): their levels are told and can be set.

Levels go by Kafka's names, loggers by Python's. What is set lasts until the broker ends.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any, Final

from local_cluster.controller.decisions.config_requests import AlterOperation
from local_cluster.log.config.definition import ConfigType
from local_cluster.log.config.description import ConfigEntry, ConfigSource
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
    """Every logger with the level that is in force."""
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


def alter_loggers(resource: Any, *, validate_only: bool) -> None:
    """Set levels, or go back to the level of the parent (DELETE).

    Raises KafkaError: invalid_config for an unknown logger or level, invalid_request for an
    operation that is neither, and nothing is changed.
    """
    known = set(_logger_names())
    for entry in resource.configs:
        if entry.config_operation not in (AlterOperation.SET, AlterOperation.DELETE):
            raise KafkaError(
                ErrorCode.invalid_request,
                "Only the SET and DELETE operations are supported for loggers.",
            )
        if entry.name not in known:
            raise KafkaError(ErrorCode.invalid_config, f"Logger {entry.name} does not exist!")
        if entry.config_operation == AlterOperation.SET and entry.value not in LEVELS:
            raise KafkaError(
                ErrorCode.invalid_config,
                f"Cannot set the log level of {entry.name} to {entry.value} as it is not a "
                f"supported log level. Valid log levels are {', '.join(LEVELS)}",
            )
        if entry.config_operation == AlterOperation.DELETE and entry.name == ROOT:
            raise KafkaError(
                ErrorCode.invalid_request,
                f"Removing the log level of the {ROOT} logger is not allowed",
            )
    for entry in resource.configs if not validate_only else ():
        delete = entry.config_operation == AlterOperation.DELETE
        level = logging.NOTSET if delete else LEVELS[entry.value]
        logging.getLogger(None if entry.name == ROOT else entry.name).setLevel(level)


def _logger_names() -> Iterator[str]:
    yield ROOT
    for name, logger in sorted(logging.root.manager.loggerDict.items()):
        if isinstance(logger, logging.Logger):
            yield name


def _level_name(logger: logging.Logger) -> str:
    level = logger.getEffectiveLevel()
    return _NAMES.get(max((known for known in _NAMES if known <= level), default=0), "DEBUG")
