"""AlterConfigs v0-v2 (KIP-133): replace all configs of a resource.

Deprecated in favour of IncrementalAlterConfigs. Any broker does it. Each resource has a result of
its own; `validate_only` checks without writing. v2 is flexible. The response waits until this
broker applies the new configs. Loggers of brokers are an unknown resource type (INVALID_REQUEST),
as in Kafka.

Deviations from Kafka: broker configs that this broker does not use are refused, and so are unknown
names (docs/operations/broker-configs.md).
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import TYPE_CHECKING, Final

from local_cluster.controller.decisions.config_requests import (
    ConfigChange,
    ConfigRules,
    replaced_configs,
)
from local_cluster.controller.member.config_writer import ConfigPlan
from local_cluster.handlers.configs.alter_resources import AlteredResource, Planner, alter_resources
from local_cluster.handlers.registry import handles
from local_cluster.handlers.services import BrokerServices, RequestContext
from local_cluster.wire.api import ApiKey
from local_cluster.wire.constants import AlterOperation

if TYPE_CHECKING:
    from kio.schema.alter_configs.v2.request import AlterConfigsRequest

    from local_cluster.wire.responses.configs import AlterConfigsResponse


@handles(ApiKey.ALTER_CONFIGS, min_version=0, max_version=2)
def alter_configs(
    broker: BrokerServices, context: RequestContext, request: AlterConfigsRequest
) -> Awaitable[AlterConfigsResponse]:
    """Replace the configs of each resource."""
    return _alter(broker, context, request)


async def _alter(
    broker: BrokerServices, context: RequestContext, request: AlterConfigsRequest
) -> AlterConfigsResponse:
    resources = [
        AlteredResource(
            resource.resource_type,
            resource.resource_name,
            [ConfigChange(each.name, AlterOperation.SET, each.value) for each in resource.configs],
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
    return lambda _present: replaced_configs(changes, rules)


PLANNER: Final = Planner(_plan, alters_loggers=False)
