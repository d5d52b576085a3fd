"""KIP-848 groups under random members: a partition has one holder, and the group converges.

The members follow the protocol: they hold their last assignment, revoke what it lacks, and drop
everything when they are fenced. Responses may be lost, members may fall silent, topics are created,
get partitions and are deleted. At any point a replay of the log replaces the coordinator.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from local_cluster.coordinator_runtime.outcome import Now, Outcome, StoredRecord
from local_cluster.groups.consumer.consumer_group import ConsumerGroup
from local_cluster.groups.consumer.model import Assignment, ConsumerGroupState
from local_cluster.groups.consumer.requests import (
    ConsumerGroupLimits,
    HeartbeatRequest,
    HeartbeatResponse,
)
from local_cluster.groups.consumer.topics import TopicFacts
from local_cluster.groups.requests import CommitRequest, GroupLimits, OffsetToCommit
from local_cluster.groups.shard import GroupShard
from local_cluster.wire.errors import ErrorCode

GROUP = "boards"
SESSION_MS = 45_000
LIMITS = GroupLimits(
    consumer=ConsumerGroupLimits(
        group_consumer_session_timeout_ms=SESSION_MS, group_consumer_assignment_interval_ms=0
    )
)
NAMES = ("a", "b", "c")
ROUNDS_TO_CONVERGE = 30
REBALANCE_TIMEOUT_MS = 3_600_000
"""So long that the group does not converge by it."""


class FakeTopics:
    """The topics of a cluster, which the test changes."""

    def __init__(self) -> None:
        self.version = 1
        self.topics: dict[str, TopicFacts] = {}

    def get(self, name: str) -> TopicFacts | None:
        return self.topics.get(name)

    def by_id(self, topic_id: uuid.UUID) -> TopicFacts | None:
        return next((t for t in self.topics.values() if t.topic_id == topic_id), None)

    def names(self) -> Any:
        return self.topics.keys()


@dataclass
class Client:
    """One consumer with its own view."""

    member_id: str
    instance_id: str | None
    names: tuple[str, ...]
    regex: str | None = None
    epoch: int = 0
    owned: dict[uuid.UUID, frozenset[int]] = field(default_factory=dict)
    sent_subscription: bool = False
    sent_owned: dict[uuid.UUID, frozenset[int]] | None = None
    """The partitions of its last acknowledged report."""

    def partitions(self) -> set[tuple[uuid.UUID, int]]:
        return {(topic, index) for topic, indexes in self.owned.items() for index in indexes}

    def drop(self) -> None:
        self.epoch, self.owned = 0, {}
        self.sent_subscription, self.sent_owned = False, None

    def take(self, response: HeartbeatResponse) -> None:
        if response.error in (ErrorCode.fenced_member_epoch, ErrorCode.unknown_member_id):
            self.drop()
        elif response.error is ErrorCode.none:
            self.epoch = response.member_epoch
            self.sent_subscription = True
            self.sent_owned = dict(self.owned)
            if response.assignment is not None:
                self.owned = dict(response.assignment)


def stored(group: ConsumerGroup | None) -> object:
    """Return the state that a replay must restore."""
    if group is None:
        return None
    facts = (group.epoch, group.metadata_hash, group.target_epoch, group.target_timestamp_ms)
    return facts, group.members, group.static_members, group.targets, group.regexes, group.holders


class ConsumerGroupMachine(RuleBasedStateMachine):
    """Drives one shard with one group."""

    def __init__(self) -> None:
        super().__init__()
        self.topics = FakeTopics()
        self.shard = GroupShard(LIMITS, self.topics)
        self.log: list[StoredRecord] = []
        self.now_ms = 1_000_000
        self.clients: list[Client] = []
        self.numbers = 0
        self.set_partitions("a", 3)

    # -- rules ------------------------------------------------------------------------------

    @precondition(lambda self: len(self.clients) < 5)
    @rule(
        names=st.lists(st.sampled_from(NAMES), unique=True),
        regex=st.sampled_from([None, None, "[ab]", ".*"]),
        is_static=st.booleans(),
    )
    def join(self, names: list[str], regex: str | None, is_static: bool) -> None:
        self.numbers += 1
        instance = f"i{self.numbers}" if is_static else None
        client = Client(f"m{self.numbers}", instance, tuple(names), regex)
        self.clients.append(client)
        self.beat(client)

    @precondition(lambda self: self.clients)
    @rule(pick=st.integers(0, 99), is_lost=st.sampled_from([False, False, False, True]))
    def heartbeat(self, pick: int, is_lost: bool) -> None:
        self.beat(self.clients[pick % len(self.clients)], is_lost=is_lost)

    @precondition(lambda self: self.clients)
    @rule(pick=st.integers(0, 99), names=st.lists(st.sampled_from(NAMES), unique=True))
    def change_subscription(self, pick: int, names: list[str]) -> None:
        client = self.clients[pick % len(self.clients)]
        client.names = tuple(names)
        client.sent_subscription = False

    @precondition(lambda self: self.clients)
    @rule(pick=st.integers(0, 99))
    def leave(self, pick: int) -> None:
        client = self.clients.pop(pick % len(self.clients))
        self.send(client, epoch=-1)

    @precondition(lambda self: any(c.instance_id and c.epoch > 0 for c in self.clients))
    @rule(pick=st.integers(0, 99))
    def restart_static_member(self, pick: int) -> None:
        static = [c for c in self.clients if c.instance_id and c.epoch > 0]
        client = static[pick % len(static)]
        response = self.send(client, epoch=-2)
        if response.error is ErrorCode.none:
            self.numbers += 1
            client.member_id = f"m{self.numbers}"
            client.drop()
            self.beat(client)

    @precondition(lambda self: self.clients)
    @rule(pick=st.integers(0, 99))
    def fall_silent_for_a_session(self, pick: int) -> None:
        silent = self.clients[pick % len(self.clients)]
        for _ in range(2):
            self.now_ms += SESSION_MS // 2
            for client in self.clients:
                if client is not silent:
                    self.beat(client)
        silent.drop()
        if silent.instance_id is not None:
            self.numbers += 1
            silent.member_id = f"m{self.numbers}"
        self.expire()

    @rule(name=st.sampled_from(NAMES), count=st.integers(0, 5))
    def set_partitions(self, name: str, count: int) -> None:
        known = self.topics.topics.get(name)
        if count == 0:
            self.topics.topics.pop(name, None)
        elif known is None:
            topic_id = uuid.UUID(int=len(self.log) * 10 + NAMES.index(name) + 1)
            self.topics.topics[name] = TopicFacts(name, topic_id, count)
        elif count > known.partitions:
            self.topics.topics[name] = known._replace(partitions=count)
        self.topics.version += 1

    @rule(compacted=st.booleans())
    def replace_coordinator(self, compacted: bool) -> None:
        self.shard = self.replayed(compacted=compacted)
        self.do(self.shard.finish_load(self.now()))

    @precondition(lambda self: any(c.epoch > 0 for c in self.clients))
    @rule(pick=st.integers(0, 99), older=st.integers(0, 2))
    def commit(self, pick: int, older: int) -> None:
        members = [c for c in self.clients if c.epoch > 0]
        client = members[pick % len(members)]
        offset = (OffsetToCommit("a", 0, 1, 0, None),)
        epoch = client.epoch - older
        request = CommitRequest(
            GROUP, client.member_id, None, epoch, offset, knows_group_not_found=True
        )
        outcome = self.shard.commit_offsets(0, request, self.now())
        group = self.group()
        known = None if group is None else group.members.get(client.member_id)
        ((_, (error,)),) = outcome.responses
        if known is not None and epoch == known.member_epoch:
            assert error is ErrorCode.none
        elif known is not None and epoch >= 0:
            # With an older epoch a member may commit what it has held since then.
            facts = self.topics.get("a")
            held = {} if facts is None else known.assigned.get(facts.topic_id, {})
            had = 0 in held and held[0] <= epoch < known.member_epoch
            assert error is (ErrorCode.none if had else ErrorCode.stale_member_epoch)
        self.do(outcome)

    @rule()
    def converge(self) -> None:
        """With heartbeats only, the group becomes stable, and every partition has a holder."""
        for _ in range(ROUNDS_TO_CONVERGE):
            self.now_ms += 11_000  # patterns are resolved again after 10 s
            for client in self.clients:
                self.beat(client)
            self.expire()
        group = self.group()
        if not self.clients:
            assert group is None or not group.members
            return
        assert group is not None
        assert group.state is ConsumerGroupState.STABLE
        held = [p for client in self.clients for p in client.partitions()]
        wanted = {
            (facts.topic_id, index)
            for client in self.clients
            for name, facts in self.topics.topics.items()
            if name in client.names
            or (client.regex == ".*" or (client.regex == "[ab]" and name in "ab"))
            for index in range(facts.partitions)
        }
        assert sorted(held) == sorted(wanted)

    # -- invariants -------------------------------------------------------------------------

    @invariant()
    def a_partition_has_one_holder(self) -> None:
        group = self.group()
        if group is not None:
            group.check_invariants()
        held = [p for client in self.clients for p in client.partitions()]
        assert len(held) == len(set(held))

    @invariant()
    def replay_gives_the_same_group(self) -> None:
        for compacted in (False, True):
            twin = self.replayed(compacted=compacted)
            assert stored(twin.state.consumer_groups.get(GROUP)) == stored(self.group())

    # -- inside -----------------------------------------------------------------------------

    def now(self) -> Now:
        return Now(self.now_ms, self.now_ms)

    def group(self) -> ConsumerGroup | None:
        return self.shard.state.consumer_groups.get(GROUP)

    def replayed(self, *, compacted: bool) -> GroupShard:
        shard = GroupShard(LIMITS, self.topics)
        last = {key: number for number, (key, _) in enumerate(self.log)}
        for number, (key, value) in enumerate(self.log):
            if not compacted or last[key] == number:
                shard.replay(key, value)
        return shard

    def do(self, outcome: Outcome) -> Any:
        self.log += outcome.records
        return outcome.responses[0][1] if outcome.responses else None

    def expire(self) -> None:
        self.do(self.shard.expire_timers(self.now()))

    def beat(self, client: Client, *, is_lost: bool = False) -> None:
        """Send one heartbeat; a member has revoked its partitions by the next one."""
        self.expire()
        response = self.send(client, epoch=client.epoch)
        if not is_lost:
            client.take(response)
        else:
            # After an error a client sends every field (KIP-848). So a member that has not seen
            # its assignment gets it, also if it comes with its previous epoch.
            client.sent_subscription = False

    def send(self, client: Client, *, epoch: int) -> HeartbeatResponse:
        is_full = not client.sent_subscription or epoch == 0
        request = HeartbeatRequest(
            group_id=GROUP,
            member_id=client.member_id,
            member_epoch=epoch,
            instance_id=client.instance_id,
            rack_id=None,
            rebalance_timeout_ms=REBALANCE_TIMEOUT_MS if is_full else -1,
            topic_names=client.names if is_full else None,
            topic_regex=client.regex if is_full else None,
            server_assignor=None,
            owned=self.owned(client, epoch, is_full=is_full),
            client_id="c",
            client_host="/h",
            may_describe=lambda name: True,
        )
        response = self.do(self.shard.consumer_heartbeat(0, request, self.now()))
        assert isinstance(response, HeartbeatResponse)
        assert response.error in (
            ErrorCode.none,
            ErrorCode.fenced_member_epoch,
            ErrorCode.unknown_member_id,
            ErrorCode.group_id_not_found,
            ErrorCode.unreleased_instance_id,
        ), response
        if response.error is ErrorCode.group_id_not_found:
            client.drop()
        if response.error is ErrorCode.unreleased_instance_id:
            # The session of the old process has not timed out: the new one waits for that.
            client.drop()
        return response

    def owned(self, client: Client, epoch: int, *, is_full: bool) -> Assignment | None:
        """Return the owned partitions if they have changed since the last report."""
        if epoch == 0:
            return {}
        return dict(client.owned) if is_full or client.owned != client.sent_owned else None


ConsumerGroupMachine.TestCase.settings = settings(
    max_examples=30, stateful_step_count=40, deadline=None
)
test_consumer_group = ConsumerGroupMachine.TestCase
