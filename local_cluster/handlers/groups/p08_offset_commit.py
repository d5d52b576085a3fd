"""OffsetCommit v2-v10.

v2-v4 have a retention of their own (KIP-211 removed it in v5). v6 adds the leader epoch (KIP-320),
v7 the group instance id (KIP-345), v8 is flexible. From v9 (KIP-848) the generation may be a member
epoch, and an unknown group is GROUP_ID_NOT_FOUND for a member's commit, before ILLEGAL_GENERATION.
v10 has topic ids (KIP-848).

The response waits until the offsets are committed in `__consumer_offsets`. Each topic or partition
that does not exist is UNKNOWN_TOPIC_OR_PARTITION, an unknown id UNKNOWN_TOPIC_ID; the others are
committed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import Final

from local_cluster.groups.requests import CommitRequest, OffsetToCommit
from local_cluster.handlers.registry import handles
from local_cluster.handlers.services import BrokerServices, RequestContext
from local_cluster.wire import offset_commit as codec
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, KafkaError

GROUP_NOT_FOUND_SINCE: Final = 9


@handles(ApiKey.OFFSET_COMMIT, min_version=2, max_version=10, raw=True)
def offset_commit(
    broker: BrokerServices, context: RequestContext, frame: memoryview
) -> bytes | Awaitable[bytes]:
    """Commit the offsets of existing topics."""
    version = context.api_version
    request = codec.decode_request(version, frame, 0)
    group_id = request.group_id
    if not broker.authorize(context, "READ", "GROUP", group_id):
        error = ErrorCode.group_authorization_failed
        count = sum(len(topic.partitions) for topic in request.topics)
        return _encode(version, request, [error] * count, ())
    known_topics = broker.metadata.topics
    refused: list[ErrorCode] = []
    offsets: list[OffsetToCommit] = []
    for topic, topic_id, partitions in request.topics:
        name, unknown = topic, ErrorCode.unknown_topic_or_partition
        if version >= codec.TOPIC_IDS_SINCE:
            found = None if topic_id is None else broker.metadata.topic_by_id(topic_id)
            name, unknown = ("" if found is None else found.name), ErrorCode.unknown_topic_id
        error = ErrorCode.none
        known = known_topics.get(name)
        if not name:
            error = unknown
        elif not broker.authorize(context, "READ", "TOPIC", name):
            error = ErrorCode.topic_authorization_failed
        elif known is None:
            error = unknown
        if known is None or error is not ErrorCode.none:
            refused += [error] * len(partitions)
            continue
        for position in partitions:
            if position[0] in known.partitions:
                refused.append(ErrorCode.none)
                offsets.append(OffsetToCommit(name, *position))
            else:
                refused.append(ErrorCode.unknown_topic_or_partition)
    if not offsets:
        return _encode(version, request, refused, ())
    try:
        committed = broker.groups.commit_offsets(
            CommitRequest(
                group_id,
                request.member_id,
                request.group_instance_id,
                request.generation_id,
                tuple(offsets),
                request.retention_ms,
                version >= GROUP_NOT_FOUND_SINCE,
            )
        )
    except KafkaError as error:
        return _encode(version, request, refused, (error.code,) * len(offsets))
    if committed.done() and committed.exception() is None:
        return _encode(version, request, refused, committed.result())
    return _encode_later(version, request, refused, len(offsets), committed)


async def _encode_later(
    version: int,
    request: codec.OffsetCommitRequest,
    refused: list[ErrorCode],
    count: int,
    committed: Awaitable[Sequence[ErrorCode]],
) -> bytes:
    try:
        errors = await committed
    except KafkaError as error:
        errors = (error.code,) * count
    return _encode(version, request, refused, errors)


def _encode(
    version: int,
    request: codec.OffsetCommitRequest,
    refused: list[ErrorCode],
    errors: Sequence[ErrorCode],
) -> bytes:
    """One error per offset: its refusal, else the next of `errors`."""
    if any(refused):
        remaining = iter(errors)
        errors = [error or next(remaining) for error in refused]
    return codec.encode_response(version, request, errors)
