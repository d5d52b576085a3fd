"""The quotas of each kind of entity, and the values that Kafka accepts for them. Pure.

Values are checked as by Kafka 4.4 and stored as by Kafka 3.9: whole numbers without a point, others
as Java prints a double.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from enum import Enum
from typing import Final

from local_cluster.controller.model.znode_json import UnreadableZnodeError, reading
from local_cluster.quotas.entity import IP, Entity
from local_cluster.wire.errors import ErrorCode, KafkaError

PRODUCER_BYTE_RATE: Final = "producer_byte_rate"
CONSUMER_BYTE_RATE: Final = "consumer_byte_rate"
REQUEST_PERCENTAGE: Final = "request_percentage"
CONTROLLER_MUTATION_RATE: Final = "controller_mutation_rate"
CONNECTION_CREATION_RATE: Final = "connection_creation_rate"


class _Type(Enum):
    """The type of a value, and the greatest one."""

    LONG = (1 << 63) - 1
    INT = (1 << 31) - 1
    DOUBLE = None


_OF_CLIENTS: Final = {
    PRODUCER_BYTE_RATE: _Type.LONG,
    CONSUMER_BYTE_RATE: _Type.LONG,
    REQUEST_PERCENTAGE: _Type.DOUBLE,
    CONTROLLER_MUTATION_RATE: _Type.DOUBLE,
}
_OF_ADDRESSES: Final = {CONNECTION_CREATION_RATE: _Type.INT}

CLIENT_KEYS: Final = tuple(_OF_CLIENTS)
ADDRESS_KEYS: Final = tuple(_OF_ADDRESSES)

_EXPONENT_FROM: Final = 1e7
_EXPONENT_BELOW: Final = 1e-3
"""Java writes a double with an exponent outside of these."""


def encode_value(which: Entity, key: str, value: float) -> str:
    """Return a quota as ZooKeeper has it. Raises KafkaError for a key or value of no use."""
    kind = _types_of(which).get(key)
    if kind is None:
        raise _refused(f"Invalid configuration key {key}")
    if not math.isfinite(value):
        raise _refused(f"Quota {key} must be a finite number")
    if value <= 0:
        raise _refused(f"Quota {key} must be greater than 0")
    if kind is _Type.DOUBLE:
        return java_double(value)
    assert kind.value is not None
    if value > float(kind.value):
        raise _refused(f"Proposed value for {key} is too large for {_ARTICLES[kind]}.")
    if not float(value).is_integer():
        raise _refused(f"{key} cannot be a fractional value.")
    return str(min(int(value), kind.value))


def decode_values(which: Entity, config: Mapping[str, str]) -> dict[str, float]:
    """Return the quotas of an entity's znode, without its other configs such as SCRAM credentials.

    Raises UnreadableZnodeError for a quota that is no number.
    """
    values = {}
    for key in _types_of(which):
        if key in config:
            with reading(f"quota {key}"):
                values[key] = float(config[key])
            if not 0 <= values[key] < math.inf:
                raise UnreadableZnodeError(f"quota {key} is no finite number from 0")
    return values


def java_double(value: float) -> str:
    """Return a positive number as Java's Double.toString."""
    if _EXPONENT_BELOW <= value < _EXPONENT_FROM:
        return repr(value)
    digits, _, exponent = f"{value!r}".partition("e")
    if not exponent:
        # Python writes an exponent only from 1e16 on.
        whole, _, fraction = digits.partition(".")
        stripped = (whole + fraction).lstrip("0").rstrip("0")
        exponent = str(math.floor(math.log10(value)))
        digits = f"{stripped[0]}.{stripped[1:] or '0'}"
    if "." not in digits:
        digits += ".0"
    return f"{digits}E{int(exponent)}"


_ARTICLES: Final = {_Type.LONG: "a LONG", _Type.INT: "an INT"}


def _types_of(which: Entity) -> Mapping[str, _Type]:
    return _OF_ADDRESSES if any(kind == IP for kind, _ in which) else _OF_CLIENTS


def _refused(message: str) -> KafkaError:
    return KafkaError(ErrorCode.invalid_request, message)
