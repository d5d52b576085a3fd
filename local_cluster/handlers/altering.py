"""What AlterConfigs and IncrementalAlterConfigs have in common: resources one after the other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, Final

from local_cluster.controller.config_writer import ConfigPlan
from local_cluster.controller.topic_requests import topic_name_problem
from local_cluster.wire.errors import ErrorCode, KafkaError

from .p32_describe_configs import TOPIC
from .registry import RequestContext
from .services import BrokerServices

ALTER_TIMEOUT_MS: Final = 30_000
"""The request has no timeout of its own."""


async def alter_resources(
    broker: BrokerServices,
    context: RequestContext,
    request: Any,
    plan_of: Callable[[Any], ConfigPlan],
) -> dict[str, Any]:
    """Alter each resource by the plan made from it, or say why not."""
    counts = Counter((each.resource_type, each.resource_name) for each in request.resources)
    responses = []
    for key, count in counts.items():
        resource = next(r for r in request.resources if (r.resource_type, r.resource_name) == key)
        answer = {
            "error_code": ErrorCode.none,
            "error_message": None,
            "resource_type": resource.resource_type,
            "resource_name": resource.resource_name,
        }
        try:
            if count > 1:
                raise KafkaError(
                    ErrorCode.invalid_request, "Each resource must appear at most once."
                )
            await _alter(broker, context, resource, plan_of(resource), request.validate_only)
        except KafkaError as error:
            answer |= {"error_code": error.code, "error_message": error.message or None}
        responses.append(answer)
    return {"responses": responses}


async def _alter(
    broker: BrokerServices,
    context: RequestContext,
    resource: Any,
    plan: ConfigPlan,
    validate_only: bool,
) -> None:
    if resource.resource_type != TOPIC:
        raise KafkaError(
            ErrorCode.invalid_request,
            f"Configs of resource type {resource.resource_type} cannot be altered.",
        )
    name = resource.resource_name
    if not broker.authorize(context, "ALTER_CONFIGS", "TOPIC", name):
        raise KafkaError(ErrorCode.topic_authorization_failed)
    problem = topic_name_problem(name)
    if problem is not None:
        raise KafkaError(ErrorCode.invalid_topic_exception, problem)
    await broker.control_plane.alter_topic_configs(
        name, plan, validate_only=validate_only, timeout_ms=ALTER_TIMEOUT_MS
    )
