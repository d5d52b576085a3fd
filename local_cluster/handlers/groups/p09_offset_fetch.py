"""OffsetFetch v1-v10.

v2 adds the top-level error, and null topics for "all committed offsets", v5 the leader epoch. v7
adds require_stable (KIP-447: UNSTABLE_OFFSET_COMMIT while an open transaction may change the
offset), v8 several groups (KIP-709). v9 adds the member and its epoch, which are checked for groups
of the consumer protocol (KIP-848). v10 has topic ids: an unknown id is UNKNOWN_TOPIC_ID, and a
deleted topic is left out of "all committed offsets".

An offset that was never committed is -1 with empty metadata and no error. The response waits for
commits that were requested before.
"""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Awaitable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from local_cluster.groups.offsets import NO_OFFSET, TopicPartition
from local_cluster.groups.records import CommittedOffset
from local_cluster.groups.requests import FetchedOffset
from local_cluster.handlers.registry import handles
from local_cluster.handlers.services import BrokerServices, RequestContext
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, KafkaError
from local_cluster.wire.messages import get

if TYPE_CHECKING:
    from kio.schema.offset_fetch.v7 import request as v7
    from kio.schema.offset_fetch.v10.request import OffsetFetchRequest, OffsetFetchRequestGroup

    from local_cluster.wire.responses.groups import (
        OffsetFetchResponse,
        OffsetFetchResponsePartitions,
        OffsetFetchResponseTopic,
        OffsetFetchResponseTopics,
    )

GROUPS_SINCE: Final = 8
TOP_LEVEL_ERROR_SINCE: Final = 2
TOPIC_IDS_SINCE: Final = 10


class _GroupRequest(NamedTuple):
    """The request about one group; None asks for all committed offsets."""

    group_id: str
    partitions: tuple[TopicPartition, ...] | None
    unknown: tuple[tuple[uuid.UUID | None, tuple[int, ...]], ...]
    """Unknown topic ids, with the requested partitions."""
    uses_ids: bool
    member_id: str | None
    member_epoch: int


class _GroupResult(NamedTuple):
    """The result of one group: an error, or offsets that may have to be waited for."""

    error: ErrorCode
    offsets: Awaitable[ErrorCode | Sequence[FetchedOffset]] | None = None


@handles(ApiKey.OFFSET_FETCH, min_version=1, max_version=10)
def offset_fetch(
    broker: BrokerServices, context: RequestContext, request: OffsetFetchRequest
) -> Awaitable[OffsetFetchResponse]:
    """Return the committed offsets of one group or, from v8, of several."""
    if context.api_version >= GROUPS_SINCE:
        groups = [_read_group(broker, context, group) for group in request.groups]
    else:
        groups = [_read_group(broker, context, cast("v7.OffsetFetchRequest", request))]
    require_stable = get(request, "require_stable", False)
    results = [_fetch(broker, context, group, require_stable) for group in groups]
    return _respond(broker, context, groups, results)


def _read_group(
    broker: BrokerServices,
    context: RequestContext,
    group: OffsetFetchRequestGroup | v7.OffsetFetchRequest,
) -> _GroupRequest:
    uses_ids = context.api_version >= TOPIC_IDS_SINCE
    partitions: list[TopicPartition] = []
    unknown: list[tuple[uuid.UUID | None, tuple[int, ...]]] = []
    for topic in group.topics or ():
        name: str = get(topic, "name", "")
        if uses_ids:
            topic_id: uuid.UUID | None = get(topic, "topic_id", None)
            known = None if topic_id is None else broker.metadata.topic_by_id(topic_id)
            if known is None:
                unknown.append((topic_id, topic.partition_indexes))
                continue
            name = known.name
        partitions += [(name, index) for index in topic.partition_indexes]
    return _GroupRequest(
        group.group_id,
        None if group.topics is None else tuple(partitions),
        tuple(unknown),
        uses_ids,
        get(group, "member_id", None),
        get(group, "member_epoch", -1),
    )


def _fetch(
    broker: BrokerServices, context: RequestContext, group: _GroupRequest, require_stable: bool
) -> _GroupResult:
    if not broker.authorize(context, "DESCRIBE", "GROUP", group.group_id):
        return _GroupResult(ErrorCode.group_authorization_failed)
    try:
        offsets = broker.groups.fetch_offsets(
            group.group_id,
            group.partitions,
            require_stable=require_stable,
            member_id=group.member_id,
            member_epoch=group.member_epoch,
        )
    except KafkaError as error:
        return _GroupResult(_translate(error.code))
    return _GroupResult(ErrorCode.none, offsets)


def _translate(code: ErrorCode) -> ErrorCode:
    """Replace COORDINATOR_NOT_AVAILABLE, which is fatal to consumers before 3.9, by
    NOT_COORDINATOR, which they retry (GroupCoordinatorService.handleOffsetFetchException)."""
    return ErrorCode.not_coordinator if code is ErrorCode.coordinator_not_available else code


async def _respond(
    broker: BrokerServices,
    context: RequestContext,
    groups: Sequence[_GroupRequest],
    results: Sequence[_GroupResult],
) -> OffsetFetchResponse:
    settled = [await _settle(result) for result in results]
    if context.api_version >= GROUPS_SINCE:
        return {
            "groups": [
                {
                    "group_id": group.group_id,
                    "topics": _topics(broker, context, group, offsets, error),
                    "error_code": error,
                }
                for group, (error, offsets) in zip(groups, settled, strict=True)
            ]
        }
    ((group, (error, offsets)),) = zip(groups, settled, strict=True)
    if error and context.api_version < TOP_LEVEL_ERROR_SINCE:
        # v1 has no place for the group's error but its partitions.
        offsets = [FetchedOffset(t, p, NO_OFFSET) for t, p in group.partitions or ()]
        topics = _named_topics(broker, context, group, offsets, error)
    else:
        topics = _named_topics(broker, context, group, offsets, ErrorCode.none)
    return {"topics": topics, "error_code": error}


async def _settle(result: _GroupResult) -> tuple[ErrorCode, Sequence[FetchedOffset]]:
    if result.offsets is None:
        return result.error, ()
    try:
        offsets = await result.offsets
    except KafkaError as failed:
        return _translate(failed.code), ()
    return (offsets, ()) if isinstance(offsets, ErrorCode) else (result.error, offsets)


def _topics(
    broker: BrokerServices,
    context: RequestContext,
    group: _GroupRequest,
    offsets: Sequence[FetchedOffset],
    error: ErrorCode,
) -> list[OffsetFetchResponseTopics]:
    """The offsets by topic, by name or id."""
    topics: list[OffsetFetchResponseTopics] = []
    for topic in _named_topics(broker, context, group, offsets, ErrorCode.none):
        known = broker.metadata.topics.get(topic["name"])
        if not group.uses_ids:
            topics.append({"name": topic["name"], "partitions": topic["partitions"]})
        elif known is not None:
            topics.append({"topic_id": known.topic_id, "partitions": topic["partitions"]})
    if not error:
        topics += [
            {
                "topic_id": topic_id,
                "partitions": [
                    _partition(index, NO_OFFSET, ErrorCode.unknown_topic_id) for index in indexes
                ],
            }
            for topic_id, indexes in group.unknown
        ]
    return topics


def _named_topics(
    broker: BrokerServices,
    context: RequestContext,
    group: _GroupRequest,
    offsets: Sequence[FetchedOffset],
    error: ErrorCode,
) -> list[OffsetFetchResponseTopic]:
    """The offsets by topic name, without topics that the principal may not see."""
    topics: list[OffsetFetchResponseTopic] = []
    for name, entries in itertools.groupby(offsets, key=lambda fetched: fetched.topic):
        if broker.authorize(context, "DESCRIBE", "TOPIC", name):
            partitions = [
                _partition(
                    entry.partition,
                    entry.committed,
                    ErrorCode.unstable_offset_commit if entry.is_unstable else error,
                )
                for entry in entries
            ]
        elif group.partitions is None:
            continue
        else:
            hidden = ErrorCode.topic_authorization_failed
            partitions = [_partition(entry.partition, NO_OFFSET, hidden) for entry in entries]
        topics.append({"name": name, "partitions": partitions})
    return topics


def _partition(
    partition: int, committed: CommittedOffset, error: ErrorCode
) -> OffsetFetchResponsePartitions:
    return {
        "partition_index": partition,
        "committed_offset": committed.offset,
        "committed_leader_epoch": committed.leader_epoch,
        "metadata": committed.metadata,
        "error_code": error,
    }
