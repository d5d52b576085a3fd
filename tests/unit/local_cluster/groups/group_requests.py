"""Requests of classic groups at every served version, and readers of their responses."""

from __future__ import annotations

import asyncio
import uuid
from typing import Any

import local_cluster.handlers.groups.p08_offset_commit
import local_cluster.handlers.groups.p09_offset_fetch
import local_cluster.handlers.groups.p10_find_coordinator
import local_cluster.handlers.groups.p11_join_group
import local_cluster.handlers.groups.p12_heartbeat
import local_cluster.handlers.groups.p13_leave_group
import local_cluster.handlers.groups.p14_sync_group
import local_cluster.handlers.groups.p15_describe_groups
import local_cluster.handlers.groups.p16_list_groups  # noqa: F401
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode
from local_cluster.wire.messages import get
from tests.unit.local_cluster.groups.doubles import FakeBroker

NOWHERE = uuid.UUID(int=7)

SERVED = {
    ApiKey.OFFSET_COMMIT: (2, 10),
    ApiKey.OFFSET_FETCH: (1, 10),
    ApiKey.FIND_COORDINATOR: (0, 6),
    ApiKey.JOIN_GROUP: (0, 9),
    ApiKey.HEARTBEAT: (0, 4),
    ApiKey.LEAVE_GROUP: (0, 5),
    ApiKey.SYNC_GROUP: (0, 5),
    ApiKey.DESCRIBE_GROUPS: (0, 6),
    ApiKey.LIST_GROUPS: (0, 5),
}


def versions(api: ApiKey) -> range:
    low, high = SERVED[api]
    return range(low, high + 1)


def join(broker: FakeBroker, version: int, **changes: Any) -> asyncio.Task[Any]:
    fields = {
        "group_id": "boards",
        "session_timeout": 10_000,
        "rebalance_timeout": 60_000,
        "member_id": "",
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": b"sub"}],
    }
    return broker.send(ApiKey.JOIN_GROUP, version, **(fields | changes))


async def joined(broker: FakeBroker, version: int = 9, **changes: Any) -> Any:
    response = await join(broker, version, **changes)
    if response.error_code is ErrorCode.member_id_required:
        response = await join(broker, version, **(changes | {"member_id": response.member_id}))
    return response


def sync(broker: FakeBroker, version: int, member: Any, **changes: Any) -> asyncio.Task[Any]:
    fields = {
        "group_id": "boards",
        "generation_id": member.generation_id,
        "member_id": member.member_id,
        "protocol_type": "consumer",
        "protocol_name": "range",
        "assignments": [{"member_id": member.member_id, "assignment": b"mine"}],
    }
    return broker.send(ApiKey.SYNC_GROUP, version, **(fields | changes))


def commit(broker: FakeBroker, version: int, *offsets: Any, **changes: Any) -> asyncio.Task[Any]:
    topics: dict[str, list[dict[str, Any]]] = {}
    for topic, partition, offset in offsets:
        topics.setdefault(topic, []).append(
            {
                "partition_index": partition,
                "committed_offset": offset,
                "committed_leader_epoch": 5,
                "committed_metadata": f"at {offset}",
            }
        )
    fields = {
        "group_id": "boards",
        "member_id": "",
        "generation_id_or_member_epoch": -1,
        "topics": [
            {**named(broker, version, name), "partitions": entries}
            for name, entries in topics.items()
        ],
    }
    return broker.send(ApiKey.OFFSET_COMMIT, version, **(fields | changes))


def fetch(broker: FakeBroker, version: int, topics: Any, group: str = "boards") -> Any:
    wanted = (
        None
        if topics is None
        else [
            {**named(broker, version, name), "partition_indexes": indexes}
            for name, indexes in topics.items()
        ]
    )
    if version >= 8:
        groups = [{"group_id": group, "topics": wanted}]
        return broker.send(ApiKey.OFFSET_FETCH, version, groups=groups, require_stable=True)
    return broker.send(
        ApiKey.OFFSET_FETCH, version, group_id=group, topics=wanted, require_stable=True
    )


def named(broker: FakeBroker, version: int, topic: str) -> dict[str, Any]:
    """Return the topic fields of a request; from v10 on an id, which for "nowhere" is unknown."""
    if version < 10:
        return {"name": topic}
    known = broker.metadata.topics.get(topic)
    return {"topic_id": NOWHERE if known is None else known.topic_id}


def name_of(broker: FakeBroker, topic: Any) -> str:
    """Return the name of a topic in a response."""
    if not hasattr(topic, "topic_id"):
        return str(topic.name)
    known = broker.metadata.topic_by_id(topic.topic_id)
    return "nowhere" if known is None else known.name


def fetched(
    version: int, response: Any, broker: FakeBroker | None = None
) -> dict[tuple[str, int], tuple[int, str | None]]:
    group = response.groups[0] if version >= 8 else response
    assert get(group, "error_code", ErrorCode.none) is ErrorCode.none
    out = {}
    for topic in group.topics:
        for entry in topic.partitions:
            name = topic.name if broker is None else name_of(broker, topic)
            unknown = version >= 10 and name == "nowhere"
            assert entry.error_code is (ErrorCode.unknown_topic_id if unknown else ErrorCode.none)
            out[name, entry.partition_index] = (entry.committed_offset, entry.metadata)
    return out
