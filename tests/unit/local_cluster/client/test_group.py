"""Group membership against a scripted coordinator."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from local_cluster.client.group import (
    GroupAssignment,
    GroupFencedError,
    GroupMember,
    GroupMembership,
    GroupOptions,
)
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, KafkaError


class Coordinator:
    """Answers each request by the next entry of its script for that API, the last one for ever."""

    def __init__(self, **scripts: list[Any]) -> None:
        self.scripts = scripts
        self.asked: list[tuple[ApiKey, dict[str, Any]]] = []

    async def call_coordinator(
        self, group_id: str, api: ApiKey, fields: Any, *, timeout_ms: int | None = None
    ) -> Any:
        await asyncio.sleep(0)
        self.asked.append((api, dict(fields)))
        script = self.scripts[api.name.lower()]
        answer = script.pop(0) if len(script) > 1 else script[0]
        if isinstance(answer, KafkaError):
            raise answer
        return answer(fields) if callable(answer) else answer

    def requests(self, api: ApiKey) -> list[dict[str, Any]]:
        return [fields for asked, fields in self.asked if asked == api]


def joined(member_id: str = "m1", leader: str = "m1", generation_id: int = 1) -> SimpleNamespace:
    members = [SimpleNamespace(member_id=leader, group_instance_id=None, metadata=b"meta")]
    return SimpleNamespace(
        error_code=0, member_id=member_id, leader=leader, generation_id=generation_id,
        members=members if member_id == leader else [],
    )  # fmt: skip


def refused(code: ErrorCode, member_id: str = "") -> SimpleNamespace:
    return SimpleNamespace(error_code=code, member_id=member_id)


SYNCED = SimpleNamespace(error_code=0, assignment=b"mine")
ALIVE = SimpleNamespace(error_code=0)


class Member:
    def __init__(self, coordinator: Coordinator, **options: Any) -> None:
        self.assignments: list[GroupAssignment] = []
        self.arrived = asyncio.Event()
        self.membership = GroupMembership(
            coordinator,
            GroupOptions(
                group_id="g", protocol_type="p", protocol_name="n", heartbeat_ms=5, **options
            ),
            metadata=lambda: b"meta",
            assign=self._assign,
            on_assignment=self._take,
        )

    def _assign(self, members: Sequence[GroupMember]) -> dict[str, bytes]:
        return {member.member_id: b"for " + member.metadata for member in members}

    async def _take(self, assignment: GroupAssignment) -> None:
        self.assignments.append(assignment)
        self.arrived.set()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not condition():
            await asyncio.sleep(0.001)


@pytest.fixture
async def tasks() -> Any:
    started: list[asyncio.Task[None]] = []

    def start(member: Member) -> asyncio.Task[None]:
        started.append(asyncio.create_task(member.membership.run()))
        return started[-1]

    yield start
    for task in started:
        task.cancel()
    await asyncio.gather(*started, return_exceptions=True)


async def test_a_member_id_is_asked_for_and_the_leader_assigns(tasks: Any) -> None:
    coordinator = Coordinator(
        join_group=[refused(ErrorCode.member_id_required, "m1"), joined()],
        sync_group=[SYNCED],
        heartbeat=[ALIVE],
    )
    member = Member(coordinator)
    tasks(member)
    await until(lambda: bool(member.assignments))
    assert member.assignments == [GroupAssignment(1, "m1", b"mine")]
    assert [r["member_id"] for r in coordinator.requests(ApiKey.JOIN_GROUP)] == ["", "m1"]
    (sync,) = coordinator.requests(ApiKey.SYNC_GROUP)
    assert sync["assignments"] == [{"member_id": "m1", "assignment": b"for meta"}]
    assert member.membership.is_leader
    assert member.membership.is_lease_valid()


async def test_a_follower_assigns_nothing(tasks: Any) -> None:
    coordinator = Coordinator(
        join_group=[joined(leader="other")], sync_group=[SYNCED], heartbeat=[ALIVE]
    )
    member = Member(coordinator)
    tasks(member)
    await until(lambda: bool(member.assignments))
    assert coordinator.requests(ApiKey.SYNC_GROUP)[0]["assignments"] == []
    assert not member.membership.is_leader


async def test_a_rebalance_makes_the_member_join_again_with_its_id(tasks: Any) -> None:
    coordinator = Coordinator(
        join_group=[joined(), joined(generation_id=2)],
        sync_group=[SYNCED],
        heartbeat=[ALIVE, refused(ErrorCode.rebalance_in_progress), ALIVE],
    )
    member = Member(coordinator)
    tasks(member)
    await until(lambda: len(member.assignments) == 2)
    assert coordinator.requests(ApiKey.JOIN_GROUP)[1]["member_id"] == "m1"
    assert member.membership.generation_id == 2


async def test_the_owner_can_ask_for_a_rebalance(tasks: Any) -> None:
    coordinator = Coordinator(join_group=[joined()], sync_group=[SYNCED], heartbeat=[ALIVE])
    member = Member(coordinator)
    tasks(member)
    await until(lambda: len(member.assignments) == 1)
    member.membership.rejoin()
    await until(lambda: len(member.assignments) == 2)


async def test_an_unknown_member_joins_as_a_new_one(tasks: Any) -> None:
    coordinator = Coordinator(
        join_group=[joined(), joined("m2", "m2")],
        sync_group=[SYNCED],
        heartbeat=[refused(ErrorCode.unknown_member_id), ALIVE],
    )
    member = Member(coordinator)
    tasks(member)
    await until(lambda: len(member.assignments) == 2)
    assert coordinator.requests(ApiKey.JOIN_GROUP)[1]["member_id"] == ""
    assert member.membership.member_id == "m2"


async def test_one_unanswered_heartbeat_loses_nothing(tasks: Any) -> None:
    coordinator = Coordinator(
        join_group=[joined()],
        sync_group=[SYNCED],
        heartbeat=[KafkaError(ErrorCode.network_exception), ALIVE],
    )
    member = Member(coordinator)
    tasks(member)
    await until(lambda: len(coordinator.requests(ApiKey.HEARTBEAT)) > 3)
    assert len(coordinator.requests(ApiKey.JOIN_GROUP)) == 1
    assert member.membership.failure is None


async def test_the_lease_runs_out_without_answers(tasks: Any) -> None:
    coordinator = Coordinator(
        join_group=[joined()],
        sync_group=[SYNCED],
        heartbeat=[KafkaError(ErrorCode.network_exception, "away")],
    )
    member = Member(coordinator, session_timeout_ms=30)
    tasks(member)
    await until(lambda: bool(member.assignments))
    await until(lambda: not member.membership.is_lease_valid())
    assert "away" in (member.membership.failure or "")


async def test_a_process_is_fenced_by_another_with_its_instance_id(tasks: Any) -> None:
    coordinator = Coordinator(
        join_group=[joined()],
        sync_group=[SYNCED],
        heartbeat=[refused(ErrorCode.fenced_instance_id)],
    )
    member = Member(coordinator, group_instance_id="w1")
    with pytest.raises(GroupFencedError, match="w1"):
        await tasks(member)
    assert coordinator.requests(ApiKey.JOIN_GROUP)[0]["group_instance_id"] == "w1"


async def test_leaving_names_the_instance_and_ends_the_lease(tasks: Any) -> None:
    coordinator = Coordinator(
        join_group=[joined()], sync_group=[SYNCED], heartbeat=[ALIVE], leave_group=[ALIVE]
    )
    member = Member(coordinator, group_instance_id="w1")
    tasks(member)
    await until(lambda: bool(member.assignments))
    await member.membership.leave()
    (left,) = coordinator.requests(ApiKey.LEAVE_GROUP)
    assert left["members"][0]["group_instance_id"] == "w1"
    assert not member.membership.is_lease_valid()
