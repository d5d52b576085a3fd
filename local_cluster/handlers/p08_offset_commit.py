"""OffsetCommit v2-v10.

v2-v4 carry a retention of their own (KIP-211 took it out in v5), v6 adds the leader epoch
(KIP-320), v7 the group instance id (KIP-345), v8 is flexible. From v9 on (KIP-848) the generation
may be a member epoch, and a member of a group that is not known gets GROUP_ID_NOT_FOUND, before
that ILLEGAL_GENERATION. v10 names topics by id (KIP-848).

The answer waits until the positions are committed in `__consumer_offsets`. Topics that do not
exist are refused one by one with UNKNOWN_TOPIC_OR_PARTITION, from v10 on UNKNOWN_TOPIC_ID, the
others are committed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable
from typing import Any, Final

from local_cluster.groups.requests import CommitRequest, OffsetToCommit
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, KafkaError
from local_cluster.wire.messages import get, ms

from .registry import Reply, RequestContext, handles
from .services import BrokerServices

VERSION_WITH_GROUP_NOT_FOUND: Final = 9
VERSION_WITH_TOPIC_IDS: Final = 10


@handles(ApiKey.OFFSET_COMMIT, min_version=2, max_version=10)
def offset_commit(broker: BrokerServices, context: RequestContext, request: Any) -> Reply:
    """Commit the positions of existing topics."""
    group_id = request.group_id
    uses_ids = context.api_version >= VERSION_WITH_TOPIC_IDS
    if not broker.authorize(context, "READ", "GROUP", group_id):
        refused_all = [ErrorCode.group_authorization_failed] * len(request.topics)
        return _answer(request, refused_all, uses_ids=uses_ids)
    known_topics = broker.metadata.topics
    topic_errors: list[ErrorCode] = []
    offsets: list[OffsetToCommit] = []
    for topic in request.topics:
        if uses_ids:
            known = broker.metadata.topic_by_id(topic.topic_id)
            name, unknown = ("" if known is None else known.name), ErrorCode.unknown_topic_id
        else:
            name, unknown = topic.name, ErrorCode.unknown_topic_or_partition
        if name not in known_topics:
            topic_errors.append(unknown)
        elif not broker.authorize(context, "READ", "TOPIC", name):
            topic_errors.append(ErrorCode.topic_authorization_failed)
        else:
            topic_errors.append(ErrorCode.none)
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
        return _answer(request, topic_errors, uses_ids=uses_ids)
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
        return _answer(request, topic_errors, [error.code] * len(offsets), uses_ids=uses_ids)
    return _answer_later(request, topic_errors, len(offsets), committed, uses_ids=uses_ids)


async def _answer_later(
    request: Any,
    topic_errors: list[ErrorCode],
    count: int,
    committed: Awaitable[tuple[ErrorCode, ...]],
    *,
    uses_ids: bool,
) -> dict[str, Any]:
    try:
        errors = await committed
    except KafkaError as error:
        errors = (error.code,) * count
    return _answer(request, topic_errors, errors, uses_ids=uses_ids)


def _answer(
    request: Any,
    topic_errors: list[ErrorCode],
    errors: Iterable[ErrorCode] = (),
    *,
    uses_ids: bool,
) -> dict[str, Any]:
    """One error per position: that of its topic, else the next one in order."""
    remaining = iter(errors)
    topics = []
    for topic, refused in zip(request.topics, topic_errors, strict=True):
        partitions = [
            {
                "partition_index": partition.partition_index,
                "error_code": refused or next(remaining),
            }
            for partition in topic.partitions
        ]
        named = {"topic_id": topic.topic_id} if uses_ids else {"name": topic.name}
        topics.append({**named, "partitions": partitions})
    return {"topics": topics}
