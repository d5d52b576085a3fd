"""The common part of AlterConfigs and IncrementalAlterConfigs: one resource after the other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from local_cluster.controller.decisions.config_requests import (
    CLIENT_METRICS_RULES,
    ConfigChange,
    ConfigRules,
    broker_rules,
    group_rules,
    topic_rules,
)
from local_cluster.controller.decisions.dynamic_broker_configs import DEFAULT_ENTITY
from local_cluster.controller.member.config_writer import ConfigPlan
from local_cluster.controller.model import znode_paths
from local_cluster.controller.model.topic_requests import topic_name_problem
from local_cluster.handlers.configs.broker_loggers import alter_loggers
from local_cluster.handlers.services import BrokerServices, RequestContext
from local_cluster.wire.constants import ConfigResourceType
from local_cluster.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from local_cluster.wire.responses.configs import AlterConfigsResourceResponse

ALTER_TIMEOUT_MS: Final = 30_000
"""The requests have no timeout of their own."""


class Planner(NamedTuple):
    """What the two requests do differently."""

    plan: Callable[[Sequence[ConfigChange], ConfigRules], ConfigPlan]
    """Returns how changes are applied to the present configs of a resource."""
    alters_loggers: bool


class AlteredResource(NamedTuple):
    """A resource with its changes; the type may be an unknown number."""

    type: int
    name: str
    changes: Sequence[ConfigChange]


async def alter_resources(
    broker: BrokerServices,
    context: RequestContext,
    resources: Sequence[AlteredResource],
    planner: Planner,
    *,
    validate_only: bool,
) -> list[AlterConfigsResourceResponse]:
    """Alter each resource by itself."""
    counts = Counter((each.type, each.name) for each in resources)
    responses: list[AlterConfigsResourceResponse] = []
    for resource in resources:
        code, message = ErrorCode.none, None
        try:
            if counts[resource.type, resource.name] > 1:
                raise KafkaError(
                    ErrorCode.invalid_request, "Each resource must appear at most once."
                )
            await _alter(broker, context, resource, planner, validate_only)
        except KafkaError as error:
            code, message = error.code, error.message or None
        responses.append(
            {
                "error_code": code,
                "error_message": message,
                "resource_type": resource.type,
                "resource_name": resource.name,
            }
        )
    return responses


async def _alter(
    broker: BrokerServices,
    context: RequestContext,
    resource: AlteredResource,
    planner: Planner,
    validate_only: bool,
) -> None:
    name = resource.name
    match resource.type:
        case ConfigResourceType.TOPIC:
            plan = planner.plan(resource.changes, topic_rules(broker.configs))
            await _alter_topic(broker, context, name, plan, validate_only)
        case ConfigResourceType.BROKER:
            plan = planner.plan(resource.changes, broker_rules(for_all=not name))
            await _alter_broker(broker, context, name, plan, validate_only)
        case ConfigResourceType.BROKER_LOGGER if planner.alters_loggers:
            _require_node_id(name, broker, "Unexpected node id. Expected {}, but received {}")
            _authorize_cluster(broker, context)
            by = f"{context.principal} from {context.client_host}"
            alter_loggers(resource.changes, validate_only=validate_only, by=by)
        case ConfigResourceType.GROUP:
            plan = planner.plan(resource.changes, group_rules(broker.configs))
            await _alter_group(broker, context, name, plan, validate_only)
        case ConfigResourceType.CLIENT_METRICS:
            plan = planner.plan(resource.changes, CLIENT_METRICS_RULES)
            await _alter_client_metrics(broker, context, name, plan, validate_only)
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
    await broker.control_plane.configs.alter_topic(
        name, plan, validate_only=validate_only, timeout_ms=ALTER_TIMEOUT_MS
    )


async def _alter_broker(
    broker: BrokerServices,
    context: RequestContext,
    name: str,
    plan: ConfigPlan,
    validate_only: bool,
) -> None:
    """An empty name stands for all brokers; any other must be this broker's id."""
    _authorize_cluster(broker, context)
    if name:
        _require_node_id(name, broker, "Unexpected broker id, expected {}, but received {}")
    await broker.control_plane.configs.alter_broker(
        name or DEFAULT_ENTITY, plan, validate_only=validate_only, timeout_ms=ALTER_TIMEOUT_MS
    )


async def _alter_group(
    broker: BrokerServices,
    context: RequestContext,
    name: str,
    plan: ConfigPlan,
    validate_only: bool,
) -> None:
    if not broker.authorize(context, "ALTER_CONFIGS", "GROUP", name):
        raise KafkaError(ErrorCode.group_authorization_failed)
    if not name:
        raise KafkaError(ErrorCode.invalid_request, "Default group resources are not allowed.")
    entity = znode_paths.entity_of(znode_paths.GROUP_CONFIGS, name)
    await broker.control_plane.configs.alter_entity(
        entity, plan, validate_only=validate_only, timeout_ms=ALTER_TIMEOUT_MS
    )


async def _alter_client_metrics(
    broker: BrokerServices,
    context: RequestContext,
    name: str,
    plan: ConfigPlan,
    validate_only: bool,
) -> None:
    _authorize_cluster(broker, context)
    if not name:
        raise KafkaError(ErrorCode.invalid_request, "Subscription name can't be empty")
    entity = znode_paths.entity_of(znode_paths.CLIENT_METRICS_CONFIGS, name)
    await broker.control_plane.configs.alter_entity(
        entity, plan, validate_only=validate_only, timeout_ms=ALTER_TIMEOUT_MS
    )


def _authorize_cluster(broker: BrokerServices, context: RequestContext) -> None:
    if not broker.authorize(context, "ALTER_CONFIGS", "CLUSTER", "kafka-cluster"):
        raise KafkaError(ErrorCode.cluster_authorization_failed)


def _require_node_id(name: str, broker: BrokerServices, message: str) -> None:
    """`message` has a place for the expected id and one for the received id."""
    try:
        node_id = int(name)
    except ValueError:
        raise KafkaError(
            ErrorCode.invalid_request, f"Node id must be an integer, but it is: {name}"
        ) from None
    expected = broker.settings.broker_id
    if node_id != expected:
        raise KafkaError(ErrorCode.invalid_request, message.format(expected, name))
