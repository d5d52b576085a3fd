"""DescribeConfigs v1-v4: topics, groups, client metrics, this broker and its loggers.

v1 has sources and synonyms, v3 types and documentation. Names, types, defaults and documentation
are those of Kafka 4.4. The documentation of a config without effect here starts with the reason.
Passwords are sensitive and have no value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from local_cluster.controller.model.topic_requests import topic_name_problem
from local_cluster.handlers.configs.broker_entries import (
    broker_entries,
    broker_sources,
    default_entries,
)
from local_cluster.handlers.configs.broker_loggers import logger_entries
from local_cluster.handlers.configs.entity_entries import client_metrics_entries, group_entries
from local_cluster.handlers.registry import handles
from local_cluster.handlers.services import BrokerServices, RequestContext
from local_cluster.log.config.description import ConfigEntry, describe
from local_cluster.wire.api import ApiKey
from local_cluster.wire.constants import ConfigResourceType
from local_cluster.wire.errors import ErrorCode, KafkaError
from local_cluster.wire.messages import get

if TYPE_CHECKING:
    from kio.schema.describe_configs.v4.request import (
        DescribeConfigsRequest,
        DescribeConfigsResource,
    )

    from local_cluster.wire.responses.configs import (
        DescribeConfigsResourceResult,
        DescribeConfigsResponse,
        DescribeConfigsResult,
    )


@handles(ApiKey.DESCRIBE_CONFIGS, min_version=1, max_version=4)
def describe_configs(
    broker: BrokerServices, context: RequestContext, request: DescribeConfigsRequest
) -> DescribeConfigsResponse:
    """Describe each resource by itself."""
    return {"results": [_describe(broker, context, request, r) for r in request.resources]}


def _describe(
    broker: BrokerServices,
    context: RequestContext,
    request: DescribeConfigsRequest,
    resource: DescribeConfigsResource,
) -> DescribeConfigsResult:
    result: DescribeConfigsResult = {
        "error_code": ErrorCode.none,
        "error_message": "",
        "resource_type": resource.resource_type,
        "resource_name": resource.resource_name,
        "configs": (),
    }
    try:
        entries = _entries(broker, context, resource)
    except KafkaError as error:
        result["error_code"], result["error_message"] = error.code, error.message
        return result
    # An empty list asks for all configs, as null does: clients before v1 sent it so.
    wanted: set[str] = set(resource.configuration_keys or ())
    result["configs"] = [
        _config(entry, request) for entry in entries if not wanted or entry.name in wanted
    ]
    return result


def _entries(
    broker: BrokerServices, context: RequestContext, resource: DescribeConfigsResource
) -> list[ConfigEntry]:
    """Raises KafkaError."""
    match resource.resource_type:
        case ConfigResourceType.TOPIC:
            return _topic_entries(broker, context, resource.resource_name)
        case ConfigResourceType.BROKER:
            return _broker_entries(broker, context, resource.resource_name)
        case ConfigResourceType.BROKER_LOGGER:
            return _logger_entries(broker, context, resource.resource_name)
        case ConfigResourceType.GROUP:
            return _group_entries(broker, context, resource.resource_name)
        case ConfigResourceType.CLIENT_METRICS:
            return _client_metrics_entries(broker, context, resource.resource_name)
        case unsupported:
            message = f"Unsupported resource type: {unsupported}"
            raise KafkaError(ErrorCode.invalid_request, message)


def _topic_entries(broker: BrokerServices, context: RequestContext, name: str) -> list[ConfigEntry]:
    if not broker.authorize(context, "DESCRIBE_CONFIGS", "TOPIC", name):
        raise KafkaError(ErrorCode.topic_authorization_failed)
    problem = topic_name_problem(name)
    if problem is not None:
        raise KafkaError(ErrorCode.invalid_topic_exception, problem)
    topic = broker.metadata.topics.get(name)
    if topic is None:
        raise KafkaError(ErrorCode.unknown_topic_or_partition)
    return describe(topic.configs, broker.configs.sources)


def _broker_entries(
    broker: BrokerServices, context: RequestContext, name: str
) -> list[ConfigEntry]:
    if not broker.authorize(context, "DESCRIBE_CONFIGS", "CLUSTER", "kafka-cluster"):
        raise KafkaError(ErrorCode.cluster_authorization_failed)
    settings = broker.settings
    dynamic = broker.metadata.broker_configs
    if name == "":
        return default_entries(settings, dynamic)
    expected = f"expected {settings.broker_id} or empty string, but"
    _require_this_broker(name, settings.broker_id, expected)
    return broker_entries(settings, dynamic)


def _logger_entries(
    broker: BrokerServices, context: RequestContext, name: str
) -> list[ConfigEntry]:
    if not broker.authorize(context, "DESCRIBE_CONFIGS", "CLUSTER", "kafka-cluster"):
        raise KafkaError(ErrorCode.cluster_authorization_failed)
    if not name:
        raise KafkaError(ErrorCode.invalid_request, "Broker id must not be empty")
    broker_id = broker.settings.broker_id
    _require_this_broker(name, broker_id, f"expected {broker_id} but")
    return logger_entries()


def _group_entries(broker: BrokerServices, context: RequestContext, name: str) -> list[ConfigEntry]:
    if not broker.authorize(context, "DESCRIBE_CONFIGS", "GROUP", name):
        raise KafkaError(ErrorCode.group_authorization_failed)
    if not name:
        raise KafkaError(ErrorCode.invalid_request, "Group name must not be empty")
    sources = broker_sources(broker.settings, broker.metadata.broker_configs)
    return group_entries(sources, broker.metadata.entity_configs, name)


def _client_metrics_entries(
    broker: BrokerServices, context: RequestContext, name: str
) -> list[ConfigEntry]:
    if not broker.authorize(context, "DESCRIBE_CONFIGS", "CLUSTER", "kafka-cluster"):
        raise KafkaError(ErrorCode.cluster_authorization_failed)
    if not name:
        raise KafkaError(
            ErrorCode.invalid_request, "Client metrics subscription name must not be empty"
        )
    return client_metrics_entries(
        broker.metadata.entity_configs, name, has_effect=broker.client_metrics.is_enabled
    )


def _require_this_broker(name: str, broker_id: int, expected: str) -> None:
    try:
        requested = int(name)
    except ValueError:
        raise KafkaError(
            ErrorCode.invalid_request, f"Broker id must be an integer, but it is: {name}"
        ) from None
    if requested != broker_id:
        raise KafkaError(
            ErrorCode.invalid_request, f"Unexpected broker id, {expected} received {name}"
        )


def _config(entry: ConfigEntry, request: DescribeConfigsRequest) -> DescribeConfigsResourceResult:
    return {
        "name": entry.name,
        "value": None if entry.is_sensitive else entry.value,
        "read_only": entry.read_only,
        "config_source": entry.source,
        "is_sensitive": entry.is_sensitive,
        "synonyms": [
            {
                "name": synonym.name,
                "value": None if entry.is_sensitive else synonym.value,
                "source": synonym.source,
            }
            for synonym in (entry.synonyms if request.include_synonyms else ())
        ],
        "config_type": entry.type,
        "documentation": entry.doc if get(request, "include_documentation", False) else None,
    }
