"""What a config is: its name, type, default and bounds, and its names on the broker."""

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
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


_LIMITS: Final = {
    ConfigType.SHORT: (1 << 15) - 1,
    ConfigType.INT: INT_MAX,
    ConfigType.LONG: LONG_MAX,
}

_OUT_OF_BOUNDS: Final = "Value must be"


def _same(value: str) -> str:
    return value


@dataclass(frozen=True, slots=True)
class Synonym:
    """A broker config that sets the default of another config."""

    name: str
    convert: Callable[[str], str] = _same


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigDefinition:
    """One config. `minimum` and `maximum` bound numbers, `choices` strings and lists."""

    name: str
    type: ConfigType
    default: str | None
    """None: no value, which DescribeConfigs shows as null."""
    doc: str
    synonyms: tuple[Synonym, ...] = ()
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[str, ...] | None = None
    ignores_case: bool = False
    """The case of a choice is of no account."""
    is_dynamic: bool = False
    """Kafka changes this broker config without a restart."""
    is_internal: bool = False
    """Shown only where it is set."""
    is_replica_list: bool = False
    """A list of partition:broker, or `*` (KIP-73)."""

    @property
    def is_sensitive(self) -> bool:
        """Whether DescribeConfigs hides the value."""
        return self.type is ConfigType.PASSWORD

    def require(self, value: str, name: str) -> None:
        """Raise KafkaError(invalid_config) unless the value is valid; `name` is where it is set."""
        refusal = self.refusal(value, name)
        if refusal is not None:
            raise KafkaError(ErrorCode.invalid_config, refusal)

    def refusal(self, value: str, name: str) -> str | None:
        """Return Kafka's message for a value that is not valid, None if it is valid."""
        problem = self.problem(value)
        if problem is None:
            return None
        is_parsed = self.type is ConfigType.DOUBLE and problem.startswith(_OUT_OF_BOUNDS)
        shown = str(float(value)) if is_parsed else value
        return f"Invalid value {shown} for configuration {name}: {problem}"

    def problem(self, value: str) -> str | None:
        """Return why a value is not valid, None if it is."""
        match self.type:
            case ConfigType.BOOLEAN:
                return (
                    None
                    if value.strip().lower() in ("true", "false")
                    else "Expected value to be either true or false"
                )
            case ConfigType.INT | ConfigType.LONG | ConfigType.SHORT:
                return self._number_problem(value)
            case ConfigType.DOUBLE:
                try:
                    return self._range_problem(float(value))
                except ValueError:
                    return "Not a number of type DOUBLE"
            case ConfigType.STRING | ConfigType.CLASS | ConfigType.PASSWORD:
                return self._choice_problem([value])
            case ConfigType.LIST:
                parts = [part.strip() for part in value.split(",")] if value.strip() else []
                if self.is_replica_list and not _names_replicas(parts):
                    return (
                        f"{self.name} must be the literal '*' or a list of replicas in the "
                        "following format: [partitionId]:[brokerId],[partitionId]:[brokerId],..."
                    )
                return self._choice_problem(parts)

    def _number_problem(self, value: str) -> str | None:
        try:
            number = int(value)
        except ValueError:
            return f"Not a number of type {self.type.name}"
        limit = _LIMITS[self.type]
        if not -limit - 1 <= number <= limit:
            return f"Not a number of type {self.type.name}"
        return self._range_problem(number)

    def _range_problem(self, number: float) -> str | None:
        if self.minimum is not None and not number >= self.minimum:
            return f"{_OUT_OF_BOUNDS} at least {_plain(self.minimum)}"
        if self.maximum is not None and not number <= self.maximum:
            return f"{_OUT_OF_BOUNDS} no more than {_plain(self.maximum)}"
        return None

    def _choice_problem(self, parts: list[str]) -> str | None:
        if self.choices is None:
            return None
        if self.ignores_case:
            parts = [part.upper() for part in parts]
        if all(part in self.choices for part in parts):
            return None
        return f"String must be one of: {', '.join(self.choices)}"


def _plain(bound: float) -> str:
    """Return a bound without an exponent, as Java shows it."""
    return str(int(bound)) if bound == int(bound) else str(bound)


def _names_replicas(parts: list[str]) -> bool:
    return parts == ["*"] or all(re.fullmatch("([0-9]+:[0-9]+)?", part) for part in parts)
