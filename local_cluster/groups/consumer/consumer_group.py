"""One KIP-848 group: its members, their targets and their current assignments.

Only `apply` changes the state, for new records and in replay, so replay gives the same group.

Guarantees, checked by `check_invariants`:

- a partition is held by at most one member
- member epoch <= target epoch <= group epoch
- every static instance id names a member with that id
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Collection, Iterable
from typing import Final

from local_cluster.groups.consumer.model import (
    JOIN_EPOCH,
    NOTHING,
    Assignment,
    ConsumerGroupState,
    ConsumerMember,
    EpochedAssignment,
    ResolvedRegex,
)
from local_cluster.groups.consumer.records import (
    Current,
    CurrentKey,
    GroupEpoch,
    GroupEpochKey,
    Key,
    MemberKey,
    MemberMetadata,
    RegexKey,
    TargetEpoch,
    TargetEpochKey,
    TargetKey,
    Value,
)
from local_cluster.groups.consumer.topics import Topics

INVITED_MAX: Final = 1_000
"""Ids of members to come; the oldest is forgotten."""


class ConsumerGroup:
    """The state of one group."""

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = 0
        self.metadata_hash = 0
        self.target_epoch = 0
        self.target_timestamp_ms = 0
        self.members: dict[str, ConsumerMember] = {}
        self.static_members: dict[str, str] = {}
        """Member id by instance id."""
        self.targets: dict[str, Assignment] = {}
        self.regexes: dict[str, ResolvedRegex] = {}
        self.holders: dict[tuple[uuid.UUID, int], str] = {}
        """Member id by partition that the member holds or has not revoked yet."""
        self.checked_version = -1
        """The version of the topics at the last check of the metadata hash; not in the log."""
        self._invited: dict[str, None] = {}
        """Ids that were given to members to come, the newest last; not in the log."""

    # -- reading ----------------------------------------------------------------------------

    @property
    def state(self) -> ConsumerGroupState:
        """The state that clients see."""
        if not self.members:
            return ConsumerGroupState.EMPTY
        if self.epoch > self.target_epoch:
            return ConsumerGroupState.ASSIGNING
        if all(member.is_reconciled_to(self.target_epoch) for member in self.members.values()):
            return ConsumerGroupState.STABLE
        return ConsumerGroupState.RECONCILING

    def static_member(self, instance_id: str) -> ConsumerMember | None:
        """Return the member with an instance id."""
        member_id = self.static_members.get(instance_id)
        return None if member_id is None else self.members.get(member_id)

    def subscribed_names(self, member: ConsumerMember) -> frozenset[str]:
        """Return the topics by name and by pattern; an unresolved pattern matches nothing."""
        regex = self.regexes.get(member.topic_regex) if member.topic_regex else None
        return frozenset(member.topic_names) | frozenset(regex.topics if regex else ())

    def all_subscribed_names(self) -> frozenset[str]:
        """Return the topics of all members."""
        names: set[str] = set()
        for member in self.members.values():
            names |= self.subscribed_names(member)
        return frozenset(names)

    def subscribed_ids(self, member: ConsumerMember, topics: Topics) -> frozenset[uuid.UUID]:
        """Return the ids of the existing topics of one member."""
        found = (topics.get(name) for name in self.subscribed_names(member))
        return frozenset(facts.topic_id for facts in found if facts is not None)

    def invite(self, member_id: str) -> None:
        """Remember an id that a classic member was given to join with."""
        self._invited[member_id] = None
        if len(self._invited) > INVITED_MAX:
            del self._invited[next(iter(self._invited))]

    def is_invited(self, member_id: str) -> bool:
        """Return whether an id was given to a member to come, lately."""
        return member_id in self._invited

    def is_held(self, topic_id: uuid.UUID, partition: int) -> bool:
        """Return whether a member holds the partition or has not revoked it yet."""
        return (topic_id, partition) in self.holders

    def target(self, member_id: str) -> Assignment:
        """Return the target assignment of a member."""
        return self.targets.get(member_id, NOTHING)

    def preferred_assignor(self, default: str) -> str:
        """Return the assignor that most members ask for, the first by name among equals."""
        votes = Counter(m.server_assignor for m in self.members.values() if m.server_assignor)
        return min(votes, key=lambda name: (-votes[name], name)) if votes else default

    def uses_only_classic(self, without: Collection[str]) -> bool:
        """Return whether all members but these use the classic protocol."""
        others = (m for member_id, m in self.members.items() if member_id not in without)
        return all(member.classic is not None for member in others)

    def supports_classic(self, protocol_names: Iterable[str]) -> bool:
        """Return whether all classic members support one of the protocols; without any, yes."""
        supported = [
            {name for name, _ in member.classic.protocols}
            for member in self.members.values()
            if member.classic is not None
        ]
        names = list(protocol_names)
        return any(all(name in each for each in supported) for name in names)

    def waits_for_others(self, member: ConsumerMember) -> bool:
        """Return whether another member holds a partition of the member's target."""
        return any(
            self.holders.get((topic_id, partition), member.member_id) != member.member_id
            for topic_id, partitions in self.target(member.member_id).items()
            for partition in partitions
        )

    # -- changing ---------------------------------------------------------------------------

    def apply(self, key: Key, value: Value | None) -> None:
        """Apply one record."""
        match key, value:
            case GroupEpochKey(), GroupEpoch(epoch, metadata_hash):
                self.epoch, self.metadata_hash = epoch, metadata_hash
            case GroupEpochKey(), None:
                self.epoch = self.metadata_hash = 0
            case TargetEpochKey(), TargetEpoch(epoch, timestamp_ms):
                self.target_epoch, self.target_timestamp_ms = epoch, timestamp_ms
            case TargetEpochKey(), None:
                self.target_epoch = self.target_timestamp_ms = 0
            case MemberKey(_, member_id), MemberMetadata():
                self._describe_member(member_id, value)
            case MemberKey(_, member_id), None:
                self._remove_member(member_id)
            case CurrentKey(_, member_id), Current():
                self._set_current(member_id, value)
            case CurrentKey(_, member_id), None:
                if member_id in self.members:
                    self._set_current(member_id, None)
            case TargetKey(_, member_id), None:
                self.targets.pop(member_id, None)
            case TargetKey(_, member_id), dict():
                self.targets[member_id] = value
            case RegexKey(_, regex), ResolvedRegex():
                self.regexes[regex] = value
            case RegexKey(_, regex), None:
                self.regexes.pop(regex, None)
            case _:
                raise AssertionError(f"{value} is no value for {key}")

    def _describe_member(self, member_id: str, metadata: MemberMetadata) -> None:
        known = self.members.get(member_id, ConsumerMember(member_id))
        if known.instance_id is not None and known.instance_id != metadata.instance_id:
            self._release_instance(known)
        self.members[member_id] = known._replace(
            instance_id=metadata.instance_id,
            rack_id=metadata.rack_id,
            client_id=metadata.client_id,
            client_host=metadata.client_host,
            topic_names=metadata.topic_names,
            topic_regex=metadata.topic_regex or "",
            rebalance_timeout_ms=metadata.rebalance_timeout_ms,
            server_assignor=metadata.server_assignor,
            classic=metadata.classic,
        )
        if metadata.instance_id is not None:
            self.static_members[metadata.instance_id] = member_id

    def _set_current(self, member_id: str, current: Current | None) -> None:
        known = self.members.get(member_id, ConsumerMember(member_id))
        self._hold(known, None)
        fresh = ConsumerMember(member_id)
        changed = self.members[member_id] = known._replace(
            member_epoch=current.member_epoch if current else JOIN_EPOCH,
            previous_member_epoch=(
                current.previous_member_epoch if current else fresh.previous_member_epoch
            ),
            state=current.state if current else fresh.state,
            assigned=current.assigned if current else fresh.assigned,
            pending_revocation=(
                current.pending_revocation if current else fresh.pending_revocation
            ),
        )
        self._hold(changed, member_id)

    def _remove_member(self, member_id: str) -> None:
        member = self.members.pop(member_id, None)
        if member is not None:
            self._hold(member, None)
            self._release_instance(member)

    def _release_instance(self, member: ConsumerMember) -> None:
        instance_id = member.instance_id
        if instance_id is not None and self.static_members.get(instance_id) == member.member_id:
            del self.static_members[instance_id]

    def _hold(self, member: ConsumerMember, holder: str | None) -> None:
        """Record the holder of the member's partitions: the member, or none."""
        for partition in _each(member.assigned, member.pending_revocation):
            if holder is not None:
                self.holders[partition] = holder
            elif self.holders.get(partition) == member.member_id:
                del self.holders[partition]

    def check_invariants(self) -> None:
        """Raise AssertionError if one of the module's guarantees is violated."""
        assert self.target_epoch <= self.epoch, (self.target_epoch, self.epoch)
        held: dict[tuple[uuid.UUID, int], str] = {}
        for member in self.members.values():
            assert member.member_epoch <= self.target_epoch, member
            for partition in _each(member.assigned, member.pending_revocation):
                assert partition not in held, (partition, held[partition], member.member_id)
                held[partition] = member.member_id
        assert held == self.holders
        assert self.targets.keys() <= self.members.keys()
        for instance_id, member_id in self.static_members.items():
            assert self.members[member_id].instance_id == instance_id


def _each(*assignments: EpochedAssignment) -> Iterable[tuple[uuid.UUID, int]]:
    for assignment in assignments:
        for topic_id, partitions in assignment.items():
            for partition in partitions:
                yield topic_id, partition
