"""IncrementalAlterConfigs v0-v1 (KIP-339): set, delete, append to and subtract from configs.

Any broker does it. Each resource is answered by itself; `validate_only` checks without writing. v1
is flexible. The answer waits until this broker goes by the new configs. Two clients that change
different configs of one topic at once both succeed.

Loggers of this broker are set for as long as it runs.

Deviations from Kafka: of the configs of brokers only the rates of throttles are dynamic, any other
is refused as Kafka refuses one that is not; client metrics and groups have none (INVALID_REQUEST).
"""

from __future__ import annotations

from typing import Any

from local_cluster.controller.decisions.config_requests import ConfigChange, changed_configs
from local_cluster.handlers.configs.alter_resources import alter_resources
from local_cluster.handlers.registry import Reply, handles
from local_cluster.handlers.services import BrokerServices, RequestContext
from local_cluster.wire.api import ApiKey


@handles(ApiKey.INCREMENTAL_ALTER_CONFIGS, min_version=0, max_version=1)
def incremental_alter_configs(
    broker: BrokerServices, context: RequestContext, request: Any
) -> Reply:
    """Change the configs of each resource."""

    def changes(resource: Any) -> list[ConfigChange]:
        return [
            ConfigChange(entry.name, int(entry.config_operation), entry.value)
            for entry in resource.configs
        ]

    return alter_resources(
        broker,
        context,
        request,
        lambda resource, rules: lambda now: changed_configs(now, changes(resource), rules),
    )
