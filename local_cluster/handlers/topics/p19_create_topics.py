"""CreateTopics v2-v7: the controller only; another broker returns NOT_CONTROLLER for each topic.

v4: -1 stands for the default number of partitions and replication factor (accepted in all
versions). v5: the response has the topic's configs. v7: it has the topic id. The response waits, at
most a second, until the other brokers know the topic too.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING, Final

from local_cluster.controller.model.topic_requests import TopicCreation, TopicSpec, repeated
from local_cluster.handlers.deferred import ThrottledBody
from local_cluster.handlers.registry import handles
from local_cluster.handlers.services import BrokerServices, RequestContext
from local_cluster.handlers.topics.mutation_quota import mutation_charge, with_throttle_time
from local_cluster.log.config.description import describe
from local_cluster.wire import messages
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from kio.schema.create_topics.v7.request import CreatableTopic, CreateTopicsRequest

    from local_cluster.wire.responses.topics import CreatableTopicResult, CreateTopicsResponse

KRAFT_METADATA_TOPIC: Final = "__cluster_metadata"
QUOTA_STRICT_SINCE: Final = 6
"""From this version on, above the quota of mutations nothing is created."""
"""Kafka's name of KRaft's log. It is refused: clients may take such a topic for that log."""


@handles(ApiKey.CREATE_TOPICS, min_version=2, max_version=7)
def create_topics(
    broker: BrokerServices, context: RequestContext, request: CreateTopicsRequest
) -> Awaitable[CreateTopicsResponse | ThrottledBody]:
    """Create each topic that may be created."""
    return _create(broker, context, request)


async def _create(
    broker: BrokerServices, context: RequestContext, request: CreateTopicsRequest
) -> CreateTopicsResponse | ThrottledBody:
    charge = mutation_charge(broker, context, strict_since=QUOTA_STRICT_SINCE)
    names: list[str] = [topic.name for topic in request.topics]
    twice = repeated(names)
    results = {name: _refusal(broker, context, name, twice) for name in names}
    for topic in request.topics:
        index = _partition_assigned_twice(topic)
        if index is not None and results[topic.name] is None:
            message = f"Found multiple manual partition assignments for partition {index}"
            error = KafkaError(ErrorCode.invalid_replica_assignment, message)
            results[topic.name] = TopicCreation(topic.name, error)
    wanted = [topic for topic in request.topics if results[topic.name] is None]
    try:
        created = await broker.control_plane.create_topics(
            [_spec(topic) for topic in wanted],
            validate_only=request.validate_only,
            timeout_ms=messages.ms(request.timeout),
            charge=charge.take,
        )
    except KafkaError as error:
        created = [TopicCreation(topic.name, error) for topic in wanted]
    results |= {creation.name: creation for creation in created}
    response: CreateTopicsResponse = {
        "topics": [_result(broker, context, each) for each in results.values() if each is not None]
    }
    return with_throttle_time(response, charge)


def _refusal(
    broker: BrokerServices, context: RequestContext, name: str, twice: frozenset[str]
) -> TopicCreation | None:
    if name in twice:
        return TopicCreation(name, KafkaError(ErrorCode.invalid_request, "Duplicate topic name."))
    if name == KRAFT_METADATA_TOPIC:
        message = f"Creation of internal topic {name} is prohibited."
        return TopicCreation(name, KafkaError(ErrorCode.invalid_request, message))
    if not broker.holds_for_topic(context, "CREATE", name) and not (
        broker.authorize(context, "CREATE", "TOPIC", name)
    ):
        return TopicCreation(name, KafkaError(ErrorCode.topic_authorization_failed))
    return None


def _partition_assigned_twice(topic: CreatableTopic) -> int | None:
    """Return the first partition with two lists of replicas, if there is one."""
    return min(repeated(entry.partition_index for entry in topic.assignments), default=None)


def _spec(topic: CreatableTopic) -> TopicSpec:
    return TopicSpec(
        name=topic.name,
        partitions=topic.num_partitions,
        replication_factor=topic.replication_factor,
        assignments={a.partition_index: tuple(a.broker_ids) for a in topic.assignments},
        configs={config.name: config.value for config in topic.configs},
    )


def _result(
    broker: BrokerServices, context: RequestContext, creation: TopicCreation
) -> CreatableTopicResult:
    error, topic = creation.error, creation.topic
    if error is not None or topic is None:
        return {
            "name": creation.name,
            "topic_id": None,
            "error_code": ErrorCode.unknown_server_error if error is None else error.code,
            "error_message": (error.message if error is not None else "") or None,
            "configs": (),
        }
    if not broker.may(context, "DESCRIBE_CONFIGS", "TOPIC", topic.name):
        return {
            "name": topic.name,
            "topic_id": topic.topic_id,
            "error_code": ErrorCode.none,
            "error_message": None,
            "topic_config_error_code": ErrorCode.topic_authorization_failed,
            "num_partitions": -1,
            "replication_factor": -1,
            "configs": (),
        }
    replicas = next(iter(topic.partitions.values())).replicas
    return {
        "name": topic.name,
        "topic_id": topic.topic_id,
        "error_code": ErrorCode.none,
        "error_message": None,
        "num_partitions": len(topic.partitions),
        "replication_factor": len(replicas),
        "configs": [
            {
                "name": entry.name,
                "value": entry.value,
                "read_only": entry.read_only,
                "config_source": entry.source,
                "is_sensitive": entry.is_sensitive,
            }
            for entry in describe(topic.configs, broker.configs.sources)
        ],
    }
