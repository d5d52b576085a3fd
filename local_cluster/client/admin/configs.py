"""Describes, sets and resets single configs of topics, brokers and other resources (KIP-339)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from local_cluster.client.calls import ClusterCalls
from local_cluster.client.model import ConfigChange, ConfigEntry
from local_cluster.wire.api import ApiKey
from local_cluster.wire.constants import AlterOperation, ConfigResourceType
from local_cluster.wire.errors import KafkaError
from local_cluster.wire.messages import get

_AT_BROKER = (ConfigResourceType.BROKER, ConfigResourceType.BROKER_LOGGER)
"""Resources that only the broker itself describes and alters."""


async def describe_configs(
    client: ClusterCalls,
    resource_type: ConfigResourceType,
    name: str,
    *,
    with_documentation: bool = False,
) -> list[ConfigEntry]:
    """Return the configs of one resource, by name. Raises KafkaError."""
    response = await client.call(
        ApiKey.DESCRIBE_CONFIGS,
        {
            "resources": [
                {
                    "resource_type": resource_type,
                    "resource_name": name,
                    "configuration_keys": None,
                }
            ],
            "include_synonyms": False,
            "include_documentation": with_documentation,
        },
        node_id=_node(resource_type, name),
    )
    (result,) = response.results
    if result.error_code:
        raise KafkaError(result.error_code, result.error_message or "")
    return sorted(
        ConfigEntry(
            entry.name,
            entry.value,
            int(get(entry, "config_source", -1)),
            entry.is_sensitive,
            entry.read_only,
            get(entry, "documentation", None),
        )
        for entry in result.configs
    )


async def alter_configs(
    client: ClusterCalls,
    resource_type: ConfigResourceType,
    name: str,
    changes: Sequence[ConfigChange],
    *,
    validate_only: bool = False,
) -> None:
    """Change configs of one resource, all or none; or only let the broker check the changes.

    Raises KafkaError.
    """
    fields = _request(resource_type, {name: changes}, validate_only=validate_only)
    node_id = _node(resource_type, name)
    if node_id is None:
        response = await client.call_controller(ApiKey.INCREMENTAL_ALTER_CONFIGS, fields)
    else:
        response = await client.call(ApiKey.INCREMENTAL_ALTER_CONFIGS, fields, node_id=node_id)
    (result,) = response.responses
    if result.error_code:
        raise KafkaError(result.error_code, result.error_message or "")


async def alter_topic_configs(
    client: ClusterCalls, changes: Mapping[str, Mapping[str, str | None]]
) -> dict[str, KafkaError | None]:
    """Set configs of topics; None resets one to its default.

    Return the error of each topic, None after a success. Raises KafkaError if the request fails.
    """
    if not changes:
        return {}
    by_topic = {
        topic: [
            ConfigChange(
                name, AlterOperation.DELETE if value is None else AlterOperation.SET, value
            )
            for name, value in values.items()
        ]
        for topic, values in changes.items()
    }
    response = await client.call_controller(
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        _request(ConfigResourceType.TOPIC, by_topic, validate_only=False),
    )
    return {
        entry.resource_name: KafkaError(entry.error_code, entry.error_message or "")
        if entry.error_code
        else None
        for entry in response.responses
    }


def _request(
    resource_type: ConfigResourceType,
    changes: Mapping[str, Sequence[ConfigChange]],
    *,
    validate_only: bool,
) -> dict[str, object]:
    return {
        "resources": [
            {
                "resource_type": resource_type,
                "resource_name": name,
                "configs": [
                    {"name": each.name, "config_operation": each.operation, "value": each.value}
                    for each in each_changes
                ],
            }
            for name, each_changes in changes.items()
        ],
        "validate_only": validate_only,
    }


def _node(resource_type: ConfigResourceType, name: str) -> int | None:
    """Return the broker that must be asked; None for any."""
    return int(name) if resource_type in _AT_BROKER and name else None
