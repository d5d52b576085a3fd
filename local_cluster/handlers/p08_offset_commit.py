"""OffsetCommit v2-v9.

v2-v4 carry a retention of their own (KIP-211 took it out in v5), v6 adds the leader epoch
(KIP-320), v7 the group instance id (KIP-345), v8 is flexible. From v9 on
(KIP-848) a member of a group that is not known gets GROUP_ID_NOT_FOUND, before that
ILLEGAL_GENERATION.

The answer waits until the positions are committed in `__consumer_offsets`. Topics that do not
exist are refused one by one with UNKNOWN_TOPIC_OR_PARTITION, the others are committed.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any, Final

from local_cluster.groups.requests import CommitRequest, OffsetToCommit
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, KafkaError
from local_cluster.wire.messages import get, ms

from .registry import Reply, RequestContext, handles
from .services import BrokerServices

VERSION_WITH_GROUP_NOT_FOUND: Final = 9


@handles(ApiKey.OFFSET_COMMIT, min_version=2, max_version=9)
def offset_commit(broker: BrokerServices, context: RequestContext, request: Any) -> Reply:
    """Commit the positions of existing topics."""
    group_id = request.group_id
    if not broker.authorize(context, "READ", "GROUP", group_id):
        return _answer(request, _all(request, ErrorCode.group_authorization_failed))
    known_topics = broker.metadata.topics
    refused: dict[str, ErrorCode] = {}
    offsets: list[OffsetToCommit] = []
    for topic in request.topics:
        name = topic.name
        if not broker.authorize(context, "READ", "TOPIC", name):
            refused[name] = ErrorCode.topic_authorization_failed
        elif name not in known_topics:
            refused[name] = ErrorCode.unknown_topic_or_partition
        else:
            offsets.extend(
                OffsetToCommit(
                    name,
                    partition.partition_index,
                    partition.committed_offset,
                    get(partition, "committed_leader_epoch", -1),
                    partition.committed_metadata,
                )
                for partition in topic.partitions
            )
    if not offsets:
        return _answer(request, refused)
    try:
        committed = broker.groups.commit_offsets(
            CommitRequest(
                group_id,
                request.member_id,
                get(request, "group_instance_id", None),
                request.generation_id_or_member_epoch,
                tuple(offsets),
                ms(get(request, "retention_time", None)),
                context.api_version >= VERSION_WITH_GROUP_NOT_FOUND,
            )
        )
    except KafkaError as error:
        return _answer(request, refused, [error.code] * len(offsets))
    return _answer_later(request, refused, len(offsets), committed)


async def _answer_later(
    request: Any,
    refused: dict[str, ErrorCode],
    count: int,
    committed: Awaitable[tuple[ErrorCode, ...]],
) -> dict[str, Any]:
    try:
        errors = await committed
    except KafkaError as error:
        errors = (error.code,) * count
    return _answer(request, refused, errors)


def _all(request: Any, error: ErrorCode) -> dict[str, ErrorCode]:
    return {topic.name: error for topic in request.topics}


def _answer(
    request: Any,
    refused: dict[str, ErrorCode],
    errors: tuple[ErrorCode, ...] | list[ErrorCode] = (),
) -> dict[str, Any]:
    """One error per position: that of its topic, else the next one in order."""
    remaining = iter(errors)
    return {
        "topics": [
            {
                "name": topic.name,
                "partitions": [
                    {
                        "partition_index": partition.partition_index,
                        "error_code": refused[topic.name]
                        if topic.name in refused
                        else next(remaining),
                    }
                    for partition in topic.partitions
                ],
            }
            for topic in request.topics
        ]
    }
