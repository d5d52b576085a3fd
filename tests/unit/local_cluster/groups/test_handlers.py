"""The nine handlers over the wire format, at every version that they serve."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from typing import Any

import pytest

import local_cluster.handlers.p08_offset_commit
import local_cluster.handlers.p09_offset_fetch
import local_cluster.handlers.p10_find_coordinator
import local_cluster.handlers.p11_join_group
import local_cluster.handlers.p12_heartbeat
import local_cluster.handlers.p13_leave_group
import local_cluster.handlers.p14_sync_group
import local_cluster.handlers.p15_describe_groups
import local_cluster.handlers.p16_list_groups  # noqa: F401
from local_cluster.controller.model import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from local_cluster.handlers.registry import find_handler
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode
from local_cluster.wire.messages import get
from tests.unit.local_cluster.groups.doubles import BROKER_ID, FakeBroker

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


@pytest.fixture
async def broker() -> AsyncIterator[FakeBroker]:
    made = FakeBroker(partitions=2, config={"group.initial.rebalance.delay.ms": "0"})
    await made.lead()
    made.add_topic("flights", 4)
    yield made
    await made.groups.stop()


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
    answer = await join(broker, version, **changes)
    if answer.error_code is ErrorCode.member_id_required:
        answer = await join(broker, version, **(changes | {"member_id": answer.member_id}))
    return answer


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
    asked = (
        None
        if topics is None
        else [
            {**named(broker, version, name), "partition_indexes": indexes}
            for name, indexes in topics.items()
        ]
    )
    if version >= 8:
        groups = [{"group_id": group, "topics": asked}]
        return broker.send(ApiKey.OFFSET_FETCH, version, groups=groups, require_stable=True)
    return broker.send(
        ApiKey.OFFSET_FETCH, version, group_id=group, topics=asked, require_stable=True
    )


def named(broker: FakeBroker, version: int, topic: str) -> dict[str, Any]:
    """A topic as a request names it; from v10 on by an id, which for "nowhere" is nobody's."""
    if version < 10:
        return {"name": topic}
    known = broker.metadata.topics.get(topic)
    return {"topic_id": NOWHERE if known is None else known.topic_id}


def name_of(broker: FakeBroker, topic: Any) -> str:
    """The other way round, in an answer."""
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


@pytest.mark.parametrize("api", SERVED)
def test_the_served_versions(api: ApiKey) -> None:
    handler = find_handler(api)
    assert handler is not None
    assert (handler.min_version, handler.max_version) == SERVED[api]


# -- FindCoordinator ------------------------------------------------------------------------


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


# -- JoinGroup, SyncGroup, Heartbeat, LeaveGroup --------------------------------------------


@pytest.mark.parametrize("version", versions(ApiKey.JOIN_GROUP))
async def test_join_group(broker: FakeBroker, version: int) -> None:
    answer = await join(broker, version)
    if version >= 4:
        assert answer.error_code is ErrorCode.member_id_required
        answer = await join(broker, version, member_id=answer.member_id)
    assert answer.error_code is ErrorCode.none
    assert answer.generation_id == 1
    assert answer.protocol_name == "range"
    assert get(answer, "protocol_type", "consumer") == "consumer"
    assert answer.leader == answer.member_id
    assert answer.member_id.startswith("client-")
    assert [(m.member_id, m.metadata) for m in answer.members] == [(answer.member_id, b"sub")]


@pytest.mark.parametrize("version", versions(ApiKey.JOIN_GROUP))
async def test_a_refused_join_is_encodable_at_every_version(
    broker: FakeBroker, version: int
) -> None:
    answer = await join(broker, version, session_timeout=1)
    assert answer.error_code is ErrorCode.invalid_session_timeout
    answer = await join(broker, version, group_id="")
    assert answer.error_code is ErrorCode.invalid_group_id
    assert answer.members == ()


@pytest.mark.parametrize("version", versions(ApiKey.SYNC_GROUP))
async def test_sync_group(broker: FakeBroker, version: int) -> None:
    member = await joined(broker)
    answer = await sync(broker, version, member)
    assert answer.error_code is ErrorCode.none
    assert answer.assignment == b"mine"
    assert get(answer, "protocol_type", "consumer") == "consumer"
    assert get(answer, "protocol_name", "range") == "range"
    stale = await sync(broker, version, member, generation_id=0)
    assert stale.error_code is ErrorCode.illegal_generation
    assert stale.assignment == b""


async def test_sync_group_v5_has_to_name_the_protocol(broker: FakeBroker) -> None:
    member = await joined(broker)
    for changes in ({"protocol_type": None}, {"protocol_name": "sticky"}):
        answer = await sync(broker, 5, member, **changes)
        assert answer.error_code is ErrorCode.inconsistent_group_protocol


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
        answer = await broker.send(ApiKey.HEARTBEAT, version, **(fields | changes))
        code: ErrorCode = answer.error_code
        return code

    assert await beat() is ErrorCode.none
    assert await beat(generation_id=0) is ErrorCode.illegal_generation
    assert await beat(member_id="x") is ErrorCode.unknown_member_id
    waiting = join(broker, 3)
    assert await beat() is ErrorCode.rebalance_in_progress
    waiting.cancel()


@pytest.mark.parametrize("version", versions(ApiKey.LEAVE_GROUP))
async def test_leave_group(broker: FakeBroker, version: int) -> None:
    member = await joined(broker)
    unknown = {"member_id": "x", "group_instance_id": None}
    if version >= 3:
        leaving = [{"member_id": member.member_id, "group_instance_id": None}, unknown]
        answer = await broker.send(ApiKey.LEAVE_GROUP, version, group_id="boards", members=leaving)
        assert answer.error_code is ErrorCode.none
        assert [entry.error_code for entry in answer.members] == [
            ErrorCode.none,
            ErrorCode.unknown_member_id,
        ]
    else:
        for member_id, error in (
            ("x", ErrorCode.unknown_member_id),
            (member.member_id, ErrorCode.none),
        ):
            answer = await broker.send(
                ApiKey.LEAVE_GROUP, version, group_id="boards", member_id=member_id
            )
            assert answer.error_code is error
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
    answer = await joined(
        broker,
        protocol_type="connect",
        protocols=[{"name": "sessioned", "metadata": b"\0\1\2"}],
    )
    assert (answer.protocol_type, answer.protocol_name) == ("connect", "sessioned")
    other = await joined(broker)
    assert other.error_code is ErrorCode.inconsistent_group_protocol


# -- OffsetCommit, OffsetFetch --------------------------------------------------------------


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


@pytest.mark.parametrize("version", versions(ApiKey.OFFSET_FETCH))
async def test_offset_fetch_elsewhere(version: int) -> None:
    broker = FakeBroker()
    response = await fetch(broker, version, {"flights": [0, 1]})
    if version >= 8:
        assert response.groups[0].error_code is ErrorCode.not_coordinator
    elif version >= 2:
        assert response.error_code is ErrorCode.not_coordinator
    else:
        codes = [p.error_code for topic in response.topics for p in topic.partitions]
        assert codes == [ErrorCode.not_coordinator] * 2


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


# -- DescribeGroups, ListGroups -------------------------------------------------------------


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
    assert get(group, "authorized_operations", 328) == 328
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


# -- authorization --------------------------------------------------------------------------


async def test_every_handler_asks_before_it_answers(broker: FakeBroker) -> None:
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
    asked = await fetch(broker, 5, {"secret": [0], "flights": [0]})
    told = [(t.partitions[0].committed_offset, t.partitions[0].error_code) for t in asked.topics]
    assert told == [(-1, ErrorCode.topic_authorization_failed), (4, ErrorCode.none)]
