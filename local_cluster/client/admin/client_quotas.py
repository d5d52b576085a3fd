"""Describes and alters client quotas (KIP-546)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from local_cluster.client.calls import ClusterCalls
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import KafkaError

ENTITIES_PER_REQUEST_MAX: Final = 500
ENTITY_TYPES: Final = ("user", "client-id", "ip")

QuotaEntity = tuple[tuple[str, str | None], ...]
"""Pairs of a type (user, client-id, ip) and a name, in the order of the types; None is the
default."""


class QuotaChange(NamedTuple):
    """One quota of an entity."""

    entity: QuotaEntity
    key: str
    """Such as producer_byte_rate."""
    value: float | None
    """None removes the quota."""


async def describe_client_quotas(client: ClusterCalls) -> dict[QuotaEntity, dict[str, float]]:
    """Return the quotas of every entity, as the controller knows them. Raises KafkaError."""
    response = await client.call_controller(
        ApiKey.DESCRIBE_CLIENT_QUOTAS, {"components": [], "strict": False}
    )
    if response.error_code:
        raise KafkaError(response.error_code, response.error_message or "DescribeClientQuotas")
    return {
        _ordered({each.entity_type: each.entity_name for each in entry.entity}): {
            each.key: float(each.value) for each in entry.values
        }
        for entry in response.entries or ()
    }


async def alter_client_quotas(
    client: ClusterCalls, changes: Sequence[QuotaChange], *, validate_only: bool = False
) -> list[KafkaError | None]:
    """Change the quotas of each entity together; return the error of each change.

    Raises KafkaError if a whole request fails.
    """
    by_entity: dict[QuotaEntity, list[QuotaChange]] = {}
    for change in changes:
        by_entity.setdefault(change.entity, []).append(change)
    entities = list(by_entity)
    results: dict[QuotaEntity, KafkaError | None] = {}
    for start in range(0, len(entities), ENTITIES_PER_REQUEST_MAX):
        chosen = entities[start : start + ENTITIES_PER_REQUEST_MAX]
        response = await client.call_controller(
            ApiKey.ALTER_CLIENT_QUOTAS,
            {
                "entries": [
                    {
                        "entity": [
                            {"entity_type": kind, "entity_name": name} for kind, name in entity
                        ],
                        "ops": [
                            {
                                "key": each.key,
                                "value": 0.0 if each.value is None else each.value,
                                "remove": each.value is None,
                            }
                            for each in by_entity[entity]
                        ],
                    }
                    for entity in chosen
                ],
                "validate_only": validate_only,
            },
        )
        for entry in response.entries:
            names = {each.entity_type: each.entity_name for each in entry.entity}
            code, message = entry.error_code, entry.error_message
            results[_ordered(names)] = KafkaError(code, message or "") if code else None
    return [results[each.entity] for each in changes]


def _ordered(names: Mapping[str, str | None]) -> QuotaEntity:
    """Return an entity with its types in the order user, client-id, ip."""
    return tuple((kind, names[kind]) for kind in ENTITY_TYPES if kind in names)
