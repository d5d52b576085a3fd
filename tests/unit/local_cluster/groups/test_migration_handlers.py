"""Groups that change protocol, over the wire: who is served, who is refused and how."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

import local_cluster.handlers.all  # noqa: F401
from local_cluster.groups.consumer.embedded_protocol import encode_assignment, read_assignment
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode
from tests.support.classic_consumers import Claim, encode_subscription
from tests.unit.local_cluster.groups.doubles import FakeBroker
from tests.unit.local_cluster.groups.group_requests import commit, joined, sync
from tests.unit.local_cluster.groups.test_consumer_handlers import CONFIG, beat
from tests.unit.local_cluster.groups.test_consumer_handlers import join as join_by_heartbeat

SUBSCRIPTION = encode_subscription(["a", "b"], Claim(frozenset(), -1))
PARTS = {("a", index) for index in range(4)}


async def made(**config: str) -> FakeBroker:
    broker = FakeBroker(partitions=2, config=CONFIG | config)
    await broker.lead()
    broker.add_topic("a", 4)
    broker.add_topic("b", 2)
    return broker


@pytest.fixture
async def broker() -> AsyncIterator[FakeBroker]:
    broker = await made()
    yield broker
    await broker.groups.stop()


def protocols(metadata: bytes | None = None) -> list[dict[str, Any]]:
    known = SUBSCRIPTION if metadata is None else metadata
    return [{"name": "range", "metadata": known}]


async def classic_member(broker: FakeBroker, **changes: Any) -> Any:
    """A member of a classic group that has four partitions of topic a."""
    member = await joined(broker, **({"protocols": protocols()} | changes))
    assert member.error_code is ErrorCode.none
    held = encode_assignment(2, {"a": range(4)})
    assignments = [{"member_id": member.member_id, "assignment": held}]
    assert (await sync(broker, 5, member, assignments=assignments)).error_code is ErrorCode.none
    return member


def heartbeat(broker: FakeBroker, member: Any, **changes: Any) -> Any:
    fields = {
        "group_id": "boards",
        "member_id": member.member_id,
        "generation_id": member.generation_id,
        "group_instance_id": None,
    }
    return broker.send(ApiKey.HEARTBEAT, 4, **(fields | changes))


def newcomer(broker: FakeBroker, **changes: Any) -> Any:
    return join_by_heartbeat(broker, **({"subscribed_topic_names": ["a", "b"]} | changes))


async def test_a_consumer_member_joins_a_classic_group(broker: FakeBroker) -> None:
    member = await classic_member(broker)
    new = await newcomer(broker)
    assert new.error_code is ErrorCode.none
    assert new.member_epoch == member.generation_id + 1
    assert (await heartbeat(broker, member)).error_code is ErrorCode.rebalance_in_progress
    early = await sync(broker, 5, member)
    assert early.error_code is ErrorCode.rebalance_in_progress

    again = await joined(broker, member_id=member.member_id, protocols=protocols())
    assert (again.error_code, again.generation_id) == (ErrorCode.none, new.member_epoch)
    assert (again.leader, again.protocol_name) == ("", "range")
    wrong = await sync(broker, 5, again, protocol_name="other")
    assert wrong.error_code is ErrorCode.inconsistent_group_protocol
    synced = await sync(broker, 5, again)
    assert synced.error_code is ErrorCode.none
    kept = read_assignment(synced.assignment).partitions
    assert sum(map(len, kept.values())) == 3
    assert (await heartbeat(broker, again)).error_code is ErrorCode.none
    stale = await heartbeat(broker, member)
    assert stale.error_code is ErrorCode.illegal_generation
    own = {"member_id": "m-1", "member_epoch": new.member_epoch}
    stayed = await beat(broker, **own)
    held = [p for topic in stayed.assignment.topic_partitions for p in topic.partitions]
    assert len(held) == 3, "what the classic member has released"

    described = await broker.send(
        ApiKey.CONSUMER_GROUP_DESCRIBE,
        1,
        group_ids=["boards"],
        include_authorized_operations=False,
    )
    (group,) = described.groups
    assert {each.member_id: each.member_type for each in group.members} == {
        "m-1": 1,
        member.member_id: 0,
    }


async def test_the_group_is_classic_again_without_consumer_members(broker: FakeBroker) -> None:
    member = await classic_member(broker)
    new = await newcomer(broker)
    await beat(broker, member_id="m-1", member_epoch=-1)
    # The classic member never took part: its generation is still good for a last commit.
    assert (await heartbeat(broker, member)).error_code is ErrorCode.rebalance_in_progress
    again = await classic_member(broker, member_id=member.member_id)
    assert again.generation_id > new.member_epoch
    assert again.leader == again.member_id
    assert (await heartbeat(broker, member)).error_code is ErrorCode.illegal_generation
    refused = await beat(broker, member_id="m-1", member_epoch=new.member_epoch)
    assert refused.error_code is ErrorCode.group_id_not_found


@pytest.mark.parametrize("policy", ["disabled", "downgrade", "DISABLED"])
async def test_without_upgrade_the_newcomer_is_refused_at_once(policy: str) -> None:
    broker = await made(**{"group.consumer.migration.policy": policy})
    member = await classic_member(broker)
    refused = await newcomer(broker)
    assert refused.error_code is ErrorCode.group_id_not_found
    assert refused.error_message == (
        "Cannot upgrade classic group boards to consumer group because online upgrade is disabled."
    )
    assert (await heartbeat(broker, member)).error_code is ErrorCode.none
    await broker.groups.stop()


async def test_without_downgrade_the_group_stays_a_consumer_group() -> None:
    broker = await made(**{"group.consumer.migration.policy": "upgrade"})
    member = await classic_member(broker)
    await newcomer(broker)
    await beat(broker, member_id="m-1", member_epoch=-1)
    assert (await heartbeat(broker, member)).error_code is ErrorCode.rebalance_in_progress
    again = await joined(broker, member_id=member.member_id, protocols=protocols())
    synced = await sync(broker, 5, again)
    kept = read_assignment(synced.assignment).partitions
    assert {(name, index) for name, parts in kept.items() for index in parts} == (
        PARTS | {("b", 0), ("b", 1)}
    )
    await broker.groups.stop()


@pytest.mark.parametrize(
    ("kind", "metadata", "assignment", "code"),
    [
        ("connect", None, None, ErrorCode.group_id_not_found),
        ("consumer", b"\0", None, ErrorCode.group_id_not_found),
        ("consumer", None, b"\0\1\0", ErrorCode.group_id_not_found),
        (
            "consumer",
            None,
            encode_assignment(1, {})[:-4] + b"\0\0\0\1x",
            ErrorCode.unsupported_version,
        ),
    ],
)
async def test_groups_that_cannot_be_upgraded(
    broker: FakeBroker, kind: str, metadata: bytes | None, assignment: bytes, code: ErrorCode
) -> None:
    own: dict[str, Any] = {"protocol_type": kind, "protocols": protocols(metadata)}
    member = await joined(broker, **own)
    assignments = [{"member_id": member.member_id, "assignment": assignment or b""}]
    await sync(broker, 5, member, protocol_type=kind, assignments=assignments)
    refused = await newcomer(broker)
    assert refused.error_code is code
    assert "Cannot upgrade classic group boards" in refused.error_message
    assert (await heartbeat(broker, member)).error_code is ErrorCode.none


@pytest.mark.parametrize(
    "changes",
    [
        {"protocol_type": "connect"},
        {"protocols": [{"name": "sticky", "metadata": SUBSCRIPTION}]},
        {"protocols": [{"name": "range", "metadata": b"x"}]},
        {"protocols": []},
    ],
)
async def test_classic_members_that_do_not_fit_are_refused(
    broker: FakeBroker, changes: dict[str, Any]
) -> None:
    await classic_member(broker)
    await newcomer(broker)
    refused = await joined(broker, **({"protocols": protocols()} | changes))
    assert refused.error_code is ErrorCode.inconsistent_group_protocol


async def test_a_static_member_changes_its_protocol_and_back(broker: FakeBroker) -> None:
    static: dict[str, Any] = {"group_instance_id": "i-1"}
    member = await classic_member(broker, **static)
    new = await newcomer(broker, instance_id="i-1")
    assert new.error_code is ErrorCode.none
    held = [p for topic in new.assignment.topic_partitions for p in topic.partitions]
    assert len(held) == 6, "the new process has the place of the old one"
    fenced = await heartbeat(broker, member, **static)
    assert fenced.error_code is ErrorCode.fenced_instance_id
    back = await joined(broker, protocols=protocols(), **static)
    assert (back.error_code, back.generation_id) == (ErrorCode.none, new.member_epoch)
    synced = await sync(broker, 5, back, assignments=[], **static)
    assert synced.error_code is ErrorCode.none
    kept = read_assignment(synced.assignment).partitions
    assert sum(map(len, kept.values())) == 6, "no rebalance: the group is classic and stable"


async def test_classic_members_leave_and_commit(broker: FakeBroker) -> None:
    member = await classic_member(broker)
    await newcomer(broker)
    own = {
        "member_id": member.member_id,
        "generation_id_or_member_epoch": member.generation_id,
    }
    for version in (3, 9):
        answer = await commit(broker, version, ("a", 0, 5), **own)
        assert answer.topics[0].partitions[0].error_code is ErrorCode.none, version
    own["generation_id_or_member_epoch"] += 5
    answer = await commit(broker, 9, ("a", 0, 5), **own)
    assert answer.topics[0].partitions[0].error_code is ErrorCode.illegal_generation
    leaving = [
        {"member_id": member.member_id, "group_instance_id": None},
        {"member_id": "nobody", "group_instance_id": None},
    ]
    left = await broker.send(ApiKey.LEAVE_GROUP, 5, group_id="boards", members=leaving)
    assert [each.error_code for each in left.members] == [
        ErrorCode.none,
        ErrorCode.unknown_member_id,
    ]
    assert (await heartbeat(broker, member)).error_code is ErrorCode.unknown_member_id


async def test_leave_group_removes_members_of_both_protocols(broker: FakeBroker) -> None:
    await newcomer(broker, member_id="m-2")
    member = await joined(broker, protocols=protocols())
    await newcomer(broker, member_id="m-1", instance_id="i-1")
    leaving = [
        {"member_id": member.member_id, "group_instance_id": None},
        {"member_id": "m-1", "group_instance_id": "i-1"},
        {"member_id": "m-1", "group_instance_id": "i-1"},
    ]
    left = await broker.send(ApiKey.LEAVE_GROUP, 5, group_id="boards", members=leaving)
    assert [each.error_code for each in left.members] == [ErrorCode.none] * 3
    gone = await beat(broker, member_id="m-1", instance_id="i-1", member_epoch=2)
    assert gone.error_code is ErrorCode.unknown_member_id


@pytest.mark.parametrize(
    ("policy", "code"),
    [("disabled", ErrorCode.inconsistent_group_protocol), ("upgrade", ErrorCode.none)],
)
async def test_the_policy_disabled_keeps_classic_members_out(policy: str, code: ErrorCode) -> None:
    broker = await made(**{"group.consumer.migration.policy": policy})
    assert (await newcomer(broker)).error_code is ErrorCode.none
    assert (await joined(broker, protocols=protocols())).error_code is code
    await beat(broker, member_id="m-1", member_epoch=-1)
    if policy == "disabled":
        # Without members the group changes its protocol under every policy.
        assert (await joined(broker, protocols=protocols())).error_code is ErrorCode.none
    await broker.groups.stop()


async def test_a_static_member_returns_to_a_full_group_with_any_protocol() -> None:
    broker = await made(**{"group.consumer.max.size": "2"})
    static: dict[str, Any] = {"group_instance_id": "i-1"}
    assert (await newcomer(broker)).error_code is ErrorCode.none
    assert (await joined(broker, protocols=protocols(), **static)).error_code is ErrorCode.none
    full = ErrorCode.group_max_size_reached
    assert (await joined(broker, protocols=protocols())).error_code is full
    assert (await newcomer(broker, member_id="m-3")).error_code is full
    assert (await joined(broker, protocols=protocols(), **static)).error_code is ErrorCode.none
    back = await newcomer(broker, member_id="m-2", instance_id="i-1")
    assert back.error_code is ErrorCode.none
    await broker.groups.stop()


async def test_a_fetch_of_a_classic_member_has_its_generation(broker: FakeBroker) -> None:
    member = await classic_member(broker)
    await newcomer(broker)
    topic_id = broker.metadata.topics["a"].topic_id
    codes = []
    for generation in (member.generation_id, member.generation_id + 1):
        group = {
            "group_id": "boards",
            "member_id": member.member_id,
            "member_epoch": generation,
            "topics": [{"topic_id": topic_id, "partition_indexes": (0,)}],
        }
        answer = await broker.send(ApiKey.OFFSET_FETCH, 10, groups=[group], require_stable=False)
        codes.append(answer.groups[0].error_code)
    assert codes == [ErrorCode.none, ErrorCode.illegal_generation]


async def test_a_description_says_which_protocol_a_group_does_not_have(broker: FakeBroker) -> None:
    asked = {"include_authorized_operations": False}

    async def messages() -> tuple[str | None, str | None]:
        classic = await broker.send(ApiKey.DESCRIBE_GROUPS, 6, groups=["boards"], **asked)
        consumer = await broker.send(
            ApiKey.CONSUMER_GROUP_DESCRIBE, 1, group_ids=["boards"], **asked
        )
        return classic.groups[0].error_message, consumer.groups[0].error_message

    assert await messages() == ("Group boards not found.", "Group boards not found.")
    await classic_member(broker)
    assert await messages() == (None, "Group boards is not a consumer group.")
    await newcomer(broker)
    assert await messages() == ("Group boards is not a classic group.", None)
