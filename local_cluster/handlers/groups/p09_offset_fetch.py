"""OffsetFetch v1-v10.

v2 adds the error of the whole answer and null topics for "everything committed", v5 the leader
epoch, v7 require_stable (KIP-447: UNSTABLE_OFFSET_COMMIT where an open transaction may change the
position), v8 several groups (KIP-709), v9 the member that asks and its epoch, which are checked for
groups of the new protocol (KIP-848), v10 names topics by id. A topic whose id is not known is
UNKNOWN_TOPIC_ID, and left out where everything was asked for.

A position that was never committed is -1 with empty metadata and no error. The answer waits for
commits that were asked for before it.
"""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Awaitable, Sequence
from typing import Any, Final, NamedTuple

from local_cluster.groups.offsets import NO_OFFSET, TopicPartition
from local_cluster.groups.records import CommittedOffset
from local_cluster.groups.requests import FetchedOffset
from local_cluster.handlers.registry import Reply, handles
from local_cluster.handlers.services import BrokerServices, RequestContext
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, KafkaError
from local_cluster.wire.messages import get

VERSION_WITH_GROUPS: Final = 8
VERSION_WITH_TOP_LEVEL_ERROR: Final = 2
VERSION_WITH_TOPIC_IDS: Final = 10


class _FetchedGroup(NamedTuple):
    """One group's answer: an error, or positions that may still have to be waited for."""

    group_id: str
    error: ErrorCode
    offsets: Awaitable[ErrorCode | Sequence[FetchedOffset]] | None = None


class _Asked(NamedTuple):
    """What is asked of one group; None asks for everything."""

    group_id: str
    partitions: tuple[TopicPartition, ...] | None
    unknown: tuple[tuple[uuid.UUID, tuple[int, ...]], ...]
    """Topic ids that name no topic, with the partitions that were asked for."""
    uses_ids: bool
    member_id: str | None
    member_epoch: int

    @classmethod
    def of(cls, broker: BrokerServices, context: RequestContext, group: Any) -> _Asked:
        uses_ids = context.api_version >= VERSION_WITH_TOPIC_IDS
        partitions: list[TopicPartition] = []
        unknown = []
        for topic in group.topics or ():
            known = broker.metadata.topic_by_id(topic.topic_id) if uses_ids else None
            if uses_ids and known is None:
                unknown.append((topic.topic_id, topic.partition_indexes))
                continue
            name = topic.name if known is None else known.name
            partitions += [(name, index) for index in topic.partition_indexes]
        return cls(
            group.group_id,
            None if group.topics is None else tuple(partitions),
            tuple(unknown),
            uses_ids,
            get(group, "member_id", None),
            get(group, "member_epoch", -1),
        )


@handles(ApiKey.OFFSET_FETCH, min_version=1, max_version=10)
def offset_fetch(broker: BrokerServices, context: RequestContext, request: Any) -> Reply:
    """Tell the committed positions of one group or, from v8 on, of several."""
    groups = [_Asked.of(broker, context, group) for group in _groups(context, request)]
    require_stable = bool(get(request, "require_stable", False))
    asked = [_ask(broker, context, group, require_stable) for group in groups]
    return _answer(broker, context, groups, asked)


def _ask(
    broker: BrokerServices, context: RequestContext, group: _Asked, require_stable: bool
) -> _FetchedGroup:
    group_id = group.group_id
    if not broker.authorize(context, "DESCRIBE", "GROUP", group_id):
        return _FetchedGroup(group_id, ErrorCode.group_authorization_failed)
    try:
        offsets = broker.groups.fetch_offsets(
            group_id,
            group.partitions,
            require_stable=require_stable,
            member_id=group.member_id,
            member_epoch=group.member_epoch,
        )
    except KafkaError as error:
        return _FetchedGroup(group_id, _told(error.code))
    return _FetchedGroup(group_id, ErrorCode.none, offsets)


def _told(code: ErrorCode) -> ErrorCode:
    """Kafka tells it so as well (GroupCoordinatorService.handleOffsetFetchException): to consumers
    before 3.9 COORDINATOR_NOT_AVAILABLE is fatal here, and NOT_COORDINATOR makes them try again."""
    return ErrorCode.not_coordinator if code is ErrorCode.coordinator_not_available else code


async def _answer(
    broker: BrokerServices,
    context: RequestContext,
    groups: Sequence[_Asked],
    asked: Sequence[_FetchedGroup],
) -> dict[str, Any]:
    answers = []
    for group, (group_id, error, pending) in zip(groups, asked, strict=True):
        offsets: Sequence[FetchedOffset] = ()
        if pending is not None:
            try:
                answered = await pending
                if isinstance(answered, ErrorCode):
                    error = answered
                else:
                    offsets = answered
            except KafkaError as failed:
                error = _told(failed.code)
        answers.append(
            {
                "group_id": group_id,
                "topics": _topics(broker, context, group, offsets, error),
                "error_code": error,
            }
        )
    return {"groups": answers} if context.api_version >= VERSION_WITH_GROUPS else answers[0]


def _topics(
    broker: BrokerServices,
    context: RequestContext,
    group: _Asked,
    offsets: Sequence[FetchedOffset],
    error: ErrorCode,
) -> list[dict[str, Any]]:
    """The positions by topic; those in topics that the principal must not see are not told."""
    in_partitions = ErrorCode.none
    if error and context.api_version < VERSION_WITH_TOP_LEVEL_ERROR:
        # There is no other place for the error of the group.
        offsets = [FetchedOffset(t, p, NO_OFFSET) for t, p in group.partitions or ()]
        in_partitions = error
    topics = []
    for name, entries in itertools.groupby(offsets, key=lambda fetched: fetched.topic):
        if broker.authorize(context, "DESCRIBE", "TOPIC", name):
            partitions = [
                _partition(
                    entry.partition,
                    entry.committed,
                    ErrorCode.unstable_offset_commit if entry.is_unstable else in_partitions,
                )
                for entry in entries
            ]
        elif group.partitions is None:
            continue
        else:
            hidden = ErrorCode.topic_authorization_failed
            partitions = [_partition(entry.partition, NO_OFFSET, hidden) for entry in entries]
        if not group.uses_ids:
            topics.append({"name": name, "partitions": partitions})
        elif (known := broker.metadata.topics.get(name)) is not None:
            topics.append({"topic_id": known.topic_id, "partitions": partitions})
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


def _partition(partition: int, committed: CommittedOffset, error: ErrorCode) -> dict[str, Any]:
    return {
        "partition_index": partition,
        "committed_offset": committed.offset,
        "committed_leader_epoch": committed.leader_epoch,
        "metadata": committed.metadata,
        "error_code": error,
    }


def _groups(context: RequestContext, request: Any) -> Sequence[Any]:
    return request.groups if context.api_version >= VERSION_WITH_GROUPS else (request,)
