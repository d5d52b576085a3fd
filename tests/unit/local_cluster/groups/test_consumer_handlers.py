"""ConsumerGroupHeartbeat and ConsumerGroupDescribe over the wire, and other APIs on such groups."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from typing import Any

import pytest

import local_cluster.handlers.all  # noqa: F401
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode
from tests.unit.local_cluster.groups.doubles import FakeBroker

CONFIG = {
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.assignment.interval.ms": "0",
    "group.consumer.heartbeat.interval.ms": "300",
}


@pytest.fixture
async def broker() -> AsyncIterator[FakeBroker]:
    made = FakeBroker(partitions=2, config=CONFIG)
    await made.lead()
    made.add_topic("flights", 4)
    yield made
    await made.groups.stop()


def beat(broker: FakeBroker, version: int = 1, **changes: Any) -> asyncio.Task[Any]:
    fields: dict[str, Any] = {
        "group_id": "boards",
        "member_id": "m-1",
        "member_epoch": 0,
        "instance_id": None,
        "rack_id": None,
        "rebalance_timeout": -1,
        "subscribed_topic_names": None,
        "server_assignor": None,
        "topic_partitions": None,
    }
    return broker.send(ApiKey.CONSUMER_GROUP_HEARTBEAT, version, **(fields | changes))


def join(broker: FakeBroker, version: int = 1, **changes: Any) -> asyncio.Task[Any]:
    first = {
        "rebalance_timeout": 60_000,
        "subscribed_topic_names": ["flights"],
        "topic_partitions": [],
    }
    return beat(broker, version, **(first | changes))


def partitions(response: Any) -> dict[uuid.UUID, tuple[int, ...]]:
    return {topic.topic_id: topic.partitions for topic in response.assignment.topic_partitions}


@pytest.mark.parametrize("version", [0, 1])
async def test_join_stay_and_leave(broker: FakeBroker, version: int) -> None:
    member_id = "" if version == 0 else "m-1"
    joined = await join(broker, version, member_id=member_id)
    assert joined.error_code is ErrorCode.none
    assert joined.heartbeat_interval.total_seconds() == 0.3
    assert joined.member_epoch == 1
    assert joined.member_id if version == 0 else joined.member_id == "m-1"
    topic_id = broker.metadata.topics["flights"].topic_id
    assert partitions(joined) == {topic_id: (0, 1, 2, 3)}
    own = {"member_id": joined.member_id, "member_epoch": 1}
    stayed = await beat(broker, version, **own)
    assert (stayed.error_code, stayed.member_epoch, stayed.assignment) == (0, 1, None)
    left = await beat(broker, version, **(own | {"member_epoch": -1}))
    assert (left.error_code, left.member_epoch) == (0, -1)
    gone = await beat(broker, version, **own)
    assert gone.error_code is ErrorCode.unknown_member_id
    assert gone.error_message


async def join_error(broker: FakeBroker, **changes: Any) -> ErrorCode:
    """Return the error of a join."""
    code: ErrorCode = (await join(broker, **changes)).error_code
    return code


async def test_invalid_requests(broker: FakeBroker) -> None:
    invalid = ErrorCode.invalid_request
    assert await join_error(broker, group_id="") is invalid
    assert await join_error(broker, member_id="") is invalid
    assert await join_error(broker, instance_id="") is invalid
    assert await join_error(broker, rebalance_timeout=-1) is invalid
    assert await join_error(broker, topic_partitions=None) is invalid
    assert await join_error(broker, subscribed_topic_names=None) is invalid
    assert await join_error(broker, member_epoch=-3) is invalid
    assert await join_error(broker, member_epoch=-2) is invalid
    assert await join_error(broker, server_assignor="nope") is ErrorCode.unsupported_assignor
    regex = {"subscribed_topic_names": None, "subscribed_topic_regex": "("}
    assert await join_error(broker, **regex) is ErrorCode.invalid_regular_expression
    assert await join_error(broker, member_epoch=1) is ErrorCode.group_id_not_found
    assert broker.groups.list_groups()[1] == []


async def test_an_invalid_request_is_invalid_at_any_broker() -> None:
    broker = FakeBroker()  # no coordinator of any group
    elsewhere = await join(broker)
    assert (elsewhere.error_code, elsewhere.error_message) == (ErrorCode.not_coordinator, None)
    refused = await join(broker, instance_id="")
    assert refused.error_code is ErrorCode.invalid_request
    assert refused.error_message == "InstanceId can't be empty."


async def test_fenced_epochs(broker: FakeBroker) -> None:
    await join(broker)
    assert (await beat(broker, member_epoch=2)).error_code is ErrorCode.fenced_member_epoch
    await join(broker, member_id="m-2")
    topic_id = broker.metadata.topics["flights"].topic_id
    owns_all = [{"topic_id": topic_id, "partitions": (0, 1, 2, 3)}]
    revoking = await beat(broker, member_epoch=1, topic_partitions=owns_all)
    assert revoking.member_epoch == 1
    (left,) = revoking.assignment.topic_partitions
    assert len(left.partitions) == 2
    owns_half = [{"topic_id": topic_id, "partitions": left.partitions}]
    moved = await beat(broker, member_epoch=1, topic_partitions=owns_half)
    assert moved.member_epoch == 2
    # After a lost response the member may repeat its previous epoch with what it owns.
    repeated = await beat(broker, member_epoch=1, topic_partitions=owns_half)
    assert (repeated.error_code, repeated.member_epoch) == (ErrorCode.none, 2)
    stale = await beat(broker, member_epoch=1, topic_partitions=owns_all)
    assert stale.error_code is ErrorCode.fenced_member_epoch
    assert (await join(broker)).error_code is ErrorCode.none, "with epoch 0 it may rejoin"


async def test_a_member_that_waits_for_partitions_sends_its_next_heartbeat_sooner() -> None:
    broker = FakeBroker(
        partitions=2, config=CONFIG | {"group.consumer.heartbeat.interval.ms": "5000"}
    )
    await broker.lead()
    broker.add_topic("flights", 4)
    topic_id = broker.metadata.topics["flights"].topic_id
    assert (await join(broker)).heartbeat_interval.total_seconds() == 5.0
    waiting = await join(broker, member_id="m-2")
    assert (waiting.member_epoch, waiting.heartbeat_interval.total_seconds()) == (2, 0.5)
    revoking = await beat(broker, member_epoch=1)
    assert revoking.heartbeat_interval.total_seconds() == 5.0, "it waits for nobody"
    half = revoking.assignment.topic_partitions[0].partitions
    await beat(
        broker, member_epoch=1, topic_partitions=[{"topic_id": topic_id, "partitions": half}]
    )
    given = await beat(broker, member_id="m-2", member_epoch=2)
    assert len(partitions(given)[topic_id]) == 2
    assert given.heartbeat_interval.total_seconds() == 5.0
    await broker.groups.stop()


async def test_static_members(broker: FakeBroker) -> None:
    first = await join(broker, instance_id="i")
    other: dict[str, Any] = {"member_id": "m-2", "instance_id": "i"}
    assert await join_error(broker, **other) is ErrorCode.unreleased_instance_id
    fenced = await beat(broker, member_epoch=1, **other)
    assert fenced.error_code is ErrorCode.fenced_instance_id
    unknown = await beat(broker, member_epoch=1, instance_id="x")
    assert unknown.error_code is ErrorCode.unknown_member_id
    left = await beat(broker, member_epoch=-2, instance_id="i")
    assert (left.error_code, left.member_epoch) == (ErrorCode.none, -2)
    back = await join(broker, **other)
    assert partitions(back) == partitions(first)
    assert back.member_epoch == 1, "no partition moved"
    late = await beat(broker, member_epoch=1, instance_id="i")
    assert late.error_code is ErrorCode.fenced_instance_id


async def test_commits_and_fetches_check_the_member_epoch(broker: FakeBroker) -> None:
    await join(broker)
    topic_id = broker.metadata.topics["flights"].topic_id

    async def commit(
        epoch: int, member_id: str = "m-1", version: int = 10, partition: int = 0
    ) -> ErrorCode:
        entry = {"partition_index": partition, "committed_offset": 5, "committed_metadata": ""}
        named = {"topic_id": topic_id} if version >= 10 else {"name": "flights"}
        response = await broker.send(
            ApiKey.OFFSET_COMMIT,
            version,
            group_id="boards",
            member_id=member_id,
            generation_id_or_member_epoch=epoch,
            topics=[{**named, "partitions": [entry]}],
        )
        code: ErrorCode = response.topics[0].partitions[0].error_code
        return code

    assert await commit(1) is ErrorCode.none
    assert await commit(2) is ErrorCode.stale_member_epoch
    assert await commit(0) is ErrorCode.stale_member_epoch
    assert await commit(1, "x") is ErrorCode.unknown_member_id
    assert await commit(-1, "") is ErrorCode.unknown_member_id
    assert await commit(1, version=8) is ErrorCode.unsupported_version
    assert await commit(-1, version=8) is ErrorCode.unsupported_version
    assert await commit(1, "x", version=8) is ErrorCode.unknown_member_id, "so that it rejoins"

    # With an older epoch a member commits what it has held since, also while it gives it up.
    await join(broker, member_id="m-2", subscribed_topic_names=["departures"])
    assert (await beat(broker, member_epoch=1)).member_epoch == 2
    await join(broker, member_id="m-3")
    revoking = await beat(broker, member_epoch=2)
    assert (revoking.member_epoch, len(partitions(revoking)[topic_id])) == (2, 2)
    codes = {await commit(epoch, partition=index) for epoch in (1, 2) for index in range(4)}
    assert codes == {ErrorCode.none}
    assert await commit(0) is ErrorCode.stale_member_epoch

    async def fetch(epoch: int, member_id: str | None) -> ErrorCode:
        group = {
            "group_id": "boards",
            "member_id": member_id,
            "member_epoch": epoch,
            "topics": [{"topic_id": topic_id, "partition_indexes": (0,)}],
        }
        response = await broker.send(ApiKey.OFFSET_FETCH, 10, groups=[group], require_stable=False)
        code: ErrorCode = response.groups[0].error_code
        return code

    assert await fetch(2, "m-1") is ErrorCode.none
    assert await fetch(0, "m-1") is ErrorCode.stale_member_epoch
    assert await fetch(1, "x") is ErrorCode.unknown_member_id
    assert await fetch(-1, None) is ErrorCode.none


async def test_listing_describing_and_deleting_a_group(broker: FakeBroker) -> None:
    await join(broker)
    await join(broker, member_id="m-2", subscribed_topic_names=[], subscribed_topic_regex="fl.*")
    (listed,) = (await broker.send(ApiKey.LIST_GROUPS, 5, types_filter=["Consumer"])).groups
    assert (listed.group_id, listed.protocol_type, listed.group_type) == (
        "boards",
        "consumer",
        "consumer",
    )
    assert listed.group_state == "Reconciling"
    described = await broker.send(
        ApiKey.CONSUMER_GROUP_DESCRIBE,
        1,
        group_ids=["boards", "nobody"],
        include_authorized_operations=True,
    )
    group, nobody = described.groups
    assert nobody.error_code is ErrorCode.group_id_not_found
    assert (group.group_state, group.group_epoch, group.assignment_epoch) == ("Reconciling", 2, 2)
    assert (group.assignor_name, group.authorized_operations) == ("uniform", 3400)
    first, second = sorted(group.members, key=lambda member: str(member.member_id))
    assert (first.subscribed_topic_names, second.subscribed_topic_regex) == (("flights",), "fl.*")
    assert len(first.assignment.topic_partitions[0].partitions) == 4
    assert len(first.target_assignment.topic_partitions[0].partitions) == 2
    assert (first.client_host, first.member_type) == ("/127.0.0.1", 1)
    classic = await broker.send(
        ApiKey.DESCRIBE_GROUPS, 6, groups=["boards"], include_authorized_operations=False
    )
    assert classic.groups[0].error_code is ErrorCode.group_id_not_found
    deleted = await broker.send(ApiKey.DELETE_GROUPS, 2, groups_names=["boards"])
    assert deleted.results[0].error_code is ErrorCode.non_empty_group
    for member_id in ("m-1", "m-2"):
        await beat(broker, member_id=member_id, member_epoch=-1)
    deleted = await broker.send(ApiKey.DELETE_GROUPS, 2, groups_names=["boards"])
    assert deleted.results[0].error_code is ErrorCode.none
    assert broker.groups.list_groups()[1] == []


async def test_a_group_id_changes_its_protocol_without_members(broker: FakeBroker) -> None:
    protocols = [{"name": "range", "metadata": b"sub"}]
    classic = {
        "group_id": "boards",
        "session_timeout": 10_000,
        "rebalance_timeout": 60_000,
        "member_id": "",
        "group_instance_id": "i",
        "protocol_type": "consumer",
        "protocols": protocols,
    }
    joined = await broker.send(ApiKey.JOIN_GROUP, 9, **classic)
    assert joined.error_code is ErrorCode.none
    assert await join_error(broker) is ErrorCode.group_id_not_found
    leaving = [{"member_id": joined.member_id, "group_instance_id": "i"}]
    await broker.send(ApiKey.LEAVE_GROUP, 5, group_id="boards", members=leaving)
    assert await join_error(broker) is ErrorCode.none
    refused = await broker.send(ApiKey.JOIN_GROUP, 9, **classic)
    assert refused.error_code is ErrorCode.inconsistent_group_protocol
    beaten = await broker.send(
        ApiKey.HEARTBEAT, 4, group_id="boards", generation_id=1, member_id="m-1"
    )
    assert beaten.error_code is ErrorCode.unknown_member_id
    await beat(broker, member_epoch=-1)
    assert (await broker.send(ApiKey.JOIN_GROUP, 9, **classic)).error_code is ErrorCode.none


async def test_targets_are_computed_once_per_interval() -> None:
    broker = FakeBroker(
        partitions=1, config={**CONFIG, "group.consumer.assignment.interval.ms": "60000"}
    )
    await broker.lead()
    broker.add_topic("flights", 4)
    assert (await join(broker)).member_epoch == 1
    late = await join(broker, member_id="m-2")
    assert (late.member_epoch, late.assignment.topic_partitions) == (1, ())
    for member_id in ("m-1", "m-2"):
        await beat(broker, member_id=member_id, member_epoch=-1)
    again = await join(broker)
    (given,) = partitions(again).values()
    assert len(given) == 4, "an empty group has no interval"
    await broker.groups.stop()


async def test_another_assignor_makes_a_new_target(broker: FakeBroker) -> None:
    await join(broker)
    for epoch in (1, 2):
        changed = await beat(broker, member_epoch=epoch, server_assignor="range")
        assert changed.member_epoch == 2, "the second time nothing changes"
    await join(broker, member_id="m-2")
    default = await beat(broker, member_epoch=2, server_assignor="uniform")
    assert default.error_code is ErrorCode.none
    described = await broker.send(
        ApiKey.CONSUMER_GROUP_DESCRIBE,
        1,
        group_ids=["boards"],
        include_authorized_operations=False,
    )
    assert (described.groups[0].group_epoch, described.groups[0].assignor_name) == (4, "uniform")


async def test_topics_without_describe_rights_are_hidden(broker: FakeBroker) -> None:
    broker.add_topic("fleet", 2)
    broker.denied = {("DESCRIBE", "fleet")}
    named = await join(broker, subscribed_topic_names=["fleet"])
    assert named.error_code is ErrorCode.topic_authorization_failed
    matched = await join(broker, subscribed_topic_names=None, subscribed_topic_regex="fl.*")
    assert list(partitions(matched)) == [broker.metadata.topics["flights"].topic_id]
    described = await broker.send(
        ApiKey.CONSUMER_GROUP_DESCRIBE,
        1,
        group_ids=["boards"],
        include_authorized_operations=False,
    )
    assert described.groups[0].error_code is ErrorCode.none
    broker.denied = {("DESCRIBE", "flights")}
    described = await broker.send(
        ApiKey.CONSUMER_GROUP_DESCRIBE,
        1,
        group_ids=["boards"],
        include_authorized_operations=False,
    )
    assert described.groups[0].error_code is ErrorCode.topic_authorization_failed
    assert described.groups[0].members == ()
    broker.denied = {("READ", "boards")}
    assert await join_error(broker) is ErrorCode.group_authorization_failed


async def test_a_revocation_is_repeated_until_confirmed(
    broker: FakeBroker,
) -> None:
    await join(broker)
    await join(broker, member_id="m-2")
    first = await beat(broker, member_epoch=1)  # its response may have been lost
    again = await beat(broker, member_epoch=1)
    assert partitions(again) == partitions(first)
    (mine,) = first.assignment.topic_partitions
    owned = [{"topic_id": mine.topic_id, "partitions": mine.partitions}]
    assert (await beat(broker, member_epoch=1, topic_partitions=owned)).member_epoch == 2
    assert (await beat(broker, member_epoch=2)).assignment is None
