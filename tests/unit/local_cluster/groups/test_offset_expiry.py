"""Which committed offsets expire, by the state of their group, and when the group goes too."""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import Any

from local_cluster.coordinator_runtime.outcome import Now, Outcome, StoredRecord
from local_cluster.groups.consumer.requests import HeartbeatRequest
from local_cluster.groups.consumer.topics import TopicFacts
from local_cluster.groups.requests import (
    CommitRequest,
    GroupLimits,
    JoinRequest,
    LeaveRequest,
    LeavingMember,
    OffsetToCommit,
    SyncRequest,
    TransactionalCommitRequest,
)
from local_cluster.groups.shard import GroupShard
from tests.unit.local_cluster.groups.classic.test_subscription import subscription

HOUR_MS = 3_600_000
RETENTION_MS = 10 * HOUR_MS
LIMITS = GroupLimits(
    offsets_retention_ms=RETENTION_MS,
    group_initial_rebalance_delay_ms=0,
    group_max_session_timeout_ms=100 * RETENTION_MS,
)


class OneTopic:
    """A cluster with the topic "kept"."""

    version = 1
    facts = TopicFacts("kept", uuid.UUID(int=1), 1)

    def get(self, name: str) -> TopicFacts | None:
        return self.facts if name == "kept" else None

    def by_id(self, topic_id: uuid.UUID) -> TopicFacts | None:
        return self.facts if topic_id == self.facts.topic_id else None

    def names(self) -> tuple[str, ...]:
        return ("kept",)


class Scene:
    """A shard, its log, and the time in hours."""

    def __init__(self) -> None:
        limits = replace(
            LIMITS,
            consumer=replace(LIMITS.consumer, group_consumer_session_timeout_ms=100 * RETENTION_MS),
        )
        self.shard = GroupShard(limits, OneTopic())
        self.log: list[StoredRecord] = []
        self.hour = 0

    def now(self) -> Now:
        return Now(1_000_000_000 + self.hour * HOUR_MS, self.hour * HOUR_MS)

    def do(self, outcome: Outcome) -> Any:
        self.log += outcome.records
        return outcome.responses[0][1] if outcome.responses else None

    def commit(self, *topics: str, member: str = "", generation: int = -1, **more: Any) -> None:
        offsets = tuple(OffsetToCommit(topic, 0, 1, 0, None) for topic in topics)
        request = CommitRequest(
            "g", member, None, generation, offsets, knows_group_not_found=True, **more
        )
        errors = self.do(self.shard.commit_offsets(0, request, self.now()))
        assert not any(errors), errors

    def after(self, hours: int) -> list[str]:
        """Let time pass, expire offsets, and return the topics that still have some."""
        self.hour += hours
        self.do(self.shard.expire_offsets(self.now()))
        return sorted(topic for topic, _ in self.shard.state.offsets.partitions("g"))

    def join(self, protocol_type: str, *topics: str) -> str:
        joined = self.do(
            self.shard.join(
                0,
                JoinRequest(
                    *("g", "", "i", "c", "/h", 10 * RETENTION_MS, 60_000, protocol_type),
                    (("range", subscription(*topics)),),
                    "uuid",
                ),
                self.now(),
            )
        )
        sync = SyncRequest("g", joined.member_id, "i", joined.generation_id, None, None, ())
        self.do(self.shard.sync(0, sync, self.now()))
        return str(joined.member_id)

    def beat(self, epoch: int) -> None:
        owned: dict[uuid.UUID, frozenset[int]] | None = {} if epoch == 0 else None
        request = HeartbeatRequest(
            *("g", "m", epoch, None, None, 60_000, ("kept",), None, None, owned, "c", "/h"),
            lambda name: True,
        )
        assert not self.do(self.shard.consumer_heartbeat(0, request, self.now())).error

    def replayed(self) -> GroupShard:
        twin = GroupShard(LIMITS, OneTopic())
        for key, value in self.log:
            twin.replay(key, value)
        return twin


def test_offsets_of_simple_consumers_expire_from_their_commit() -> None:
    scene = Scene()
    scene.commit("kept", "dropped")
    scene.hour = 5
    scene.commit("kept")
    assert scene.after(4) == ["dropped", "kept"]
    assert scene.after(1) == ["kept"]
    assert scene.after(5) == []
    assert scene.shard.state.classic_groups == {}
    assert scene.replayed().state.offsets.group_ids() == []


def test_offsets_of_an_empty_group_expire_from_its_end() -> None:
    scene = Scene()
    member = scene.join("consumer", "kept")
    scene.commit("kept", member=member, generation=1)
    scene.hour = 20
    scene.do(scene.shard.leave(0, LeaveRequest("g", (LeavingMember(member, "i"),)), scene.now()))
    assert scene.after(9) == ["kept"]
    assert scene.after(1) == []
    assert "g" not in scene.shard.state.classic_groups
    assert scene.replayed().state.classic_groups == {}, "the group has a tombstone"


def test_unsubscribed_topics_of_a_stable_group_expire() -> None:
    scene = Scene()
    member = scene.join("consumer", "kept")
    scene.commit("kept", "dropped", member=member, generation=1)
    assert scene.after(9) == ["dropped", "kept"]
    assert scene.after(1) == ["kept"]
    assert scene.after(50) == ["kept"]


def test_offsets_of_other_stable_groups_do_not_expire() -> None:
    scene = Scene()
    member = scene.join("connect")
    scene.commit("kept", "dropped", member=member, generation=1)
    assert scene.after(50) == ["dropped", "kept"]


def test_a_group_of_the_consumer_protocol() -> None:
    scene = Scene()
    scene.beat(0)
    scene.commit("kept", "dropped", member="m", generation=1)
    assert scene.after(10) == ["kept"]
    scene.beat(-1)
    scene.commit("kept")
    assert scene.after(9) == ["kept"]
    assert scene.after(1) == []
    assert "g" not in scene.shard.state.consumer_groups
    assert "g" not in scene.replayed().state.consumer_groups


def test_a_commit_with_its_own_retention() -> None:
    scene = Scene()
    scene.commit("kept", retention_ms=2 * HOUR_MS)
    assert scene.after(1) == ["kept"]
    assert scene.after(1) == []


def test_offsets_with_a_pending_change_do_not_expire() -> None:
    scene = Scene()
    scene.commit("kept", "dropped")
    offsets = (OffsetToCommit("kept", 0, 2, 0, None),)
    request = TransactionalCommitRequest("g", "", None, -1, 7, 0, offsets)
    scene.do(scene.shard.commit_transactional(0, request, scene.now()))
    assert scene.after(10) == ["kept"]
    scene.shard.end_transaction(7, is_commit=False)
    assert scene.after(0) == []
