"""One member on its way from what it holds to its target (Kafka's CurrentAssignmentBuilder).

A member first gives up what is not in its target, staying in its epoch until it confirms; then it
moves to the target's epoch and gets those partitions that nobody else holds; the rest it gets
when their owners have confirmed. So a partition is held by at most one member at any time.
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
    """What a member shall hold."""

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
    """The member one step further, or the same one.

    `owned` is what the member says that it holds, None where it did not say; `subscribed` the
    topics that it now subscribes to; `is_held` tells whether any member holds a partition.
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
    """Take away the topics that the member no longer subscribes to."""
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
        for partition in wanted - keep.keys():
            # What the member itself has just given up is free: nobody else can hold it.
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
    """Whether the member still holds one of the partitions; it does as long as it has not said."""
    if owned is None:
        return True
    return any(
        not partitions.get(topic, {}).keys().isdisjoint(indexes) for topic, indexes in owned.items()
    )
