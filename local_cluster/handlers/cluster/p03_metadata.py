"""Metadata v0-v13.

Version notes: v0 an empty list means all topics, from v1 null does and empty means none; v4 the
auto-create flag; v5 offline replicas; v7 leader epochs; v8 authorized operations; v10 topic ids in
the answer; v12 questions by topic id, and where one topic has an id, those without one are left
out; before v12 a null name or an id is INVALID_REQUEST for every topic, and the answer has no
brokers; v13 an error of the whole answer (KIP-1102), which is never set here: it asks clients to
bootstrap anew.

A topic that is missing is created where the broker's auto.create.topics.enable and, from v4, the
request allow it: by the controller, wherever it is. The answer waits for the new topic (at most a
few seconds, then LEADER_NOT_AVAILABLE), where Kafka answers UNKNOWN_TOPIC_OR_PARTITION at once and
lets the client ask again.
"""

from __future__ import annotations

import asyncio
import uuid
from typing import Any, Final

from local_cluster.controller.model.cluster_image import (
    NO_LEADER,
    BrokerEndpoints,
    PartitionState,
    TopicState,
)
from local_cluster.controller.model.topic_requests import topic_name_problem
from local_cluster.handlers.authorized_operations import (
    NOT_ASKED,
    cluster_operations,
    topic_operations,
)
from local_cluster.handlers.registry import Reply, handles
from local_cluster.handlers.services import BrokerServices, RequestContext
from local_cluster.wire import messages
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode

IDS_SINCE_VERSION: Final = 12
FIRST_IMAGE_WAIT_MS_MAX: Final = 5_000
"""A broker that just registered has to hear from the controller before it can say anything."""

Fields = dict[str, Any]


@handles(ApiKey.METADATA, min_version=0, max_version=13)
def metadata(broker: BrokerServices, context: RequestContext, request: Any) -> Reply:
    """Brokers, controller, and the topics that were asked for."""
    if _is_malformed(context, request):
        return _malformed(request)
    if not broker.metadata.brokers:
        return _answer_when_informed(broker, context, request)
    missing = _to_create(broker, context, request)
    if missing:
        return _answer_after_creating(broker, context, request, missing)
    return _answer(broker, context, request, {})


def _is_malformed(context: RequestContext, request: Any) -> bool:
    """Whether topics go by id in a version that has only names."""
    return context.api_version < IDS_SINCE_VERSION and any(
        topic.name is None or messages.get(topic, "topic_id", None) is not None
        for topic in request.topics or ()
    )


def _malformed(request: Any) -> Fields:
    """Kafka's answer to a request that it does not take: as many topics, nothing else."""
    return {
        "brokers": (),
        "cluster_id": None,
        "controller_id": NO_LEADER,
        "topics": [
            _refusal(ErrorCode.invalid_request, topic.name or "", topic.topic_id)
            for topic in request.topics
        ],
        "cluster_authorized_operations": NOT_ASKED,
    }


async def _answer_when_informed(
    broker: BrokerServices, context: RequestContext, request: Any
) -> Fields:
    await broker.control_plane.wait_informed(FIRST_IMAGE_WAIT_MS_MAX)
    missing = _to_create(broker, context, request)
    return await _answer_after_creating(broker, context, request, missing)


async def _answer_after_creating(
    broker: BrokerServices, context: RequestContext, request: Any, names: list[str]
) -> Fields:
    errors = await asyncio.gather(*(broker.control_plane.auto_create_topic(n) for n in names))
    refusals = {
        name: error.code for name, error in zip(names, errors, strict=True) if error is not None
    }
    return _answer(broker, context, request, refusals)


def _to_create(broker: BrokerServices, context: RequestContext, request: Any) -> list[str]:
    """Names to create: asked for, missing, valid, and allowed."""
    allowed = messages.get(request, "allow_auto_topic_creation", True)
    if not allowed or not broker.settings.config_bool("auto.create.topics.enable", True):
        return []
    names = (topic.name for topic in request.topics or ())
    return [
        name
        for name in dict.fromkeys(names)
        if name is not None
        and name not in broker.metadata.topics
        and topic_name_problem(name) is None
        and _may_create(broker, context, name)
    ]


def _may_create(broker: BrokerServices, context: RequestContext, name: str) -> bool:
    return broker.authorize(context, "CREATE", "CLUSTER", "kafka-cluster") or broker.authorize(
        context, "CREATE", "TOPIC", name
    )


def _answer(
    broker: BrokerServices, context: RequestContext, request: Any, refusals: dict[str, ErrorCode]
) -> Fields:
    cache = broker.metadata
    reachable = {
        node_id: each.listeners[context.listener]
        for node_id, each in sorted(cache.brokers.items())
        if context.listener in each.listeners
    }
    asked_cluster = messages.get(request, "include_cluster_authorized_operations", False)
    controller_id = cache.controller_id if cache.controller_id in reachable else NO_LEADER
    return {
        "error_code": ErrorCode.none,
        "brokers": [
            {"node_id": node_id, "host": host, "port": port, "rack": cache.brokers[node_id].rack}
            for node_id, (host, port) in reachable.items()
        ],
        "cluster_id": cache.cluster_id,
        "controller_id": controller_id,
        "topics": _topics(broker, context, request, refusals),
        "cluster_authorized_operations": (
            cluster_operations(broker, context) if asked_cluster else NOT_ASKED
        ),
    }


def _topics(
    broker: BrokerServices, context: RequestContext, request: Any, refusals: dict[str, ErrorCode]
) -> list[Fields]:
    cache = broker.metadata
    asked = request.topics
    if asked is None or (context.api_version == 0 and not asked):
        return [
            _topic(broker, context, request, topic)
            for _, topic in sorted(cache.topics.items())
            if broker.authorize(context, "DESCRIBE", "TOPIC", topic.name)
        ]
    ids = dict.fromkeys(messages.get(topic, "topic_id", None) for topic in asked)
    if any(ids):
        return [_topic_by_id(broker, context, request, topic_id) for topic_id in ids if topic_id]
    answers = []
    wants_operations = messages.get(request, "include_topic_authorized_operations", False)
    for name in dict.fromkeys(topic.name for topic in asked):
        if name is None:
            answers.append(_refusal(ErrorCode.unknown_topic_id, None, None))
            continue
        operations = topic_operations(broker, context, name) if wants_operations else NOT_ASKED
        if not broker.authorize(context, "DESCRIBE", "TOPIC", name):
            answers.append(_refusal(ErrorCode.topic_authorization_failed, name, None))
        elif name in cache.topics:
            answers.append(_topic(broker, context, request, cache.topics[name]))
        elif topic_name_problem(name) is not None:
            answers.append(_refusal(ErrorCode.invalid_topic_exception, name, None, operations))
        else:
            code = refusals.get(name, ErrorCode.unknown_topic_or_partition)
            answers.append(_refusal(code, name, None, operations))
    return answers


def _topic_by_id(
    broker: BrokerServices, context: RequestContext, request: Any, topic_id: uuid.UUID
) -> Fields:
    found = broker.metadata.topic_by_id(topic_id)
    if found is None or not broker.authorize(context, "DESCRIBE", "TOPIC", found.name):
        return _refusal(ErrorCode.unknown_topic_id, None, topic_id)
    return _topic(broker, context, request, found)


def _refusal(
    code: ErrorCode, name: str | None, topic_id: uuid.UUID | None, operations: int = NOT_ASKED
) -> Fields:
    return {
        "error_code": code,
        "name": name,
        "topic_id": topic_id,
        "partitions": (),
        "topic_authorized_operations": operations,
    }


def _topic(
    broker: BrokerServices, context: RequestContext, request: Any, topic: TopicState
) -> Fields:
    asked = messages.get(request, "include_topic_authorized_operations", False)
    return {
        "error_code": ErrorCode.none,
        "name": topic.name,
        "topic_id": topic.topic_id,
        "is_internal": topic.is_internal,
        "partitions": [
            partition_fields(broker, context, topic.name, partition)
            for _, partition in sorted(topic.partitions.items())
        ],
        "topic_authorized_operations": (
            topic_operations(broker, context, topic.name) if asked else NOT_ASKED
        ),
    }


def partition_fields(
    broker: BrokerServices, context: RequestContext, topic: str, partition: PartitionState
) -> Fields:
    """One partition as Metadata and DescribeTopicPartitions tell it."""
    live = broker.metadata.brokers
    error, leader_id = _leader(live.get(partition.leader), partition, context)
    replicas, isr = partition.replicas, partition.isr
    if context.api_key == ApiKey.METADATA and context.api_version == 0:
        # Clients of that age fail on an id that is not among the brokers.
        replicas = tuple(replica for replica in replicas if replica in live)
        isr = tuple(replica for replica in isr if replica in live)
        if error is ErrorCode.none and len(replicas) < len(partition.replicas):
            error = ErrorCode.replica_not_available
    return {
        "error_code": error,
        "partition_index": partition.partition,
        "leader_id": leader_id,
        "leader_epoch": partition.leader_epoch,
        "replica_nodes": replicas,
        "isr_nodes": isr,
        "offline_replicas": tuple(
            replica
            for replica in partition.replicas
            if broker.metadata.is_offline(replica, topic, partition.partition)
        ),
    }


def _leader(
    leader: BrokerEndpoints | None, partition: PartitionState, context: RequestContext
) -> tuple[ErrorCode, int]:
    if leader is None:
        return ErrorCode.leader_not_available, NO_LEADER
    if context.listener not in leader.listeners:
        known = context.api_key != ApiKey.METADATA or context.api_version >= 6
        code = ErrorCode.listener_not_found if known else ErrorCode.leader_not_available
        return code, NO_LEADER
    return ErrorCode.none, partition.leader
