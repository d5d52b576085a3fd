"""The handlers of groups: versions, lookup, describe, list, authorization."""

from __future__ import annotations

import asyncio

import pytest

from local_cluster.controller.model.cluster_image import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from local_cluster.handlers.registry import find_handler
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import DEFAULT_MESSAGES, ErrorCode
from local_cluster.wire.messages import get
from tests.unit.local_cluster.groups.doubles import BROKER_ID, FakeBroker
from tests.unit.local_cluster.groups.group_requests import (
    SERVED,
    commit,
    fetch,
    fetched,
    join,
    joined,
    sync,
    versions,
)


@pytest.mark.parametrize("api", SERVED)
def test_the_served_versions(api: ApiKey) -> None:
    handler = find_handler(api)
    assert handler is not None
    assert (handler.min_version, handler.max_version) == SERVED[api]


@pytest.mark.parametrize("version", versions(ApiKey.FIND_COORDINATOR))
async def test_find_coordinator(broker: FakeBroker, version: int) -> None:
    fields = {"coordinator_keys": ["boards"]} if version >= 4 else {"key": "boards"}
    response = await broker.send(ApiKey.FIND_COORDINATOR, version, key_type=0, **fields)
    found = response.coordinators[0] if version >= 4 else response
    assert (found.node_id, found.host, found.port) == (BROKER_ID, "127.0.0.1", 9092)
    assert found.error_code is ErrorCode.none
    assert get(found, "key", "boards") == "boards"


async def test_find_coordinator_before_the_topic_exists() -> None:
    broker = FakeBroker()
    response = await broker.send(ApiKey.FIND_COORDINATOR, 2, key="boards", key_type=0)
    assert response.error_code is ErrorCode.coordinator_not_available
    assert response.node_id == -1
    await asyncio.sleep(0.01)
    assert broker.control_plane.created == [OFFSETS_TOPIC]


async def test_find_coordinator_of_a_transaction(broker: FakeBroker) -> None:
    response = await broker.send(ApiKey.FIND_COORDINATOR, 2, key="tx", key_type=1)
    assert response.error_code is ErrorCode.coordinator_not_available
    await asyncio.sleep(0)
    assert broker.control_plane.created == [TRANSACTIONS_TOPIC]
    broker.add_topic(TRANSACTIONS_TOPIC, 2)
    response = await broker.send(ApiKey.FIND_COORDINATOR, 2, key="tx", key_type=1)
    assert (response.error_code, response.node_id) == (ErrorCode.none, BROKER_ID)
    broker.denied.add(("DESCRIBE", "tx"))
    response = await broker.send(ApiKey.FIND_COORDINATOR, 2, key="tx", key_type=1)
    assert response.error_code is ErrorCode.transactional_id_authorization_failed


@pytest.mark.parametrize("version", versions(ApiKey.DESCRIBE_GROUPS))
async def test_describe_groups(broker: FakeBroker, version: int) -> None:
    member = await joined(broker, group_instance_id="i-1")
    await sync(broker, 5, member, group_instance_id="i-1")
    response = await broker.send(
        ApiKey.DESCRIBE_GROUPS,
        version,
        groups=["boards", "nobody"],
        include_authorized_operations=True,
    )
    group, nobody = response.groups
    assert (group.group_state, group.protocol_type, group.protocol_data) == (
        "Stable",
        "consumer",
        "range",
    )
    (described,) = group.members
    assert described.member_id == member.member_id
    assert get(described, "group_instance_id", "i-1") == "i-1"
    assert (described.client_id, described.client_host) == ("client", "/127.0.0.1")
    assert (described.member_metadata, described.member_assignment) == (b"sub", b"mine")
    assert get(group, "authorized_operations", 3400) == 3400
    if version >= 6:
        assert (nobody.group_state, nobody.error_code) == ("Dead", ErrorCode.group_id_not_found)
        assert nobody.error_message == "Group nobody not found."
        assert group.error_message is None
    else:
        assert (nobody.group_state, nobody.error_code) == ("Dead", ErrorCode.none)


@pytest.mark.parametrize("version", versions(ApiKey.LIST_GROUPS))
async def test_list_groups(broker: FakeBroker, version: int) -> None:
    await commit(broker, 8, ("flights", 0, 1), group_id="simple")
    await joined(broker)
    response = await broker.send(ApiKey.LIST_GROUPS, version)
    assert response.error_code is ErrorCode.none
    listed = {group.group_id: group for group in response.groups}
    assert {name: group.protocol_type for name, group in listed.items()} == {
        "boards": "consumer",
        "simple": "",
    }
    if version >= 4:
        assert listed["boards"].group_state == "CompletingRebalance"
        empty = await broker.send(ApiKey.LIST_GROUPS, version, states_filter=["empty"])
        assert [group.group_id for group in empty.groups] == ["simple"]
    if version >= 5:
        assert listed["boards"].group_type == "classic"
        modern = await broker.send(ApiKey.LIST_GROUPS, version, types_filter=["consumer"])
        assert modern.groups == ()


async def test_every_handler_authorizes(broker: FakeBroker) -> None:
    broker.denied = {("READ", "boards"), ("DESCRIBE", "boards"), ("DESCRIBE", "kafka-cluster")}
    denied = ErrorCode.group_authorization_failed
    member = {"group_id": "boards", "member_id": "m", "generation_id": 1}
    assert (await join(broker, 9)).error_code is denied
    sent = await broker.send(ApiKey.SYNC_GROUP, 4, **member, assignments=[])
    assert sent.error_code is denied
    assert (await broker.send(ApiKey.HEARTBEAT, 4, **member)).error_code is denied
    left = await broker.send(ApiKey.LEAVE_GROUP, 1, group_id="boards", member_id="m")
    assert left.error_code is denied
    refused = await commit(broker, 8, ("flights", 0, 1))
    assert refused.topics[0].partitions[0].error_code is denied
    assert (await fetch(broker, 5, None)).error_code is denied
    found = await broker.send(ApiKey.FIND_COORDINATOR, 2, key="boards", key_type=0)
    assert found.error_code is denied
    described = await broker.send(
        ApiKey.DESCRIBE_GROUPS, 5, groups=["boards"], include_authorized_operations=False
    )
    assert described.groups[0].error_code is denied


async def test_topics_are_authorized_one_by_one(broker: FakeBroker) -> None:
    broker.add_topic("secret", 1)
    await commit(broker, 8, ("flights", 0, 1), ("secret", 0, 2))
    broker.denied = {("READ", "secret"), ("DESCRIBE", "secret")}
    response = await commit(broker, 8, ("secret", 0, 3), ("flights", 0, 4))
    codes = {topic.name: topic.partitions[0].error_code for topic in response.topics}
    assert codes == {
        "secret": ErrorCode.topic_authorization_failed,
        "flights": ErrorCode.none,
    }
    assert fetched(5, await fetch(broker, 5, None)) == {("flights", 0): (4, "at 4")}
    response = await fetch(broker, 5, {"secret": [0], "flights": [0]})
    results = [
        (t.partitions[0].committed_offset, t.partitions[0].error_code) for t in response.topics
    ]
    assert results == [(-1, ErrorCode.topic_authorization_failed), (4, ErrorCode.none)]


async def test_the_messages_of_find_coordinator(broker: FakeBroker) -> None:
    """As Kafka's: a default text for one key, and for unknown types; else none."""
    one = await broker.send(ApiKey.FIND_COORDINATOR, 3, key="boards", key_type=0)
    assert one.error_message == "NONE"
    for key_type, message in ((0, ""), (2, ""), (3, DEFAULT_MESSAGES[ErrorCode.invalid_request])):
        many = await broker.send(
            ApiKey.FIND_COORDINATOR, 6, key_type=key_type, coordinator_keys=["boards"]
        )
        assert many.coordinators[0].error_message == message
