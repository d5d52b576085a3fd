"""AlterConfigs v0-v2 (KIP-133): replace all configs of topics, brokers. Deprecated in favour of 44.

Any broker does it. Each resource is answered by itself; `validate_only` checks without writing. v2
is flexible. The answer waits until this broker goes by the new configs.

Deviations from Kafka: of the configs of brokers only the rates of throttles are dynamic, any other
is refused as Kafka refuses one that is not; loggers of brokers are set by 44 only; client metrics
and groups have no configs (INVALID_REQUEST).
"""

from __future__ import annotations

from typing import Any

from local_cluster.controller.decisions.config_requests import ConfigChange, replaced_configs
from local_cluster.handlers.configs.alter_resources import alter_resources
from local_cluster.handlers.registry import Reply, handles
from local_cluster.handlers.services import BrokerServices, RequestContext
from local_cluster.wire.api import ApiKey
from local_cluster.wire.constants import AlterOperation


@handles(ApiKey.ALTER_CONFIGS, min_version=0, max_version=2)
def alter_configs(broker: BrokerServices, context: RequestContext, request: Any) -> Reply:
    """Replace the configs of each resource."""

    def changes(resource: Any) -> list[ConfigChange]:
        return [
            ConfigChange(entry.name, AlterOperation.SET, entry.value) for entry in resource.configs
        ]

    return alter_resources(
        broker,
        context,
        request,
        lambda resource, rules: lambda _: replaced_configs(changes(resource), rules),
    )
