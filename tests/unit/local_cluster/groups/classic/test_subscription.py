"""The subscriptions of a consumer group's members, and OffsetDelete."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

import local_cluster.handlers.groups.p47_offset_delete  # noqa: F401
from local_cluster.groups.classic.subscription import read_topics
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode
from tests.unit.local_cluster.groups.doubles import FakeBroker
from tests.unit.local_cluster.groups.group_requests import commit, joined, sync


def subscription(*topics: str, version: int = 3) -> bytes:
    names = b"".join(len(t).to_bytes(2, "big") + t.encode() for t in topics)
    head = version.to_bytes(2, "big") + len(topics).to_bytes(4, "big")
    return head + names + b"\xff\xff\xff\xff" + b"\0\0\0\0"


@pytest.mark.parametrize("version", [0, 1, 3, 9])
def test_topics_are_read_at_any_version(version: int) -> None:
    assert read_topics(subscription("a", "bc", version=version)) == frozenset({"a", "bc"})
    assert read_topics(subscription(version=version)) == frozenset()


@pytest.mark.parametrize("cut", range(2 + 4 + 3 + 4))
def test_cut_off_bytes_are_not_read(cut: int) -> None:
    assert read_topics(subscription("a", "bc")[:cut]) is None


def test_other_bytes_are_not_read() -> None:
    assert read_topics(b"\0\0\x7f\xff\xff\xff") is None
    assert read_topics(b"\xff\xff\0\0\0\0") is None
    assert read_topics(b"\0\0\0\0\0\x01\0\x01\xff") is None


@pytest.fixture
async def broker() -> AsyncIterator[FakeBroker]:
    made = FakeBroker(partitions=2, config={"group.initial.rebalance.delay.ms": "0"})
    await made.lead()
    made.add_topic("flights", 4)
    made.add_topic("trains", 4)
    yield made
    await made.groups.stop()


async def delete(broker: FakeBroker) -> Any:
    response = await broker.send(
        ApiKey.OFFSET_DELETE,
        0,
        group_id="boards",
        topics=[
            {"name": name, "partitions": [{"partition_index": 0}]}
            for name in ("flights", "trains", "nowhere")
        ],
    )
    return response.error_code, [p.error_code for t in response.topics for p in t.partitions]


UNKNOWN = ErrorCode.unknown_topic_or_partition


async def test_an_empty_groups_offsets_are_deleted(broker: FakeBroker) -> None:
    assert await delete(broker) == (ErrorCode.group_id_not_found, [])
    await commit(broker, 8, ("flights", 0, 7), ("trains", 1, 7))
    assert await delete(broker) == (ErrorCode.none, [ErrorCode.none, ErrorCode.none, UNKNOWN])
    left = await broker.positions("boards")
    assert [(entry.topic, entry.partition) for entry in left] == [("trains", 1)]


@pytest.mark.parametrize(
    ("protocol_type", "metadata", "response"),
    [
        (
            "consumer",
            subscription("flights"),
            (ErrorCode.none, [ErrorCode.group_subscribed_to_topic, ErrorCode.none, UNKNOWN]),
        ),
        (
            "consumer",
            b"?",
            (ErrorCode.none, [ErrorCode.group_subscribed_to_topic] * 2 + [UNKNOWN]),
        ),
        ("connect", subscription("flights"), (ErrorCode.non_empty_group, [])),
    ],
)
async def test_subscribed_topics_keep_their_offsets(
    broker: FakeBroker, protocol_type: str, metadata: bytes, response: Any
) -> None:
    member = await joined(
        broker,
        protocol_type=protocol_type,
        protocols=[{"name": "range", "metadata": metadata}],
    )
    await sync(broker, 5, member, protocol_type=protocol_type)
    assert await delete(broker) == response
