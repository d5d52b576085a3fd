"""What a topic config is: its name, type, default and bounds, and its names on the broker."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from local_cluster.wire.errors import ErrorCode, KafkaError

INT_MAX: Final = (1 << 31) - 1
LONG_MAX: Final = (1 << 63) - 1


class ConfigType(IntEnum):
    """The types of configs, with their numbers in DescribeConfigs."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    LONG = 5
    DOUBLE = 6
    LIST = 7


def _same(value: str) -> str:
    return value


@dataclass(frozen=True, slots=True)
class Synonym:
    """A broker config that sets the default of a topic config."""

    name: str
    convert: Callable[[str], str] = _same


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicConfig:
    """One topic config. `minimum` and `maximum` bound numbers, `choices` strings and lists."""

    name: str
    type: ConfigType
    default: str
    synonyms: tuple[Synonym, ...]
    doc: str
    minimum: float | None = None
    maximum: float | None = None
    choices: frozenset[str] | None = None
    is_replica_list: bool = False
    """A list of partition:broker, or `*` (KIP-73)."""

    def require(self, value: str, name: str) -> None:
        """Raise KafkaError(invalid_config) unless the value is valid; `name` is where it is set."""
        problem = self.problem(value)
        if problem is not None:
            raise KafkaError(
                ErrorCode.invalid_config,
                f"Invalid value {value} for configuration {name}: {problem}",
            )

    def problem(self, value: str) -> str | None:
        """Return why a value is not valid, None if it is."""
        match self.type:
            case ConfigType.BOOLEAN:
                return (
                    None
                    if value.lower() in ("true", "false")
                    else "Expected value to be either true or false"
                )
            case ConfigType.INT | ConfigType.LONG:
                return self._number_problem(value)
            case ConfigType.DOUBLE:
                try:
                    return self._range_problem(float(value))
                except ValueError:
                    return "Not a number of type DOUBLE"
            case ConfigType.STRING:
                return self._choice_problem([value])
            case ConfigType.LIST:
                parts = [part.strip() for part in value.split(",")] if value.strip() else []
                if self.is_replica_list and not _names_replicas(parts):
                    return (
                        f"{self.name} must be the literal '*' or a list of replicas in the "
                        "following format: [partitionId]:[brokerId],[partitionId]:[brokerId],..."
                    )
                return self._choice_problem(parts)
        raise AssertionError(self.type)

    def _number_problem(self, value: str) -> str | None:
        try:
            number = int(value)
        except ValueError:
            return f"Not a number of type {self.type.name}"
        limit = INT_MAX if self.type is ConfigType.INT else LONG_MAX
        if not -limit - 1 <= number <= limit:
            return f"Not a number of type {self.type.name}"
        return self._range_problem(number)

    def _range_problem(self, number: float) -> str | None:
        if self.minimum is not None and not number >= self.minimum:
            return f"Value must be at least {self.minimum:g}"
        if self.maximum is not None and not number <= self.maximum:
            return f"Value must be no more than {self.maximum:g}"
        return None

    def _choice_problem(self, parts: list[str]) -> str | None:
        if self.choices is None or all(part in self.choices for part in parts):
            return None
        return f"String must be one of: {', '.join(sorted(self.choices))}"


def _names_replicas(parts: list[str]) -> bool:
    return parts == ["*"] or all(re.fullmatch("([0-9]+:[0-9]+)?", part) for part in parts)
