"""OffsetCommit and OffsetFetch over the wire format, at every version."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from local_cluster.coordinator_runtime import partition_runtime
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode
from tests.unit.local_cluster.groups.doubles import FakeBroker
from tests.unit.local_cluster.groups.group_requests import (
    commit,
    fetch,
    fetched,
    joined,
    name_of,
    sync,
    versions,
)


@pytest.mark.parametrize("version", versions(ApiKey.OFFSET_COMMIT))
async def test_offset_commit(broker: FakeBroker, version: int) -> None:
    response = await commit(
        broker, version, ("flights", 0, 10), ("nowhere", 0, 1), ("flights", 2, 2**40)
    )
    codes = {
        (name_of(broker, topic), entry.partition_index): entry.error_code
        for topic in response.topics
        for entry in topic.partitions
    }
    assert codes == {
        ("flights", 0): ErrorCode.none,
        ("flights", 2): ErrorCode.none,
        ("nowhere", 0): ErrorCode.unknown_topic_id
        if version >= 10
        else ErrorCode.unknown_topic_or_partition,
    }
    response = await fetch(broker, 5, None)
    assert fetched(5, response) == {
        ("flights", 0): (10, "at 10"),
        ("flights", 2): (2**40, f"at {2**40}"),
    }
    epochs = {p.committed_leader_epoch for topic in response.topics for p in topic.partitions}
    assert epochs == {5 if version >= 6 else -1}


@pytest.mark.parametrize("version", versions(ApiKey.OFFSET_FETCH))
async def test_offset_fetch(broker: FakeBroker, version: int) -> None:
    await commit(broker, 8, ("flights", 1, 7))
    response = await fetch(broker, version, {"flights": [0, 1], "nowhere": [3]})
    assert fetched(version, response, broker) == {
        ("flights", 0): (-1, ""),
        ("flights", 1): (7, "at 7"),
        ("nowhere", 3): (-1, ""),
    }
    if version >= 2:
        response = await fetch(broker, version, None)
        assert fetched(version, response, broker) == {("flights", 1): (7, "at 7")}
    assert fetched(
        version, await fetch(broker, version, {"flights": [0]}, group="new"), broker
    ) == {("flights", 0): (-1, "")}


async def test_offset_fetch_of_several_groups(broker: FakeBroker) -> None:
    await commit(broker, 8, ("flights", 1, 7))
    await commit(broker, 8, ("flights", 1, 8), group_id="others")
    names = ["boards", "others", "nobody"]
    groups = [{"group_id": name, "topics": None} for name in names]
    response = await broker.send(ApiKey.OFFSET_FETCH, 8, groups=groups, require_stable=False)
    assert [group.group_id for group in response.groups] == names
    offsets = [
        [p.committed_offset for topic in group.topics for p in topic.partitions]
        for group in response.groups
    ]
    assert offsets == [[7], [8], []]


def errors_of(version: int, response: Any) -> set[ErrorCode]:
    """Return the errors of an OffsetFetch, from the field of that version."""
    if version >= 8:
        return {group.error_code for group in response.groups}
    if version >= 2:
        return {response.error_code}
    return {p.error_code for topic in response.topics for p in topic.partitions}


@pytest.mark.parametrize("version", versions(ApiKey.OFFSET_FETCH))
async def test_offset_fetch_at_another_broker(version: int) -> None:
    response = await fetch(FakeBroker(), version, {"flights": [0, 1]})
    assert errors_of(version, response) == {ErrorCode.not_coordinator}


@pytest.mark.parametrize("version", versions(ApiKey.OFFSET_FETCH))
@pytest.mark.parametrize("is_parked", [True, False])
async def test_offset_fetch_under_min_isr(
    broker: FakeBroker, monkeypatch: pytest.MonkeyPatch, version: int, *, is_parked: bool
) -> None:
    """Consumers before Kafka 3.9 fail for good after COORDINATOR_NOT_AVAILABLE."""
    monkeypatch.setattr(partition_runtime, "WRITABLE_POLL_SECONDS", 0.01)
    replica = broker.partitions[broker.groups.partition_of("boards")]
    replica.commits_at_once = False
    pending = commit(broker, 8, ("flights", 0, 8))
    await asyncio.sleep(0)
    if is_parked:
        fetching = asyncio.ensure_future(fetch(broker, version, {"flights": [0]}))
        await asyncio.sleep(0)
        replica.is_under_min_isr = True
        # The first refused request starts the poll.
        await commit(broker, 8, ("flights", 1, 8))
    else:
        replica.is_under_min_isr = True
        fetching = asyncio.ensure_future(fetch(broker, version, {"flights": [0]}))
    assert errors_of(version, await fetching) == {ErrorCode.not_coordinator}
    # Commits get COORDINATOR_NOT_AVAILABLE, after which clients retry.
    (topic,) = (await pending).topics
    assert topic.partitions[0].error_code is ErrorCode.coordinator_not_available


@pytest.mark.parametrize("version", versions(ApiKey.OFFSET_COMMIT))
async def test_a_member_of_no_group_cannot_commit(broker: FakeBroker, version: int) -> None:
    own = {"member_id": "m", "generation_id_or_member_epoch": 3}
    response = await commit(broker, version, ("flights", 0, 1), **own)
    wanted = ErrorCode.group_id_not_found if version >= 9 else ErrorCode.illegal_generation
    assert response.topics[0].partitions[0].error_code is wanted


async def test_a_commit_of_an_old_generation_is_refused(broker: FakeBroker) -> None:
    member = await joined(broker)
    await sync(broker, 5, member)
    own = {"member_id": member.member_id, "generation_id_or_member_epoch": 1}
    stale = own | {"generation_id_or_member_epoch": 0}
    for fields, error in ((own, ErrorCode.none), (stale, ErrorCode.illegal_generation)):
        response = await commit(broker, 8, ("flights", 0, 1), **fields)
        assert response.topics[0].partitions[0].error_code is error
    simple = await commit(broker, 8, ("flights", 0, 2))
    assert simple.topics[0].partitions[0].error_code is ErrorCode.unknown_member_id


@pytest.mark.parametrize("version", versions(ApiKey.OFFSET_COMMIT))
async def test_a_partition_that_does_not_exist_is_refused(broker: FakeBroker, version: int) -> None:
    response = await commit(broker, version, ("flights", 0, 10), ("flights", 99, 1))
    codes = {p.partition_index: p.error_code for t in response.topics for p in t.partitions}
    assert codes == {0: ErrorCode.none, 99: ErrorCode.unknown_topic_or_partition}


async def test_a_group_stays_when_its_last_offset_is_deleted(broker: FakeBroker) -> None:
    await commit(broker, 8, ("flights", 0, 10))
    for _ in range(2):
        topics = [{"name": "flights", "partitions": [{"partition_index": 0}]}]
        deleted = await broker.send(ApiKey.OFFSET_DELETE, 0, group_id="boards", topics=topics)
        assert deleted.error_code is ErrorCode.none
        assert deleted.topics[0].partitions[0].error_code is ErrorCode.none


async def test_a_group_needs_a_name(broker: FakeBroker) -> None:
    invalid = ErrorCode.invalid_group_id
    deleted = await broker.send(ApiKey.OFFSET_DELETE, 0, group_id="", topics=[])
    assert deleted.error_code is invalid
    beat = await broker.send(
        ApiKey.HEARTBEAT, 4, group_id="", member_id="m", generation_id=1, group_instance_id=None
    )
    assert beat.error_code is invalid
    described = await broker.send(
        ApiKey.CONSUMER_GROUP_DESCRIBE, 1, group_ids=[""], include_authorized_operations=False
    )
    assert described.groups[0].error_code is invalid
