"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup over the wire format, at every version."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, KafkaError
from local_cluster.wire.messages import get
from tests.unit.local_cluster.groups.doubles import FakeBroker
from tests.unit.local_cluster.groups.group_requests import (
    commit,
    fetch,
    join,
    joined,
    sync,
    versions,
)


@pytest.mark.parametrize("version", versions(ApiKey.JOIN_GROUP))
async def test_join_group(broker: FakeBroker, version: int) -> None:
    response = await join(broker, version)
    if version >= 4:
        assert response.error_code is ErrorCode.member_id_required
        response = await join(broker, version, member_id=response.member_id)
    assert response.error_code is ErrorCode.none
    assert response.generation_id == 1
    assert response.protocol_name == "range"
    assert get(response, "protocol_type", "consumer") == "consumer"
    assert response.leader == response.member_id
    assert response.member_id.startswith("client-")
    assert [(m.member_id, m.metadata) for m in response.members] == [(response.member_id, b"sub")]


@pytest.mark.parametrize("version", versions(ApiKey.JOIN_GROUP))
async def test_a_refused_join_is_encodable_at_every_version(
    broker: FakeBroker, version: int
) -> None:
    response = await join(broker, version, session_timeout=1)
    assert response.error_code is ErrorCode.invalid_session_timeout
    response = await join(broker, version, group_id="")
    assert response.error_code is ErrorCode.invalid_group_id
    assert response.members == ()


@pytest.mark.parametrize("version", versions(ApiKey.SYNC_GROUP))
async def test_sync_group(broker: FakeBroker, version: int) -> None:
    member = await joined(broker)
    response = await sync(broker, version, member)
    assert response.error_code is ErrorCode.none
    assert response.assignment == b"mine"
    assert get(response, "protocol_type", "consumer") == "consumer"
    assert get(response, "protocol_name", "range") == "range"
    stale = await sync(broker, version, member, generation_id=0)
    assert stale.error_code is ErrorCode.illegal_generation
    assert stale.assignment == b""


async def test_sync_group_v5_has_to_name_the_protocol(broker: FakeBroker) -> None:
    member = await joined(broker)
    for changes in ({"protocol_type": None}, {"protocol_name": "sticky"}):
        response = await sync(broker, 5, member, **changes)
        assert response.error_code is ErrorCode.inconsistent_group_protocol


@pytest.mark.parametrize("version", versions(ApiKey.HEARTBEAT))
async def test_heartbeat(broker: FakeBroker, version: int) -> None:
    member = await joined(broker)
    await sync(broker, 5, member)

    async def beat(**changes: Any) -> ErrorCode:
        fields = {
            "group_id": "boards",
            "generation_id": member.generation_id,
            "member_id": member.member_id,
        }
        response = await broker.send(ApiKey.HEARTBEAT, version, **(fields | changes))
        code: ErrorCode = response.error_code
        return code

    assert await beat() is ErrorCode.none
    assert await beat(generation_id=0) is ErrorCode.illegal_generation
    assert await beat(member_id="x") is ErrorCode.unknown_member_id
    waiting = join(broker, 3)
    assert await beat() is ErrorCode.rebalance_in_progress
    waiting.cancel()


async def test_a_heartbeat_while_the_group_is_loaded_ends_no_session(broker: FakeBroker) -> None:
    member = await joined(broker)
    await sync(broker, 5, member)
    own = {"member_id": member.member_id, "generation_id_or_member_epoch": member.generation_id}
    replica = broker.partitions[broker.groups.partition_of("boards")]

    async def beat(member_id: str) -> ErrorCode:
        response = await broker.send(
            ApiKey.HEARTBEAT,
            4,
            group_id="boards",
            generation_id=member.generation_id,
            member_id=member_id,
        )
        code: ErrorCode = response.error_code
        return code

    # A failed append drops the group's state in memory, which is loaded again.
    replica.append_error = KafkaError(ErrorCode.kafka_storage_error)
    await commit(broker, 8, ("flights", 0, 1), **own)
    replica.append_error = None
    response = await fetch(broker, 8, {"flights": [0]})
    assert response.groups[0].error_code is ErrorCode.coordinator_load_in_progress
    assert await beat("nobody") is ErrorCode.none
    while await beat("nobody") is ErrorCode.none:
        await asyncio.sleep(0.01)
    assert await beat("nobody") is ErrorCode.unknown_member_id
    assert await beat(member.member_id) is ErrorCode.none


@pytest.mark.parametrize("version", versions(ApiKey.LEAVE_GROUP))
async def test_leave_group(broker: FakeBroker, version: int) -> None:
    member = await joined(broker)
    unknown = {"member_id": "x", "group_instance_id": None}
    if version >= 3:
        leaving = [{"member_id": member.member_id, "group_instance_id": None}, unknown]
        response = await broker.send(
            ApiKey.LEAVE_GROUP, version, group_id="boards", members=leaving
        )
        assert response.error_code is ErrorCode.none
        assert [entry.error_code for entry in response.members] == [
            ErrorCode.none,
            ErrorCode.unknown_member_id,
        ]
    else:
        for member_id, error in (
            ("x", ErrorCode.unknown_member_id),
            (member.member_id, ErrorCode.none),
        ):
            response = await broker.send(
                ApiKey.LEAVE_GROUP, version, group_id="boards", member_id=member_id
            )
            assert response.error_code is error
    described = await broker.send(
        ApiKey.DESCRIBE_GROUPS, 5, groups=["boards"], include_authorized_operations=False
    )
    assert described.groups[0].group_state == "Empty"


async def test_many_members_come_and_go_over_the_wire(broker: FakeBroker) -> None:
    first = await joined(broker)
    await sync(broker, 5, first)
    second = await join(broker, 9)
    waiting = join(broker, 9, member_id=second.member_id)
    leader = await join(broker, 9, member_id=first.member_id)
    follower = await waiting
    assert leader.generation_id == follower.generation_id == 2
    assert len(leader.members) == 2
    assert follower.members == ()
    follower_sync = sync(broker, 5, follower, assignments=[])
    shares = [
        {"member_id": leader.member_id, "assignment": b"a"},
        {"member_id": follower.member_id, "assignment": b"b"},
    ]
    assert (await sync(broker, 5, leader, assignments=shares)).assignment == b"a"
    assert (await follower_sync).assignment == b"b"


async def test_any_protocol_type_will_do(broker: FakeBroker) -> None:
    response = await joined(
        broker,
        protocol_type="connect",
        protocols=[{"name": "sessioned", "metadata": b"\0\1\2"}],
    )
    assert (response.protocol_type, response.protocol_name) == ("connect", "sessioned")
    other = await joined(broker)
    assert other.error_code is ErrorCode.inconsistent_group_protocol
