"""What AlterConfigs and IncrementalAlterConfigs have in common: resources one after the other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, Final

from local_cluster.controller.decisions.config_requests import (
    BROKER_RULES,
    ConfigRules,
    topic_rules,
)
from local_cluster.controller.decisions.dynamic_broker_configs import DEFAULT_ENTITY
from local_cluster.controller.member.config_writer import ConfigPlan
from local_cluster.controller.model.topic_requests import topic_name_problem
from local_cluster.handlers.configs import config_resources as kinds
from local_cluster.handlers.configs.broker_loggers import alter_loggers
from local_cluster.handlers.services import BrokerServices, RequestContext
from local_cluster.wire.errors import ErrorCode, KafkaError

ALTER_TIMEOUT_MS: Final = 30_000
"""The request has no timeout of its own."""


async def alter_resources(
    broker: BrokerServices,
    context: RequestContext,
    request: Any,
    plan_of: Callable[[Any, ConfigRules], ConfigPlan],
) -> dict[str, Any]:
    """Alter each resource by the plan made from it and the rules for it, or say why not."""
    counts = Counter((each.resource_type, each.resource_name) for each in request.resources)
    responses = []
    for resource in request.resources:
        answer = {
            "error_code": ErrorCode.none,
            "error_message": None,
            "resource_type": resource.resource_type,
            "resource_name": resource.resource_name,
        }
        try:
            if counts[resource.resource_type, resource.resource_name] > 1:
                raise KafkaError(
                    ErrorCode.invalid_request, "Each resource must appear at most once."
                )
            await _alter(broker, context, resource, plan_of, request.validate_only)
        except KafkaError as error:
            answer |= {"error_code": error.code, "error_message": error.message or None}
        responses.append(answer)
    return {"responses": responses}


async def _alter(
    broker: BrokerServices,
    context: RequestContext,
    resource: Any,
    plan_of: Callable[[Any, ConfigRules], ConfigPlan],
    validate_only: bool,
) -> None:
    name = resource.resource_name
    match resource.resource_type:
        case kinds.TOPIC:
            plan = plan_of(resource, topic_rules(broker.settings.config))
            await _alter_topic(broker, context, name, plan, validate_only)
        case kinds.BROKER:
            plan = plan_of(resource, BROKER_RULES)
            await _alter_broker(broker, context, name, plan, validate_only)
        case kinds.BROKER_LOGGER:
            _require_node_id(name, broker, "Unexpected node id. Expected {}, but received {}")
            _authorize_cluster(broker, context)
            alter_loggers(resource, validate_only=validate_only)
        case kinds.CLIENT_METRICS | kinds.GROUP as kind:
            raise KafkaError(
                ErrorCode.invalid_request, f"Configs of resource type {kind} cannot be altered."
            )
        case unknown:
            raise KafkaError(ErrorCode.invalid_request, f"Unknown resource type {unknown}")


async def _alter_topic(
    broker: BrokerServices,
    context: RequestContext,
    name: str,
    plan: ConfigPlan,
    validate_only: bool,
) -> None:
    if not name:
        raise KafkaError(ErrorCode.invalid_request, "Default topic resources are not allowed.")
    if not broker.authorize(context, "ALTER_CONFIGS", "TOPIC", name):
        raise KafkaError(ErrorCode.topic_authorization_failed)
    problem = topic_name_problem(name)
    if problem is not None:
        raise KafkaError(ErrorCode.invalid_topic_exception, problem)
    await broker.control_plane.alter_topic_configs(
        name, plan, validate_only=validate_only, timeout_ms=ALTER_TIMEOUT_MS
    )


async def _alter_broker(
    broker: BrokerServices,
    context: RequestContext,
    name: str,
    plan: ConfigPlan,
    validate_only: bool,
) -> None:
    """An empty name stands for all brokers; another one has to be this broker's id."""
    _authorize_cluster(broker, context)
    if name:
        words = "Unexpected broker id, expected {}, but received {}"
        _require_node_id(name, broker, words)
    await broker.control_plane.alter_broker_configs(
        name or DEFAULT_ENTITY, plan, validate_only=validate_only, timeout_ms=ALTER_TIMEOUT_MS
    )


def _authorize_cluster(broker: BrokerServices, context: RequestContext) -> None:
    if not broker.authorize(context, "ALTER_CONFIGS", "CLUSTER", "kafka-cluster"):
        raise KafkaError(ErrorCode.cluster_authorization_failed)


def _require_node_id(name: str, broker: BrokerServices, words: str) -> None:
    try:
        asked = int(name)
    except ValueError:
        raise KafkaError(
            ErrorCode.invalid_request, f"Node id must be an integer, but it is: {name}"
        ) from None
    expected = broker.settings.broker_id
    if asked != expected:
        raise KafkaError(ErrorCode.invalid_request, words.format(expected, name))
