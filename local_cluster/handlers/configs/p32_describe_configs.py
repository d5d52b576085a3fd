"""DescribeConfigs v1-v4, for topics, for this broker and for its loggers.

Version notes: v1 sources and synonyms; v3 types and documentation. A broker's configs are those it
was started with, the dynamic ones that are set, and every topic config under its broker-level name;
names that sound secret are sensitive and have no value. Client metrics and groups have no configs
here: INVALID_REQUEST.
"""

from __future__ import annotations

from typing import Any, Final

from local_cluster.controller.decisions.dynamic_broker_configs import describe_dynamic
from local_cluster.controller.model.topic_requests import topic_name_problem
from local_cluster.handlers.configs.broker_loggers import logger_entries
from local_cluster.handlers.configs.config_resources import BROKER, BROKER_LOGGER, TOPIC
from local_cluster.handlers.registry import Reply, RequestContext, handles
from local_cluster.handlers.services import BrokerServices
from local_cluster.log.config.definition import ConfigType
from local_cluster.log.config.description import ConfigEntry, ConfigSource, describe
from local_cluster.log.config.topic_configs import TOPIC_CONFIGS
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, KafkaError

_SECRET_PARTS: Final = ("password", "secret", "jaas", "private.key", "credential")

Fields = dict[str, Any]


@handles(ApiKey.DESCRIBE_CONFIGS, min_version=1, max_version=4)
def describe_configs(broker: BrokerServices, context: RequestContext, request: Any) -> Reply:
    """Describe each resource, or say why not."""
    return {"results": [_resource(broker, context, request, r) for r in request.resources]}


def _resource(
    broker: BrokerServices, context: RequestContext, request: Any, resource: Any
) -> Fields:
    answer: Fields = {
        "error_code": ErrorCode.none,
        "error_message": "",
        "resource_type": resource.resource_type,
        "resource_name": resource.resource_name,
        "configs": (),
    }
    try:
        if resource.resource_type == TOPIC:
            entries = _topic_entries(broker, context, resource.resource_name)
        elif resource.resource_type == BROKER:
            entries = _broker_entries(broker, context, resource.resource_name)
        elif resource.resource_type == BROKER_LOGGER:
            entries = _logger_entries(broker, context, resource.resource_name)
        else:
            raise KafkaError(
                ErrorCode.invalid_request, f"Unsupported resource type: {resource.resource_type}"
            )
    except KafkaError as error:
        return answer | {"error_code": error.code, "error_message": error.message}
    # An empty list asks for everything, as null does: clients before v1 sent it so.
    asked = set(resource.configuration_keys or ())
    answer["configs"] = [
        _entry(entry, request) for entry in entries if not asked or entry.name in asked
    ]
    return answer


def _topic_entries(broker: BrokerServices, context: RequestContext, name: str) -> list[ConfigEntry]:
    if not broker.authorize(context, "DESCRIBE_CONFIGS", "TOPIC", name):
        raise KafkaError(ErrorCode.topic_authorization_failed)
    problem = topic_name_problem(name)
    if problem is not None:
        raise KafkaError(ErrorCode.invalid_topic_exception, problem)
    topic = broker.metadata.topics.get(name)
    if topic is None:
        raise KafkaError(ErrorCode.unknown_topic_or_partition)
    return describe(topic.configs, broker.settings.config)


def _broker_entries(
    broker: BrokerServices, context: RequestContext, name: str
) -> list[ConfigEntry]:
    if not broker.authorize(context, "DESCRIBE_CONFIGS", "CLUSTER", "kafka-cluster"):
        raise KafkaError(ErrorCode.cluster_authorization_failed)
    settings = broker.settings
    if name == "":
        return describe_dynamic(broker.metadata.broker_configs, None)
    expected = f"expected {settings.broker_id} or empty string, but"
    _require_this_broker(name, settings.broker_id, expected)
    changed = describe_dynamic(broker.metadata.broker_configs, settings.broker_id)
    return [*changed, *_settings_entries(broker), *_default_entries(broker)]


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


def _require_this_broker(name: str, broker_id: int, expected: str) -> None:
    try:
        asked = int(name)
    except ValueError:
        raise KafkaError(
            ErrorCode.invalid_request, f"Broker id must be an integer, but it is: {name}"
        ) from None
    if asked != broker_id:
        raise KafkaError(
            ErrorCode.invalid_request, f"Unexpected broker id, {expected} received {name}"
        )


def _settings_entries(broker: BrokerServices) -> list[ConfigEntry]:
    settings = broker.settings
    listeners = ",".join(f"{each.name}://{each.host}:{each.port}" for each in settings.listeners)
    static = {
        "broker.id": str(settings.broker_id),
        "broker.rack": settings.rack or "",
        "heliograph.flush": settings.flush,
        "inter.broker.listener.name": settings.inter_broker_listener,
        "listeners": listeners,
        "log.dirs": ",".join(settings.log_dirs),
        "zookeeper.connect": settings.zookeeper_connect,
        **settings.config,
    }
    return [
        ConfigEntry(
            name=name,
            value=value,
            source=ConfigSource.STATIC_BROKER,
            synonyms=(),
            type=ConfigType.STRING,
            doc="",
            is_default=False,
            read_only=True,
            is_sensitive=any(part in name for part in _SECRET_PARTS),
        )
        for name, value in sorted(static.items())
    ]


def _default_entries(broker: BrokerServices) -> list[ConfigEntry]:
    """Topic configs that the broker was not told, under their broker-level names."""
    return [
        entry._replace(name=TOPIC_CONFIGS[entry.name].synonyms[0].name, synonyms=(), read_only=True)
        for entry in describe({}, broker.settings.config)
        if entry.is_default and TOPIC_CONFIGS[entry.name].synonyms
    ]


def _entry(entry: ConfigEntry, request: Any) -> Fields:
    documented = getattr(request, "include_documentation", False)
    return {
        "name": entry.name,
        "value": None if entry.is_sensitive else entry.value,
        "read_only": entry.read_only,
        "is_default": entry.is_default,
        "config_source": int(entry.source),
        "is_sensitive": entry.is_sensitive,
        "synonyms": [
            {"name": synonym.name, "value": synonym.value, "source": int(synonym.source)}
            for synonym in (entry.synonyms if request.include_synonyms else ())
        ],
        "config_type": int(entry.type),
        "documentation": entry.doc if documented else None,
    }
