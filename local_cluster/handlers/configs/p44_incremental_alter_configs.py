"""IncrementalAlterConfigs v0-v1 (KIP-339): set, delete, append to and subtract from configs.

Any broker does it. Each resource has a result of its own; `validate_only` checks without writing.
v1 is flexible. The response waits until this broker applies the new configs. Two clients that
change different configs of one topic at once both succeed. Levels of this broker's loggers last
until it stops.

Deviations from Kafka: broker configs that this broker does not use are refused, and so are unknown
names (docs/operations/broker-configs.md).
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import TYPE_CHECKING, Final

from local_cluster.controller.decisions.config_requests import (
    ConfigChange,
    ConfigRules,
    changed_configs,
)
from local_cluster.controller.member.config_writer import ConfigPlan
from local_cluster.handlers.configs.alter_resources import AlteredResource, Planner, alter_resources
from local_cluster.handlers.registry import handles
from local_cluster.handlers.services import BrokerServices, RequestContext
from local_cluster.wire.api import ApiKey

if TYPE_CHECKING:
    from kio.schema.incremental_alter_configs.v1.request import IncrementalAlterConfigsRequest

    from local_cluster.wire.responses.configs import IncrementalAlterConfigsResponse


@handles(ApiKey.INCREMENTAL_ALTER_CONFIGS, min_version=0, max_version=1)
def incremental_alter_configs(
    broker: BrokerServices, context: RequestContext, request: IncrementalAlterConfigsRequest
) -> Awaitable[IncrementalAlterConfigsResponse]:
    """Change the configs of each resource."""
    return _alter(broker, context, request)


async def _alter(
    broker: BrokerServices, context: RequestContext, request: IncrementalAlterConfigsRequest
) -> IncrementalAlterConfigsResponse:
    resources = [
        AlteredResource(
            resource.resource_type,
            resource.resource_name,
            [ConfigChange(c.name, c.config_operation, c.value) for c in resource.configs],
        )
        for resource in request.resources
    ]
    validate_only = request.validate_only
    return {
        "responses": await alter_resources(
            broker, context, resources, PLANNER, validate_only=validate_only
        )
    }


def _plan(changes: Sequence[ConfigChange], rules: ConfigRules) -> ConfigPlan:
    return lambda present: changed_configs(present, changes, rules)


PLANNER: Final = Planner(_plan, alters_loggers=True)
