"""OffsetFetch v1-v8.

v2 adds the error of the whole answer and null topics for "everything committed", v5 the leader
epoch, v7 require_stable (KIP-447; nothing is ever unstable without transactions, so the answer is
the same), v8 several groups (KIP-709).

A position that was never committed is -1 with empty metadata and no error. The answer waits for
commits that were asked for before it.
"""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Sequence
from typing import Any, Final, NamedTuple

from local_cluster.groups.offsets import NO_OFFSET, TopicPartition
from local_cluster.groups.requests import FetchedOffset
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, KafkaError

from .registry import Reply, RequestContext, handles
from .services import BrokerServices

VERSION_WITH_GROUPS: Final = 8
VERSION_WITH_TOP_LEVEL_ERROR: Final = 2


class _FetchedGroup(NamedTuple):
    """One group's answer: an error, or positions that may still have to be waited for."""

    group_id: str
    error: ErrorCode
    offsets: Awaitable[Sequence[FetchedOffset]] | None = None


@handles(ApiKey.OFFSET_FETCH, min_version=1, max_version=8)
def offset_fetch(broker: BrokerServices, context: RequestContext, request: Any) -> Reply:
    """Tell the committed positions of one group or, from v8 on, of several."""
    groups = _groups(context, request)
    return _answer(broker, context, groups, [_ask(broker, context, group) for group in groups])


def _ask(broker: BrokerServices, context: RequestContext, group: Any) -> _FetchedGroup:
    group_id = group.group_id
    if not broker.authorize(context, "DESCRIBE", "GROUP", group_id):
        return _FetchedGroup(group_id, ErrorCode.group_authorization_failed)
    try:
        offsets = broker.groups.fetch_offsets(group_id, _partitions(group))
    except KafkaError as error:
        return _FetchedGroup(group_id, error.code)
    return _FetchedGroup(group_id, ErrorCode.none, offsets)


async def _answer(
    broker: BrokerServices,
    context: RequestContext,
    groups: Sequence[Any],
    asked: Sequence[_FetchedGroup],
) -> dict[str, Any]:
    answers = []
    for group, (group_id, error, pending) in zip(groups, asked, strict=True):
        offsets: Sequence[FetchedOffset] = ()
        if pending is not None:
            try:
                offsets = await pending
            except KafkaError as failed:
                error = failed.code
        if group.topics is None:
            # Positions in topics that the principal must not see are left out.
            offsets = [
                fetched
                for fetched in offsets
                if broker.authorize(context, "DESCRIBE", "TOPIC", fetched.topic)
            ]
        elif error and context.api_version < VERSION_WITH_TOP_LEVEL_ERROR:
            # There an error can only be told in each partition.
            offsets = [FetchedOffset(t, p, NO_OFFSET) for t, p in _partitions(group) or ()]
        answers.append((group_id, error, offsets))
    if context.api_version >= VERSION_WITH_GROUPS:
        return {
            "groups": [
                {"group_id": group_id, "topics": _by_topic(offsets), "error_code": error}
                for group_id, error, offsets in answers
            ]
        }
    _, error, offsets = answers[0]
    in_partitions = error if context.api_version < VERSION_WITH_TOP_LEVEL_ERROR else ErrorCode.none
    return {"topics": _by_topic(offsets, in_partitions), "error_code": error}


def _groups(context: RequestContext, request: Any) -> Sequence[Any]:
    return request.groups if context.api_version >= VERSION_WITH_GROUPS else (request,)


def _partitions(group: Any) -> tuple[TopicPartition, ...] | None:
    """What is asked for; None asks for everything."""
    if group.topics is None:
        return None
    return tuple((topic.name, index) for topic in group.topics for index in topic.partition_indexes)


def _by_topic(
    offsets: Sequence[FetchedOffset], error: ErrorCode = ErrorCode.none
) -> list[dict[str, Any]]:
    return [
        {
            "name": topic,
            "partitions": [
                {
                    "partition_index": fetched.partition,
                    "committed_offset": fetched.committed.offset,
                    "committed_leader_epoch": fetched.committed.leader_epoch,
                    "metadata": fetched.committed.metadata,
                    "error_code": error,
                }
                for fetched in group
            ],
        }
        for topic, group in itertools.groupby(offsets, key=lambda fetched: fetched.topic)
    ]
