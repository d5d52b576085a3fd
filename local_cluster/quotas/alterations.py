"""One entry of AlterClientQuotas: checked as by Kafka 4.4, then a plan for its znode. Pure."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from local_cluster.quotas.entity import CLIENT_ID, ENTITY_TYPES, IP, USER, Entity, entity
from local_cluster.quotas.quota_keys import encode_value
from local_cluster.wire.errors import ErrorCode, KafkaError

ConfigPlan = Callable[[Mapping[str, str]], dict[str, str]]
"""Maps the present configs of a znode to the wanted ones."""


class Operation(NamedTuple):
    """Set a quota, or delete it with a value of None."""

    key: str
    value: float | None


def checked_entity(names: Mapping[str, str | None]) -> Entity:
    """Return the entity with these names by type. Raises KafkaError if it can have no quota."""
    if not names:
        raise _refused("Invalid empty client quota entity")
    for kind, name in names.items():
        if kind not in ENTITY_TYPES:
            raise _refused(f"Unhandled client quota entity type: {kind}")
        if name == "":
            raise _refused(f"Empty {kind} not supported")
    if IP in names:
        if USER in names or CLIENT_ID in names:
            raise _refused(
                "Invalid quota entity combination, IP entity should not be combined with User or "
                "ClientId"
            )
        _check_address(names[IP])
    return entity(names)


def plan(which: Entity, operations: Sequence[Operation]) -> ConfigPlan:
    """Return how to change the configs of an entity. Raises KafkaError for any bad operation.

    Configs that are no quotas stay: a user's znode has its SCRAM credentials too.
    """
    changes = {
        key: None if value is None else encode_value(which, key, value) for key, value in operations
    }

    def changed(stored: Mapping[str, str]) -> dict[str, str]:
        wanted = {key: value for key, value in stored.items() if key not in changes}
        wanted.update({key: value for key, value in changes.items() if value is not None})
        return wanted

    return changed


def has_duplicate_key(operations: Sequence[Operation]) -> bool:
    """Return whether a quota is named twice."""
    return len({operation.key for operation in operations}) < len(operations)


def _check_address(address: str | None) -> None:
    if address is None:
        return
    try:
        ipaddress.ip_address(address)
    except ValueError as error:
        raise _refused(f"{address} is not a valid IP address.") from error


def _refused(message: str) -> KafkaError:
    return KafkaError(ErrorCode.invalid_request, message)
