"""Metadata v0-v13.

Version notes:

- v0: an empty list asks for all topics. From v1 null does, and an empty list asks for none.
- v4: the auto-create flag. v5: offline replicas. v7: leader epochs. v8: authorized operations.
- v10: topic ids in the response.
- v12: topics by id. If one topic of a request has an id, those without one are left out. Before v12
  a null name or an id is INVALID_REQUEST for each topic, and the response has no brokers.
- v13: a top-level error (KIP-1102) that makes clients rebootstrap; it is never set here.

A missing topic is created if auto.create.topics.enable and, from v4, the request allow it. The
controller creates it, on whichever broker the request arrives. The response waits for the new
topic, a few seconds at most, then LEADER_NOT_AVAILABLE. Kafka returns UNKNOWN_TOPIC_OR_PARTITION at
once, and clients retry.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from local_cluster.controller.model.cluster_image import (
    NO_LEADER,
    BrokerEndpoints,
    PartitionState,
    TopicState,
)
from local_cluster.controller.model.topic_requests import topic_name_problem
from local_cluster.handlers.authorized_operations import cluster_operations, topic_operations
from local_cluster.handlers.registry import handles
from local_cluster.handlers.services import BrokerServices, RequestContext
from local_cluster.wire import messages, metadata_response
from local_cluster.wire.api import ApiKey
from local_cluster.wire.constants import OPERATIONS_NOT_REQUESTED
from local_cluster.wire.errors import ErrorCode

if TYPE_CHECKING:
    from kio.schema.metadata.v13.request import MetadataRequest, MetadataRequestTopic

    from local_cluster.wire.responses.cluster import MetadataResponsePartition

TOPIC_IDS_SINCE: Final = 12
LISTENER_NOT_FOUND_SINCE: Final = 6
FIRST_IMAGE_WAIT_MS_MAX: Final = 5_000
"""How long a broker that has just registered waits for the controller's first image."""


@handles(ApiKey.METADATA, min_version=0, max_version=13)
def metadata(
    broker: BrokerServices, context: RequestContext, request: MetadataRequest
) -> bytes | Awaitable[bytes]:
    """Return brokers, controller and the requested topics."""
    topics = request.topics or ()
    if _is_malformed(context, topics):
        return _refuse_all(context.api_version, topics)
    if not broker.metadata.brokers:
        return _wait_for_image(broker, context, request)
    missing = _topics_to_create(broker, context, request)
    if missing:
        return _create_topics(broker, context, request, missing)
    return _response(broker, context, request, {})


def _is_malformed(context: RequestContext, topics: Sequence[MetadataRequestTopic]) -> bool:
    """Return whether topics have ids in a version that has only names."""
    return context.api_version < TOPIC_IDS_SINCE and any(
        topic.name is None or messages.get(topic, "topic_id", None) is not None for topic in topics
    )


def _refuse_all(version: int, topics: Sequence[MetadataRequestTopic]) -> bytes:
    """Respond as Kafka does to a malformed request: an error for each topic, nothing else."""
    refused = [
        _refuse(version, ErrorCode.invalid_request, topic.name or "", topic.topic_id)
        for topic in topics
    ]
    head = metadata_response.encode_head(
        version,
        brokers=(),
        cluster_id=None,
        controller_id=NO_LEADER,
        topics_count=len(refused),
    )
    end = metadata_response.encode_end(version, OPERATIONS_NOT_REQUESTED)
    return b"".join((head, *refused, end))


async def _wait_for_image(
    broker: BrokerServices, context: RequestContext, request: MetadataRequest
) -> bytes:
    await broker.control_plane.wait_informed(FIRST_IMAGE_WAIT_MS_MAX)
    missing = _topics_to_create(broker, context, request)
    return await _create_topics(broker, context, request, missing)


async def _create_topics(
    broker: BrokerServices, context: RequestContext, request: MetadataRequest, names: Sequence[str]
) -> bytes:
    errors = await asyncio.gather(*(broker.control_plane.auto_create_topic(n) for n in names))
    failed = {
        name: error.code for name, error in zip(names, errors, strict=True) if error is not None
    }
    return _response(broker, context, request, failed)


def _topics_to_create(
    broker: BrokerServices, context: RequestContext, request: MetadataRequest
) -> list[str]:
    """Return the requested names that are missing, valid, and may be created."""
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
    if not broker.may(context, "DESCRIBE", "TOPIC", name):
        return False  # the response refuses it
    return broker.holds_for_topic(context, "CREATE", name) or broker.authorize(
        context, "CREATE", "TOPIC", name
    )


def _response(
    broker: BrokerServices,
    context: RequestContext,
    request: MetadataRequest,
    failed: Mapping[str, ErrorCode],
) -> bytes:
    """`failed` has the errors of topics that could not be created."""
    version, cache = context.api_version, broker.metadata
    reachable = {
        node_id: each.listeners[context.listener]
        for node_id, each in sorted(cache.brokers.items())
        if context.listener in each.listeners
    }
    wants_operations = messages.get(request, "include_cluster_authorized_operations", False)
    topics = _topics(broker, context, request, failed)
    head = metadata_response.encode_head(
        version,
        brokers=[
            {"node_id": node_id, "host": host, "port": port, "rack": cache.brokers[node_id].rack}
            for node_id, (host, port) in reachable.items()
        ],
        cluster_id=cache.cluster_id,
        controller_id=cache.controller_id if cache.controller_id in reachable else NO_LEADER,
        topics_count=len(topics),
    )
    operations = (
        cluster_operations(broker, context) if wants_operations else OPERATIONS_NOT_REQUESTED
    )
    return b"".join((head, *topics, metadata_response.encode_end(version, operations)))


def _topics(
    broker: BrokerServices,
    context: RequestContext,
    request: MetadataRequest,
    failed: Mapping[str, ErrorCode],
) -> list[bytes]:
    """Return the encoded topics."""
    cache = broker.metadata
    requested = request.topics
    wants_operations = messages.get(request, "include_topic_authorized_operations", False)
    if requested is None or (context.api_version == 0 and not requested):
        return [
            _describe(broker, context, topic, wants_operations)
            for _, topic in sorted(cache.topics.items())
            if broker.may(context, "DESCRIBE", "TOPIC", topic.name)
        ]
    ids: dict[uuid.UUID | None, None] = dict.fromkeys(
        messages.get(topic, "topic_id", None) for topic in requested
    )
    if any(ids):
        return [
            _describe_by_id(broker, context, topic_id, wants_operations)
            for topic_id in ids
            if topic_id
        ]
    return [
        _describe_by_name(broker, context, name, wants_operations, failed)
        for name in dict.fromkeys(topic.name for topic in requested)
    ]


def _describe_by_id(
    broker: BrokerServices, context: RequestContext, topic_id: uuid.UUID, wants_operations: bool
) -> bytes:
    found = broker.metadata.topic_by_id(topic_id)
    if found is None:
        return _refuse(context.api_version, ErrorCode.unknown_topic_id, None, topic_id)
    if not broker.authorize(context, "DESCRIBE", "TOPIC", found.name):
        return _refuse(context.api_version, ErrorCode.topic_authorization_failed, None, topic_id)
    return _describe(broker, context, found, wants_operations)


def _describe_by_name(
    broker: BrokerServices,
    context: RequestContext,
    name: str | None,
    wants_operations: bool,
    failed: Mapping[str, ErrorCode],
) -> bytes:
    if name is None:
        return _refuse(context.api_version, ErrorCode.unknown_topic_id, None, None)
    if not broker.authorize(context, "DESCRIBE", "TOPIC", name):
        return _refuse(context.api_version, ErrorCode.topic_authorization_failed, name, None)
    topic = broker.metadata.topics.get(name)
    if topic is not None:
        return _describe(broker, context, topic, wants_operations)
    if topic_name_problem(name) is not None:
        code = ErrorCode.invalid_topic_exception
    else:
        code = failed.get(name, ErrorCode.unknown_topic_or_partition)
    operations = OPERATIONS_NOT_REQUESTED
    if wants_operations:
        operations = topic_operations(broker, context, name)
    return _refuse(context.api_version, code, name, None, operations)


def _refuse(
    version: int,
    code: ErrorCode,
    name: str | None,
    topic_id: uuid.UUID | None,
    operations: int = OPERATIONS_NOT_REQUESTED,
) -> bytes:
    refused = metadata_response.encode_topic(
        version, {"error_code": code, "name": name, "topic_id": topic_id, "partitions": ()}
    )
    return refused + metadata_response.encode_topic_end(version, operations)


def _describe(
    broker: BrokerServices, context: RequestContext, topic: TopicState, wants_operations: bool
) -> bytes:
    version = context.api_version
    operations = OPERATIONS_NOT_REQUESTED
    if wants_operations:
        operations = topic_operations(broker, context, topic.name)
    described = broker.encoded_topics.get(
        (context.listener, version), topic, lambda: _encode_topic(broker, context, topic)
    )
    return described + metadata_response.encode_topic_end(version, operations)


def _encode_topic(broker: BrokerServices, context: RequestContext, topic: TopicState) -> bytes:
    return metadata_response.encode_topic(
        context.api_version,
        {
            "error_code": ErrorCode.none,
            "name": topic.name,
            "topic_id": topic.topic_id,
            "is_internal": topic.is_internal,
            "partitions": [
                describe_partition(broker, context, topic.name, partition)
                for _, partition in sorted(topic.partitions.items())
            ],
        },
    )


def describe_partition(
    broker: BrokerServices, context: RequestContext, topic: str, partition: PartitionState
) -> MetadataResponsePartition:
    """Return one partition for Metadata and DescribeTopicPartitions."""
    live = broker.metadata.brokers
    error, leader_id = _leader(live.get(partition.leader), partition, context)
    replicas, isr = partition.replicas, partition.isr
    if context.api_key == ApiKey.METADATA and context.api_version == 0:
        # Clients of v0 fail on an id that is not among the brokers.
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
    """Return the partition's error and leader id."""
    if leader is None:
        return ErrorCode.leader_not_available, NO_LEADER
    if context.listener not in leader.listeners:
        is_older = context.api_key == ApiKey.METADATA and (
            context.api_version < LISTENER_NOT_FOUND_SINCE
        )
        code = ErrorCode.leader_not_available if is_older else ErrorCode.listener_not_found
        return code, NO_LEADER
    return ErrorCode.none, partition.leader
