"""Random clients against one group shard.

Invariants:

- at most one member computes the assignment of a generation
- the generation never decreases while the coordinator runs, nor below the one in the log
- an assignment belongs to its generation and its member
- a fetch returns the last committed offset
- every request gets at most one response, and every client that keeps sending requests ends as a
  member of a stable group
- a replay of the records gives the same state, and fences no static member that was accepted
"""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from local_cluster.coordinator_runtime.outcome import Now, Outcome, StoredRecord
from local_cluster.groups.classic.classic_fsm import GroupState
from local_cluster.groups.requests import (
    CommitRequest,
    GroupLimits,
    HeartbeatRequest,
    JoinRequest,
    JoinResponse,
    LeaveRequest,
    LeaveResponse,
    LeavingMember,
    OffsetToCommit,
    SyncRequest,
    SyncResponse,
)
from local_cluster.groups.shard import GroupShard
from local_cluster.wire.errors import ErrorCode

GROUP = "g"
SESSION_MS = 10_000
REBALANCE_MS = 20_000
SETTLE_ROUNDS_MAX = 60
RESET = {ErrorCode.unknown_member_id, ErrorCode.fenced_instance_id}


@dataclass
class Client:
    """A consumer that behaves as Kafka's client library, one request at a time."""

    name: str
    instance_id: str | None
    protocols: tuple[tuple[str, bytes], ...] = (("range", b"r"), ("sticky", b"s"))
    member_id: str = ""
    generation: int = -1
    leads: tuple[str, ...] = ()
    """The members to assign to, if this client leads the generation."""
    waits_for: str = ""
    """The request that waits for its response."""
    needs: str = "join"
    """The next request: join, sync, or "" for heartbeats."""


class GroupMachine(RuleBasedStateMachine):
    """Drives a shard with clients that join, sync, commit, fall silent, restart and leave."""

    def __init__(self) -> None:
        super().__init__()
        self.limits = GroupLimits(group_initial_rebalance_delay_ms=3_000)
        self.shard = GroupShard(self.limits)
        self.log: list[StoredRecord] = []
        self.now_ms = 0
        self.clients = [Client(f"c{i}", None) for i in range(3)]
        self.clients += [Client(f"s{i}", f"i{i}") for i in range(2)]
        self.tickets = 0
        self.requests: dict[int, tuple[Client, str]] = {}
        self.uuids = 0
        self.assigners: dict[int, str] = {}
        self.committed: dict[tuple[str, int], int] = {}
        self.generation_seen = 0
        self.life = 0

    # -- plumbing ---------------------------------------------------------------------------

    @property
    def now(self) -> Now:
        return Now(1_700_000_000_000 + self.now_ms, self.now_ms)

    def ticket(self, client: Client, request: str) -> int:
        self.tickets += 1
        self.requests[self.tickets] = (client, request)
        return self.tickets

    def perform(self, outcome: Outcome) -> None:
        self.log += outcome.records
        for ticket, response in outcome.responses:
            assert ticket in self.requests, "a second response, or no request"
            client, request = self.requests.pop(ticket)
            if client.waits_for == request:
                client.waits_for = ""
            if isinstance(response, JoinResponse):
                self.on_join(client, response)
            elif isinstance(response, SyncResponse):
                self.on_sync(client, response)
            elif isinstance(response, ErrorCode):
                self.on_heartbeat(client, response)

    def on_join(self, client: Client, response: JoinResponse) -> None:
        if response.error is ErrorCode.none:
            client.member_id = response.member_id
            client.generation = response.generation_id
            client.needs = "sync"
            client.leads = ()
            if response.leader == response.member_id and not response.skip_assignment:
                assert client.member_id in {m.member_id for m in response.members}
                client.leads = tuple(m.member_id for m in response.members)
                first = self.assigners.setdefault(response.generation_id, response.member_id)
                assert first == response.member_id, "two leaders in one generation"
            else:
                assert response.skip_assignment or not response.members
        elif response.error is ErrorCode.member_id_required:
            client.member_id = response.member_id
        elif response.error in RESET:
            client.member_id = ""
        else:
            assert response.error is ErrorCode.rebalance_in_progress, response

    def on_sync(self, client: Client, response: SyncResponse) -> None:
        if response.error is ErrorCode.none:
            made_for = response.assignment.decode().split("|")
            if made_for != [""]:
                generation, member_id = made_for
                assert int(generation) == client.generation, "assignment of another generation"
                # A static member that returned with a new id inherits its assignment.
                prefix = (client.instance_id or client.name) + "-"
                assert member_id.startswith(prefix), "assignment of another member"
            client.needs = ""
        else:
            self.on_heartbeat(client, response.error)

    def on_heartbeat(self, client: Client, error: ErrorCode) -> None:
        if error in RESET:
            client.member_id = ""
        if error is not ErrorCode.none:
            client.needs = "join"

    def send_join(self, client: Client) -> None:
        self.uuids += 1
        client.waits_for = "join"
        request = JoinRequest(
            GROUP,
            client.member_id,
            client.instance_id,
            client.name,
            "/h",
            SESSION_MS,
            REBALANCE_MS,
            "consumer",
            client.protocols,
            f"u{self.uuids}",
        )
        self.perform(self.shard.join(self.ticket(client, "join"), request, self.now))

    def send_sync(self, client: Client) -> None:
        client.waits_for = "sync"
        assignments = tuple((m, f"{client.generation}|{m}".encode()) for m in client.leads)
        request = SyncRequest(
            GROUP,
            client.member_id,
            client.instance_id,
            client.generation,
            "consumer",
            None,
            assignments,
        )
        self.perform(self.shard.sync(self.ticket(client, "sync"), request, self.now))

    def send_heartbeat(self, client: Client) -> None:
        request = HeartbeatRequest(GROUP, client.member_id, client.instance_id, client.generation)
        self.perform(self.shard.heartbeat(self.ticket(client, "heartbeat"), request, self.now))

    def act(self, client: Client) -> None:
        """Send the next request of the client library."""
        if client.waits_for:
            return
        if client.needs == "join":
            self.send_join(client)
        elif client.needs == "sync":
            self.send_sync(client)
        else:
            self.send_heartbeat(client)

    def advance(self, milliseconds: int) -> None:
        target_ms = self.now_ms + milliseconds
        while (next_ms := self.shard.next_deadline_ms()) is not None and next_ms <= target_ms:
            self.now_ms = max(self.now_ms, next_ms)
            self.perform(self.shard.expire_timers(self.now))
        self.now_ms = target_ms

    # -- rules ------------------------------------------------------------------------------

    @rule(indexes=st.lists(st.integers(0, 4), min_size=1, max_size=12))
    def clients_act(self, indexes: list[int]) -> None:
        for index in indexes:
            self.act(self.clients[index])

    @rule(index=st.integers(0, 4))
    def client_retries(self, index: int) -> None:
        """Without a response it repeats the request on a new connection."""
        client = self.clients[index]
        if client.waits_for == "join":
            self.send_join(client)
        elif client.waits_for == "sync":
            self.send_sync(client)

    @rule(index=st.integers(0, 4))
    def client_restarts(self, index: int) -> None:
        """A new process has no state, and the responses to the old one are lost."""
        # The old one keeps its requests: its responses are checked by what it knew.
        old = self.clients[index]
        self.clients[index] = Client(old.name, old.instance_id, old.protocols)

    @rule(index=st.integers(0, 4), content=st.sampled_from([b"r", b"r2", b"r3"]))
    def client_resubscribes(self, index: int, content: bytes) -> None:
        client = self.clients[index]
        client.protocols = (("range", content), client.protocols[1])
        if not client.waits_for:
            client.needs = "join"

    @rule(index=st.integers(0, 4))
    def client_leaves(self, index: int) -> None:
        client = self.clients[index]
        if not client.member_id:
            return
        leaving = LeavingMember(client.member_id, client.instance_id)
        outcome = self.shard.leave(
            self.ticket(client, "leave"), LeaveRequest(GROUP, (leaving,)), self.now
        )
        responses = [
            response for _, response in outcome.responses if isinstance(response, LeaveResponse)
        ]
        assert len(responses) == 1
        self.perform(outcome)
        client.member_id = ""
        client.needs = "join"

    @rule(
        index=st.integers(0, 4),
        partition=st.integers(0, 2),
        offset=st.integers(0, 2**40),
        stale=st.booleans(),
    )
    def client_commits(self, index: int, partition: int, offset: int, stale: bool) -> None:
        client = self.clients[index]
        generation = client.generation - 1 if stale else client.generation
        request = CommitRequest(
            GROUP,
            client.member_id,
            client.instance_id,
            generation,
            (OffsetToCommit("t", partition, offset, 0, None),),
        )
        group = self.shard.state.classic_groups.get(GROUP)
        ticket = self.ticket(client, "commit")
        outcome = self.shard.commit_offsets(ticket, request, self.now)
        ((_, errors),) = outcome.responses
        assert isinstance(errors, tuple)
        if errors[0] is ErrorCode.none:
            self.committed["t", partition] = offset
            if group is not None and group.members:
                assert client.member_id in group.members
                assert generation == group.generation_id
                assert group.state is not GroupState.COMPLETING_REBALANCE
        else:
            assert not outcome.records
        self.perform(outcome)

    @rule(milliseconds=st.sampled_from([1, 500, 3_000, 7_000, 12_000, 25_000]))
    def time_passes(self, milliseconds: int) -> None:
        self.advance(milliseconds)

    @precondition(lambda self: self.log)
    @rule()
    def coordinator_restarts(self) -> None:
        """Every connection breaks; the next coordinator loads the log."""
        self.shard = self.replayed()
        self.requests.clear()
        for client in self.clients:
            if client.waits_for:
                client.waits_for = ""
                client.needs = "join"
        self.life += 1
        # Generations that were not stored are lost, so their numbers may be used again.
        group = self.shard.state.classic_groups.get(GROUP)
        stored_generation = group.generation_id if group is not None else 0
        self.generation_seen = stored_generation
        self.assigners = {g: m for g, m in self.assigners.items() if g <= stored_generation}
        self.perform(self.shard.finish_load(self.now))

    @rule()
    def everybody_settles(self) -> None:
        """While all clients send requests, they end in one stable generation."""
        for _ in range(SETTLE_ROUNDS_MAX):
            for client in self.clients:
                self.act(client)
            if self.is_settled():
                break
            self.advance(1_000)
        assert self.is_settled(), [(c.name, c.needs, c.waits_for) for c in self.clients]
        group = self.shard.state.classic_groups[GROUP]
        assert set(group.members) == {client.member_id for client in self.clients}
        assert {client.generation for client in self.clients} == {group.generation_id}
        for member in group.members.values():
            assert member.assignment
        live = [owner for owner, _ in self.requests.values() if owner in self.clients]
        assert not live, "a request of a live client got no response"

    def is_settled(self) -> bool:
        group = self.shard.state.classic_groups.get(GROUP)
        return (
            group is not None
            and group.state is GroupState.STABLE
            and len(group.members) == len(self.clients)
            and not any(client.needs or client.waits_for for client in self.clients)
        )

    # -- invariants -------------------------------------------------------------------------

    def replayed(self) -> GroupShard:
        shard = GroupShard(self.limits)
        for record in self.log:
            shard.replay(record.key, record.value)
        return shard

    @invariant()
    def group_is_consistent(self) -> None:
        group = self.shard.state.classic_groups.get(GROUP)
        if group is None:
            return
        group.check_invariants()
        assert group.generation_id >= self.generation_seen, "the generation decreased"
        self.generation_seen = group.generation_id
        waiting = set(group.awaiting_join.values()) | set(group.awaiting_sync.values())
        assert waiting <= self.requests.keys(), "the group holds a request that has its response"

    @invariant()
    def every_member_has_a_session(self) -> None:
        group = self.shard.state.classic_groups.get(GROUP)
        if group is None:
            return
        timed = {key.member_id for key in self.shard.state.timers if key.kind == "session"}
        silent = group.members.keys() - timed
        # A member that waits cannot send heartbeats; every other one must have a session timeout.
        assert silent <= group.awaiting_join.keys() | group.awaiting_sync.keys(), silent
        assert group.pending_join <= timed

    @invariant()
    def replay_gives_the_same_state(self) -> None:
        shard = self.replayed()
        fetched = shard.state.offsets.fetch(GROUP, None)
        assert fetched == self.shard.state.offsets.fetch(GROUP, None)
        found = {(o.topic, o.partition): o.committed.offset for o in fetched}
        assert found == self.committed
        group = self.shard.state.classic_groups.get(GROUP)
        if group is None:
            return
        if GROUP in shard.state.classic_groups:
            stored = shard.state.classic_groups[GROUP].static_members
            for instance_id in group.static_members.keys() & stored.keys():
                # A coordinator that loads the log must not fence an accepted member.
                assert stored[instance_id] == group.static_members[instance_id]
        if group.state is not GroupState.STABLE:
            return
        other = shard.state.classic_groups[GROUP]
        assert other.state is GroupState.STABLE
        assert other.generation_id == group.generation_id
        assert other.leader == group.leader
        assert other.protocol_name == group.protocol_name
        for member_id, member in group.members.items():
            assert other.members[member_id].assignment == member.assignment
        assert other.members.keys() == group.members.keys()
        assert other.static_members == group.static_members


TestGroupFsm = GroupMachine.TestCase
TestGroupFsm.settings = settings(max_examples=150, stateful_step_count=50, deadline=None)
