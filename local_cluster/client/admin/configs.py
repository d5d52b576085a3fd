"""Sets and resets single configs of topics (KIP-339)."""

from __future__ import annotations

from collections.abc import Mapping

from local_cluster.client.calls import ClusterCalls
from local_cluster.wire.api import ApiKey
from local_cluster.wire.constants import ConfigResourceType
from local_cluster.wire.errors import KafkaError

SET = 0
DELETE = 1


async def alter_topic_configs(
    client: ClusterCalls, changes: Mapping[str, Mapping[str, str | None]]
) -> dict[str, KafkaError | None]:
    """Set configs of topics; None resets one to its default.

    Return the error of each topic, None after a success. Raises KafkaError if the request fails.
    """
    if not changes:
        return {}
    response = await client.call_controller(
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        {
            "resources": [
                {
                    "resource_type": ConfigResourceType.TOPIC,
                    "resource_name": topic,
                    "configs": [
                        {
                            "name": name,
                            "config_operation": DELETE if value is None else SET,
                            "value": value,
                        }
                        for name, value in values.items()
                    ],
                }
                for topic, values in changes.items()
            ],
            "validate_only": False,
        },
    )
    return {
        entry.resource_name: KafkaError(entry.error_code, entry.error_message or "")
        if entry.error_code
        else None
        for entry in response.responses
    }
