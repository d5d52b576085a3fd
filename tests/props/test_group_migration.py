"""Groups whose members change between the classic and the consumer protocol, at random.

Consumer members send heartbeats; classic members join, sync and let their leader assign while the
group is a classic one. Members join, leave, crash and come back with the other protocol, and a
replay of the log replaces the coordinator. No partition ever has two owners, every request gets a
response, and in the end every partition has one owner.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from local_cluster.coordinator_runtime.outcome import Now, Outcome, StoredRecord
from local_cluster.groups.consumer.embedded_protocol import (
    encode_assignment,
    read_assignment,
)
from local_cluster.groups.consumer.requests import ConsumerGroupLimits
from local_cluster.groups.consumer.requests import HeartbeatRequest as ConsumerHeartbeat
from local_cluster.groups.consumer.requests import HeartbeatResponse as ConsumerResponse
from local_cluster.groups.consumer.topics import TopicFacts
from local_cluster.groups.requests import (
    GroupLimits,
    HeartbeatRequest,
    JoinRequest,
    JoinResponse,
    LeaveRequest,
    LeaveResponse,
    LeavingMember,
    SyncRequest,
    SyncResponse,
)
from local_cluster.groups.shard import GroupShard
from local_cluster.wire.errors import ErrorCode
from tests.support.classic_consumers import (
    Claim,
    assign,
    by_topic,
    decode_claim,
    encode_subscription,
)

GROUP = "boards"
CLASSIC_SESSION_MS = 10_000
STEP_MS = 50
"""Of one rule, so that no member that the rules leave out times out."""
ROUNDS_TO_CONVERGE = 70
LIMITS = GroupLimits(
    group_initial_rebalance_delay_ms=200,
    consumer=ConsumerGroupLimits(group_consumer_assignment_interval_ms=100),
)
TOPICS = {
    "a": TopicFacts("a", uuid.UUID(int=1), 4),
    "b": TopicFacts("b", uuid.UUID(int=2), 2),
}
IDS = {facts.topic_id: name for name, facts in TOPICS.items()}
ALL = {(name, index) for name, facts in TOPICS.items() for index in range(facts.partitions)}

Owned = set[tuple[str, int]]


class TwoTopics:
    """A cluster with two topics that do not change."""

    version = 1

    def get(self, name: str) -> TopicFacts | None:
        return TOPICS.get(name)

    def by_id(self, topic_id: uuid.UUID) -> TopicFacts | None:
        return TOPICS.get(IDS.get(topic_id, ""))

    def names(self) -> Any:
        return TOPICS.keys()


@dataclass(eq=False)
class Client:
    """One consumer: what it believes to own, and where it is in its protocol."""

    protocol: str
    """"consumer", "eager" or "cooperative"."""
    member_id: str
    instance_id: str | None
    epoch: int = 0
    """Of the consumer protocol; the generation of the classic one, -1 without any."""
    owned: Owned = field(default_factory=set)
    revoking: Owned = field(default_factory=set)
    """What it owns until its next step: an application takes its time to give something up."""
    must_join: bool = True
    waits_for: int | None = None
    """The ticket of a request whose response is not there yet."""

    @property
    def is_classic(self) -> bool:
        return self.protocol != "consumer"

    def reset(self) -> None:
        self.owned, self.must_join, self.epoch = set(), True, -1 if self.is_classic else 0
        self.revoking = set()

    def take(self, got: Owned) -> None:
        """Own what was assigned, and revoke the rest."""
        self.revoking = self.owned - got
        self.owned |= got

    def give_up(self) -> None:
        self.owned -= self.revoking
        self.revoking = set()


class MigrationMachine(RuleBasedStateMachine):
    """Drives one shard with one group."""

    def __init__(self) -> None:
        super().__init__()
        self.shard = GroupShard(LIMITS, TwoTopics())
        self.log: list[StoredRecord] = []
        self.now_ms = 1_000_000
        self.clients: list[Client] = []
        self.numbers = 0
        self.tickets: dict[int, tuple[Client, str]] = {}

    @initialize(classic=st.sampled_from(["eager", "cooperative"]))
    def choose(self, classic: str) -> None:
        self.classic = classic

    # -- rules ------------------------------------------------------------------------------

    @precondition(lambda self: len(self.clients) < 4)
    @rule(is_classic=st.booleans(), is_static=st.booleans(), is_replaced=st.booleans())
    def join(self, is_classic: bool, is_static: bool, is_replaced: bool) -> None:
        """`is_replaced`, here and below: the others hear of it from another coordinator."""
        instance = f"i{self.number()}" if is_static else None
        self.add(is_classic, instance)
        if is_replaced:
            self.replace_coordinator()

    @precondition(lambda self: self.clients)
    @rule(pick=st.integers(0, 99), times=st.integers(1, 6))
    def act(self, pick: int, times: int) -> None:
        for _ in range(times):
            self.tick(self.clients[pick % len(self.clients)])

    @rule()
    def all_act(self) -> None:
        for client in list(self.clients):
            self.tick(client)

    @precondition(lambda self: self.clients)
    @rule(pick=st.integers(0, 99), is_replaced=st.booleans())
    def leave(self, pick: int, is_replaced: bool) -> None:
        client = self.clients[pick % len(self.clients)]
        self.remove(client)
        if client.is_classic:
            leaving = LeavingMember(client.member_id, client.instance_id)
            self.ask(client, "leave", LeaveRequest(GROUP, (leaving,)))
        elif client.epoch > 0:
            self.ask(client, "beat", self.beat(client, -1))
        if is_replaced:
            self.replace_coordinator()

    @precondition(lambda self: self.clients)
    @rule(pick=st.integers(0, 99), other=st.booleans(), is_replaced=st.booleans())
    def restart(self, pick: int, other: bool, is_replaced: bool) -> None:
        """The process goes, and one of the same or the other protocol takes its place."""
        client = self.clients[pick % len(self.clients)]
        self.remove(client)
        if not client.is_classic and client.epoch > 0:
            leaving = -1 if client.instance_id is None else -2
            self.ask(client, "beat", self.beat(client, leaving))
        elif client.is_classic and client.instance_id is None and client.member_id:
            leaver = LeavingMember(client.member_id, None)
            self.ask(client, "leave", LeaveRequest(GROUP, (leaver,)))
        self.add(client.is_classic is not other, client.instance_id)
        if is_replaced:
            self.replace_coordinator()

    @precondition(lambda self: self.clients)
    @rule(pick=st.integers(0, 99))
    def crash(self, pick: int) -> None:
        self.remove(self.clients[pick % len(self.clients)])

    @rule()
    def replace_coordinator(self) -> None:
        self.shard = self.replayed()
        for client in self.clients:
            if client.waits_for is not None:  # its connection is closed
                client.waits_for, client.must_join = None, True
        self.tickets.clear()
        self.take(self.shard.finish_load(self.now()))

    @rule()
    def converge(self) -> None:
        for _ in range(ROUNDS_TO_CONVERGE):
            self.now_ms += 1_000
            for client in list(self.clients):
                self.tick(client)
        held = [partition for client in self.clients for partition in client.owned]
        assert sorted(held) == (sorted(ALL) if self.clients else []), self.clients
        in_consumer_group = GROUP in self.shard.state.consumer_groups
        if self.clients:
            assert in_consumer_group is any(not client.is_classic for client in self.clients)

    # -- invariants -------------------------------------------------------------------------

    @invariant()
    def a_partition_has_one_owner(self) -> None:
        held = [partition for client in self.clients for partition in client.owned]
        assert len(held) == len(set(held)), self.clients
        state = self.shard.state
        assert not (GROUP in state.classic_groups and GROUP in state.consumer_groups)
        for group in (state.consumer_groups.get(GROUP), state.classic_groups.get(GROUP)):
            if group is not None:
                group.check_invariants()

    @invariant()
    def replay_gives_the_same_group(self) -> None:
        twin = self.replayed()
        group, again = (s.state.consumer_groups.get(GROUP) for s in (self.shard, twin))
        assert (group is None) == (again is None)
        if group is not None and again is not None:
            assert (group.epoch, group.members, group.targets, group.holders) == (
                again.epoch,
                again.members,
                again.targets,
                again.holders,
            )

    @invariant()
    def only_classic_groups_let_members_wait(self) -> None:
        if self.tickets:
            assert GROUP in self.shard.state.classic_groups, self.tickets

    # -- clients ----------------------------------------------------------------------------

    def number(self) -> int:
        self.numbers += 1
        return self.numbers

    def add(self, is_classic: bool, instance_id: str | None) -> None:
        member_id = "" if is_classic else f"m{self.number()}"
        protocol = self.classic if is_classic else "consumer"
        client = Client(protocol, member_id, instance_id)
        client.reset()
        self.clients.append(client)
        self.tick(client)

    def remove(self, client: Client) -> None:
        self.clients.remove(client)
        client.owned.clear()
        client.revoking.clear()
        self.tickets = {t: entry for t, entry in self.tickets.items() if entry[0] is not client}

    def tick(self, client: Client) -> None:
        """Let a client send its next request, unless it waits."""
        self.now_ms += STEP_MS
        self.take(self.shard.expire_timers(self.now()))
        if client not in self.clients or client.waits_for is not None:
            return
        client.give_up()
        if not client.is_classic:
            self.ask(client, "beat", self.beat(client, client.epoch))
        elif client.must_join:
            if client.protocol == "eager":
                client.owned.clear()
            self.ask(client, "join", self.joining(client))
        else:
            request = HeartbeatRequest(GROUP, client.member_id, client.instance_id, client.epoch)
            self.ask(client, "heartbeat", request)

    def joining(self, client: Client) -> JoinRequest:
        metadata = encode_subscription(TOPICS, Claim(frozenset(client.owned), client.epoch))
        return JoinRequest(
            group_id=GROUP,
            member_id=client.member_id,
            group_instance_id=client.instance_id,
            client_id="c",
            client_host="/h",
            session_timeout_ms=CLASSIC_SESSION_MS,
            rebalance_timeout_ms=60_000,
            protocol_type="consumer",
            protocols=((self.classic, metadata),),
            member_uuid=f"u{self.number()}",
        )

    def beat(self, client: Client, epoch: int) -> ConsumerHeartbeat:
        owned = {} if epoch == 0 else by_topic(client.owned)
        return ConsumerHeartbeat(
            group_id=GROUP,
            member_id=client.member_id,
            member_epoch=epoch,
            instance_id=client.instance_id,
            rack_id=None,
            rebalance_timeout_ms=60_000,
            topic_names=tuple(TOPICS),
            topic_regex=None,
            server_assignor=None,
            owned={TOPICS[name].topic_id: frozenset(parts) for name, parts in owned.items()},
            client_id="c",
            client_host="/h",
            may_describe=lambda name: True,
        )

    def ask(self, client: Client, kind: str, request: Any) -> None:
        ticket = self.number()
        handles: dict[str, Callable[[int, Any, Now], Outcome]] = {
            "beat": self.shard.consumer_heartbeat,
            "join": self.shard.join,
            "sync": self.shard.sync,
            "heartbeat": self.shard.heartbeat,
            "leave": self.shard.leave,
        }
        if client in self.clients:
            client.waits_for = ticket
            self.tickets[ticket] = (client, kind)
        self.take(handles[kind](ticket, request, self.now()))

    # -- responses --------------------------------------------------------------------------

    def take(self, outcome: Outcome) -> None:
        self.log += outcome.records
        for ticket, response in outcome.responses:
            client, _ = self.tickets.pop(ticket, (None, ""))
            if client is None:
                continue
            client.waits_for = None
            match response:
                case ConsumerResponse():
                    self.take_beat(client, response)
                case JoinResponse():
                    self.take_join(client, response)
                case SyncResponse():
                    self.take_sync(client, response)
                case LeaveResponse():
                    pass
                case ErrorCode():
                    self.take_error(client, response)

    def take_beat(self, client: Client, response: ConsumerResponse) -> None:
        match response.error:
            case ErrorCode.none:
                client.epoch = response.member_epoch
                if response.assignment is not None:
                    got = {
                        (IDS[topic_id], index)
                        for topic_id, indexes in response.assignment.items()
                        for index in indexes
                    }
                    client.take(got)
            case ErrorCode.unreleased_instance_id:
                client.reset()  # an old process crashed: it waits for its session
            case ErrorCode.unknown_member_id | ErrorCode.fenced_member_epoch:
                client.reset()
            case error:
                raise AssertionError(response, error)

    def take_join(self, client: Client, response: JoinResponse) -> None:
        if response.error is ErrorCode.member_id_required:
            client.member_id = response.member_id
            self.ask(client, "join", self.joining(client))
            return
        if response.error is not ErrorCode.none:
            self.take_error(client, response.error)
            return
        client.member_id, client.epoch = response.member_id, response.generation_id
        client.must_join = False
        assignments: tuple[tuple[str, bytes], ...] = ()
        if response.leader == client.member_id and not response.skip_assignment:
            claims = {each.member_id: decode_claim(each.metadata) for each in response.members}
            made = assign(claims, ALL, cooperative=self.classic == "cooperative")
            assignments = tuple(
                (member_id, encode_assignment(2, by_topic(owned)))
                for member_id, owned in made.items()
            )
        request = SyncRequest(
            GROUP,
            client.member_id,
            client.instance_id,
            client.epoch,
            response.protocol_type,
            response.protocol_name,
            assignments,
        )
        self.ask(client, "sync", request)

    def take_sync(self, client: Client, response: SyncResponse) -> None:
        if response.error is not ErrorCode.none:
            self.take_error(client, response.error)
            return
        got = {
            (name, index)
            for name, indexes in read_assignment(response.assignment).partitions.items()
            for index in indexes
        }
        client.take(got)
        client.must_join = bool(client.revoking)

    def take_error(self, client: Client, error: ErrorCode) -> None:
        match error:
            case ErrorCode.none:
                pass
            case ErrorCode.rebalance_in_progress:
                client.must_join = True
            case ErrorCode.illegal_generation:
                client.reset()
            case ErrorCode.unknown_member_id | ErrorCode.fenced_instance_id:
                client.reset()
                client.member_id = ""
            case _:
                raise AssertionError(error)

    # -- inside -----------------------------------------------------------------------------

    def now(self) -> Now:
        return Now(self.now_ms, self.now_ms)

    def replayed(self) -> GroupShard:
        shard = GroupShard(LIMITS, TwoTopics())
        for key, value in self.log:
            shard.replay(key, value)
        return shard


MigrationMachine.TestCase.settings = settings(
    max_examples=60, stateful_step_count=40, deadline=None
)
test_group_migration = MigrationMachine.TestCase
