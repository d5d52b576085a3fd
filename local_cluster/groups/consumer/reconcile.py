"""Brings one member from its current assignment to its target (Kafka's CurrentAssignmentBuilder).

A member first revokes what is not in its target, and stays in its epoch until it confirms. Then it
moves to the target's epoch and gets the free partitions. It gets the others when their owners have
confirmed. So a partition is held by at most one member at any time.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection
from typing import NamedTuple

from local_cluster.groups.consumer.model import (
    NOTHING_EPOCHED,
    Assignment,
    ConsumerMember,
    EpochedAssignment,
    MemberState,
)


class Target(NamedTuple):
    """The target assignment of one member."""

    epoch: int
    assignment: Assignment


def reconcile(
    member: ConsumerMember,
    target: Target,
    owned: Assignment | None,
    subscribed: Collection[uuid.UUID],
    is_held: Callable[[uuid.UUID, int], bool],
    *,
    subscription_changed: bool,
) -> ConsumerMember:
    """Return the member one step closer to its target, or unchanged.

    `owned` is what the member reports to hold, None if it reports nothing. `subscribed` are the
    topics of its subscription. `is_held` returns whether any member holds a partition.
    """
    match member.state:
        case MemberState.STABLE if member.member_epoch == target.epoch:
            return _unsubscribe(member, owned, subscribed) if subscription_changed else member
        case MemberState.UNREVOKED_PARTITIONS if _holds_any(owned, member.pending_revocation):
            return _unsubscribe(member, owned, subscribed) if subscription_changed else member
        case _:
            return _advance(member, target, owned, subscribed, is_held)


def _unsubscribe(
    member: ConsumerMember, owned: Assignment | None, subscribed: Collection[uuid.UUID]
) -> ConsumerMember:
    """Revoke the topics that the member does not subscribe to."""
    gone = {topic: parts for topic, parts in member.assigned.items() if topic not in subscribed}
    if not gone:
        return member
    kept = {topic: parts for topic, parts in member.assigned.items() if topic in subscribed}
    pending = dict(member.pending_revocation)
    for topic, partitions in gone.items():
        pending[topic] = {**pending.get(topic, {}), **partitions}
    changed = member.at_epoch(member.member_epoch)._replace(assigned=kept)
    if _holds_any(owned, pending):
        return changed._replace(state=MemberState.UNREVOKED_PARTITIONS, pending_revocation=pending)
    return changed


def _advance(
    member: ConsumerMember,
    target: Target,
    owned: Assignment | None,
    subscribed: Collection[uuid.UUID],
    is_held: Callable[[uuid.UUID, int], bool],
) -> ConsumerMember:
    kept: dict[uuid.UUID, dict[int, int]] = {}
    revoked: dict[uuid.UUID, dict[int, int]] = {}
    added: dict[uuid.UUID, dict[int, int]] = {}
    waits_for_others = False
    for topic in {**target.assignment, **member.assigned}:
        wanted = target.assignment.get(topic, frozenset()) if topic in subscribed else frozenset()
        held = member.assigned.get(topic, {})
        pending = member.pending_revocation.get(topic, {})
        keep = {partition: epoch for partition, epoch in held.items() if partition in wanted}
        revoke = {partition: epoch for partition, epoch in held.items() if partition not in wanted}
        add = {}
        for partition in wanted.difference(keep):
            # What the member itself has just revoked is free: no other member can hold it.
            if is_held(topic, partition) and partition not in pending:
                waits_for_others = True
            else:
                add[partition] = target.epoch
        for into, partitions in ((kept, keep), (revoked, revoke), (added, add)):
            if partitions:
                into[topic] = partitions
    if revoked and _holds_any(owned, revoked):
        return member.at_epoch(member.member_epoch)._replace(
            state=MemberState.UNREVOKED_PARTITIONS, assigned=kept, pending_revocation=revoked
        )
    for topic, partitions in added.items():
        kept[topic] = {**kept.get(topic, {}), **partitions}
    return member.at_epoch(target.epoch)._replace(
        state=MemberState.UNRELEASED_PARTITIONS if waits_for_others else MemberState.STABLE,
        assigned=kept,
        pending_revocation=NOTHING_EPOCHED,
    )


def _holds_any(owned: Assignment | None, partitions: EpochedAssignment) -> bool:
    """Return whether the member holds one of the partitions. Without a report it holds them all."""
    if owned is None:
        return True
    return any(
        not partitions.get(topic, {}).keys().isdisjoint(indexes) for topic, indexes in owned.items()
    )
