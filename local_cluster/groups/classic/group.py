"""One classic group: its members, their protocols, and the requests that wait.

A group knows neither requests nor time: `membership.py` and `rebalance.py` decide its changes.

Guarantees, checked by `check_invariants`:

- the group has a leader exactly while it has members, and the leader is a member
- every static instance id maps to a member with that id
- only members wait for responses to JoinGroup and SyncGroup
- the counts of supported protocols match the members
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from local_cluster.groups.classic.classic_fsm import GroupEvent, GroupState, next_state
from local_cluster.groups.records import StoredGroup, StoredMember
from local_cluster.groups.requests import (
    DescribedGroup,
    DescribedMember,
    JoinedMember,
    Protocols,
)
from local_cluster.records.header import NO_TIMESTAMP
from local_cluster.wire.errors import ErrorCode


@dataclass(slots=True, kw_only=True)
class Member:
    """One member of the group."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: Protocols
    assignment: bytes = b""
    is_new: bool = False
    """Waits for its first response to JoinGroup, so it cannot send heartbeats yet."""

    def metadata(self, protocol_name: str | None) -> bytes:
        """Return the member's opaque metadata for a protocol, or b""."""
        for name, metadata in self.protocols:
            if name == protocol_name:
                return metadata
        return b""

    def vote(self, candidates: set[str]) -> str:
        """Return the member's first choice among protocols that every member supports."""
        for name, _ in self.protocols:
            if name in candidates:
                return name
        raise AssertionError(f"{self.member_id} supports none of {sorted(candidates)}")


@dataclass(slots=True)
class ClassicGroup:
    """The state of one group; a ticket is a request that waits for its response."""

    group_id: str
    state: GroupState = GroupState.EMPTY
    previous_state: GroupState = GroupState.EMPTY
    generation_id: int = 0
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str | None = None
    state_timestamp_ms: int = NO_TIMESTAMP
    """The wall clock at the last change of state."""
    members: dict[str, Member] = field(default_factory=dict)
    static_members: dict[str, str] = field(default_factory=dict)
    """Member id by group instance id."""
    pending_join: set[str] = field(default_factory=set)
    """Ids given out with MEMBER_ID_REQUIRED and not used yet."""
    pending_sync: set[str] = field(default_factory=set)
    """Members of this generation that have not sent SyncGroup yet."""
    awaiting_join: dict[str, int] = field(default_factory=dict)
    """Ticket by member id."""
    awaiting_sync: dict[str, int] = field(default_factory=dict)
    """Ticket by member id."""
    supported_protocols: Counter[str] = field(default_factory=Counter)
    """The number of members that support each protocol."""
    new_member_added: bool = False
    """A member joined during the initial delay, which may then be extended."""
    initial_delay_ms: int = 0
    initial_remaining_ms: int = 0
    former_epochs: dict[str, int] = field(default_factory=dict)
    """Generations that members still use after a downgrade from the consumer protocol, by member
    id. The first rebalance ends them; they are not in the log."""
    stored: StoredGroup | None = None
    """The group's record in the log, if any; removing the group then needs a tombstone."""

    def move(self, event: GroupEvent, wall_ms: int) -> None:
        """Change the state by the transition table."""
        target = next_state(self.state, event)
        self.previous_state = self.state
        self.state = target
        self.state_timestamp_ms = wall_ms

    def end_initial_delay(self) -> None:
        """End the initial delay; only the next rebalance from Empty has one again."""
        self.new_member_added = False
        self.initial_delay_ms = 0
        self.initial_remaining_ms = 0

    @property
    def all_joined(self) -> bool:
        """Whether every member waits in JoinGroup and every reserved id was used."""
        return len(self.awaiting_join) == len(self.members) and not self.pending_join

    @property
    def rebalance_timeout_ms(self) -> int:
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def add(self, member: Member) -> None:
        """Add a member; the first one leads. The caller sets the protocol type."""
        assert member.member_id not in self.members, member.member_id
        if member.group_instance_id is not None:
            assert member.group_instance_id not in self.static_members, member.group_instance_id
            self.static_members[member.group_instance_id] = member.member_id
        if self.leader is None:
            self.leader = member.member_id
        self.members[member.member_id] = member
        self.supported_protocols.update(name for name, _ in member.protocols)
        self.pending_join.discard(member.member_id)

    def remove(self, member_id: str) -> None:
        """Remove a member or a reserved id; the caller responds to its requests."""
        member = self.members.pop(member_id, None)
        if member is not None:
            self.supported_protocols.subtract(name for name, _ in member.protocols)
            if member.group_instance_id is not None:
                del self.static_members[member.group_instance_id]
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)
        self.pending_join.discard(member_id)
        self.pending_sync.discard(member_id)
        self.awaiting_join.pop(member_id, None)
        self.awaiting_sync.pop(member_id, None)

    def replace_static(self, group_instance_id: str, new_member_id: str) -> Member:
        """Give the static instance a new member id; the old id is unknown or fenced from now on."""
        old_member_id = self.static_members[group_instance_id]
        member = self.members.pop(old_member_id)
        member.member_id = new_member_id
        member.is_new = False
        self.members[new_member_id] = member
        self.static_members[group_instance_id] = new_member_id
        if self.leader == old_member_id:
            self.leader = new_member_id
        if old_member_id in self.pending_sync:
            self.pending_sync.remove(old_member_id)
            self.pending_sync.add(new_member_id)
        self.awaiting_join.pop(old_member_id, None)
        self.awaiting_sync.pop(old_member_id, None)
        return member

    def update_protocols(self, member: Member, protocols: Protocols) -> None:
        self.supported_protocols.subtract(name for name, _ in member.protocols)
        member.protocols = protocols
        self.supported_protocols.update(name for name, _ in protocols)

    def supports(self, protocol_type: str, protocols: Protocols) -> bool:
        """Return whether a member with these protocols could join."""
        if self.state is GroupState.EMPTY:
            return bool(protocol_type) and bool(protocols)
        if protocol_type != self.protocol_type:
            return False
        return any(self.supported_protocols[name] == len(self.members) for name, _ in protocols)

    def select_protocol(self) -> str:
        """Return the protocol with the most votes among those that every member supports.

        In a draw the first vote wins, in the order in which members joined. In Kafka the order of a
        hash map decides.
        """
        size = len(self.members)
        candidates = {name for name, count in self.supported_protocols.items() if count == size}
        votes = Counter(member.vote(candidates) for member in self.members.values())
        return max(votes, key=votes.__getitem__)

    def elect_joined_leader(self) -> bool:
        """Keep the leader if it rejoined, else elect the first member that did.

        Return False if there is no leader: the group has no members, or none rejoined.
        """
        if self.leader is None:
            return False
        if self.leader in self.awaiting_join:
            return True
        for member_id in self.members:
            if member_id in self.awaiting_join:
                self.leader = member_id
                return True
        return False

    def validate_member(self, member_id: str, group_instance_id: str | None) -> ErrorCode:
        """Check that the id is a member, and the current one of the instance id if there is one."""
        if group_instance_id is not None:
            existing = self.static_members.get(group_instance_id)
            if existing is None:
                return ErrorCode.unknown_member_id
            if existing != member_id:
                return ErrorCode.fenced_instance_id
        return ErrorCode.none if member_id in self.members else ErrorCode.unknown_member_id

    def is_current(self, member_id: str, generation_id: int) -> bool:
        """Return whether a member may use a generation."""
        return generation_id in (self.generation_id, self.former_epochs.get(member_id))

    def joined_members(self) -> tuple[JoinedMember, ...]:
        """Return all members with their metadata for the selected protocol, for the leader."""
        return tuple(
            JoinedMember(m.member_id, m.group_instance_id, m.metadata(self.protocol_name))
            for m in self.members.values()
        )

    def describe(self) -> DescribedGroup:
        """Return the group for DescribeGroups."""
        is_stable = self.state is GroupState.STABLE
        return DescribedGroup(
            self.group_id,
            self.state.value,
            self.protocol_type or "",
            (self.protocol_name or "") if is_stable else "",
            tuple(
                DescribedMember(
                    m.member_id,
                    m.group_instance_id,
                    m.client_id,
                    m.client_host,
                    m.metadata(self.protocol_name) if is_stable else b"",
                    m.assignment if is_stable else b"",
                )
                for m in self.members.values()
            ),
        )

    def to_stored(self, assignments: Mapping[str, bytes]) -> StoredGroup:
        """Return the group with the given assignments, as the log stores it."""
        return StoredGroup(
            protocol_type=self.protocol_type or "",
            generation=self.generation_id,
            protocol=self.protocol_name,
            leader=self.leader,
            current_state_timestamp_ms=self.state_timestamp_ms,
            members=tuple(
                StoredMember(
                    member.member_id,
                    member.group_instance_id,
                    member.client_id,
                    member.client_host,
                    member.rebalance_timeout_ms,
                    member.session_timeout_ms,
                    member.metadata(self.protocol_name),
                    assignments.get(member.member_id, b""),
                )
                for member in self.members.values()
            ),
        )

    @classmethod
    def from_stored(cls, group_id: str, stored: StoredGroup) -> ClassicGroup:
        """Return the group of a record: Stable, or Empty without members."""
        state = GroupState.STABLE if stored.members else GroupState.EMPTY
        group = cls(
            group_id,
            state=state,
            previous_state=state,
            generation_id=stored.generation,
            protocol_type=stored.protocol_type or None,
            protocol_name=stored.protocol,
            leader=stored.leader if stored.members else None,
            state_timestamp_ms=stored.current_state_timestamp_ms,
            stored=stored,
        )
        for m in stored.members:
            group.add(
                Member(
                    member_id=m.member_id,
                    group_instance_id=m.group_instance_id,
                    client_id=m.client_id,
                    client_host=m.client_host,
                    session_timeout_ms=m.session_timeout_ms,
                    rebalance_timeout_ms=m.rebalance_timeout_ms,
                    protocols=((stored.protocol or "", m.subscription),),
                    assignment=m.assignment,
                )
            )
        if group.leader not in group.members:
            group.leader = next(iter(group.members), None)
        return group

    def check_invariants(self) -> None:
        """Raise AssertionError if one of the module's guarantees is violated."""
        assert (self.leader is None) == (not self.members), (self.leader, list(self.members))
        assert self.leader is None or self.leader in self.members
        assert set(self.static_members.values()) <= self.members.keys()
        for instance_id, member_id in self.static_members.items():
            assert self.members[member_id].group_instance_id == instance_id
        assert self.awaiting_join.keys() <= self.members.keys()
        assert self.awaiting_sync.keys() <= self.members.keys()
        assert self.pending_sync <= self.members.keys()
        assert not self.pending_join & self.members.keys()
        counted = Counter(name for m in self.members.values() for name, _ in m.protocols)
        assert +self.supported_protocols == counted, (self.supported_protocols, counted)
        if self.state is GroupState.EMPTY:
            assert not self.members
        if self.state is GroupState.PREPARING_REBALANCE:
            assert not self.pending_sync
            assert not self.awaiting_sync
        if self.state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
            # The step that removes the last member also changes the state.
            assert self.members
            assert not self.awaiting_join
        if self.state is GroupState.STABLE:
            assert not self.awaiting_sync
