"""The assignors of the server, `uniform` and `range` (KIP-848). Deterministic; keep what they can.

uniform: members hold equally many partitions, apart by at most one where all members subscribe to
the same topics; then as few partitions as possible move. range: each topic for itself, equally
many partitions per member, in ranges, so that topics with equally many partitions are laid out
alike (co-partitioning); a member keeps its lowest partitions.

Behaviour as Kafka's UniformAssignor and RangeAssignor; where Kafka takes members in the order of
a hash map, here they are in the order of their instance ids, then of their member ids.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from local_cluster.groups.consumer.model import NOTHING, Assignment

BALANCING_ROUNDS_MAX: Final = 100
"""Of the uniform assignor over unequal subscriptions; every round but the last one improves."""


class MemberSpec(NamedTuple):
    """One member as an assignor sees it."""

    member_id: str
    instance_id: str | None
    topics: frozenset[uuid.UUID]
    assignment: Assignment
    """Its target so far."""


Partitions = Mapping[uuid.UUID, int]
"""How many partitions each topic has; topics that do not exist are not there."""
Assignor = Callable[[Sequence[MemberSpec], Partitions], dict[str, Assignment]]

_Held = dict[str, dict[uuid.UUID, set[int]]]


def uniform(members: Sequence[MemberSpec], partitions: Partitions) -> dict[str, Assignment]:
    """As many partitions for each member as for the others, and as few moves as possible."""
    if not members:
        return {}
    members = _in_order(members)
    held = _kept(members, partitions)
    if len({frozenset(member.topics & partitions.keys()) for member in members}) == 1:
        _fill_equally(members, partitions, held)
    else:
        _fill_unequally(members, partitions, held)
    return _frozen(held)


def assign_range(members: Sequence[MemberSpec], partitions: Partitions) -> dict[str, Assignment]:
    """Ranges of each topic for the members that subscribe to it."""
    held: _Held = {member.member_id: {} for member in members}
    ordered = _in_order(members)
    for topic in sorted(partitions):
        subscribers = [member for member in ordered if topic in member.topics]
        if subscribers:
            _assign_topic_range(topic, partitions[topic], subscribers, held)
    return _frozen(held)


ASSIGNORS: Final[Mapping[str, Assignor]] = {"uniform": uniform, "range": assign_range}


def _in_order(members: Sequence[MemberSpec]) -> list[MemberSpec]:
    return sorted(members, key=lambda m: (m.instance_id is None, m.instance_id or "", m.member_id))


def _kept(members: Sequence[MemberSpec], partitions: Partitions) -> _Held:
    """What members hold and may go on holding; a partition that two hold stays with the first."""
    held: _Held = {}
    taken: dict[uuid.UUID, set[int]] = {}
    for member in members:
        mine = held[member.member_id] = {}
        for topic, indexes in member.assignment.items():
            if topic in member.topics and topic in partitions:
                others = taken.setdefault(topic, set())
                keep = {index for index in indexes if index < partitions[topic]} - others
                others |= keep
                if keep:
                    mine[topic] = keep
    return held


def _free(partitions: Partitions, held: _Held) -> list[tuple[uuid.UUID, int]]:
    taken = {
        (topic, index)
        for mine in held.values()
        for topic, indexes in mine.items()
        for index in indexes
    }
    return [
        (topic, index)
        for topic in sorted(partitions)
        for index in range(partitions[topic])
        if (topic, index) not in taken
    ]


def _fill_equally(members: Sequence[MemberSpec], partitions: Partitions, held: _Held) -> None:
    topics = members[0].topics & partitions.keys()
    subscribed = {topic: partitions[topic] for topic in topics}
    quota, extra = divmod(sum(subscribed.values()), len(members))
    # Members that hold more than the quota keep one more, as far as there are extra ones.
    quotas: dict[str, int] = {}
    for member in sorted(members, key=lambda m: _count(held[m.member_id]) <= quota):
        quotas[member.member_id] = quota + (1 if extra > 0 else 0)
        extra -= 1
    for member in members:
        mine = held[member.member_id]
        surplus = _count(mine) - quotas[member.member_id]
        for topic in sorted(mine, reverse=True):
            for index in sorted(mine[topic], reverse=True)[: max(surplus, 0)]:
                mine[topic].remove(index)
                surplus -= 1
    free = iter(_free(subscribed, held))
    for member in members:
        mine = held[member.member_id]
        for _ in range(quotas[member.member_id] - _count(mine)):
            topic, index = next(free)
            mine.setdefault(topic, set()).add(index)


def _fill_unequally(members: Sequence[MemberSpec], partitions: Partitions, held: _Held) -> None:
    subscribers = {
        topic: [member.member_id for member in members if topic in member.topics]
        for topic in partitions
    }
    counts = {member.member_id: _count(held[member.member_id]) for member in members}
    # Topics with few subscribers first: the others can make up for them.
    for topic, index in sorted(_free(partitions, held), key=lambda f: len(subscribers[f[0]])):
        if subscribers[topic]:
            least = min(subscribers[topic], key=counts.__getitem__)
            held[least].setdefault(topic, set()).add(index)
            counts[least] += 1
    topics = sorted(partitions, key=lambda topic: (len(subscribers[topic]), topic))
    for _ in range(BALANCING_ROUNDS_MAX):
        moved = [_balance_topic(topic, subscribers[topic], held, counts) for topic in topics]
        if not any(moved):
            return


def _balance_topic(
    topic: uuid.UUID, subscribers: Sequence[str], held: _Held, counts: dict[str, int]
) -> bool:
    """Move partitions of one topic from who holds most to who holds least. Whether any moved."""
    moved = False
    while True:
        holders = [member for member in subscribers if held[member].get(topic)]
        if not holders:
            return moved
        most = max(holders, key=counts.__getitem__)
        least = min(subscribers, key=counts.__getitem__)
        if counts[most] - counts[least] < 2:
            return moved
        index = max(held[most][topic])
        held[most][topic].remove(index)
        held[least].setdefault(topic, set()).add(index)
        counts[most] -= 1
        counts[least] += 1
        moved = True


def _assign_topic_range(
    topic: uuid.UUID, count: int, subscribers: Sequence[MemberSpec], held: _Held
) -> None:
    quota, extra = divmod(count, len(subscribers))
    taken: set[int] = set()
    unfilled: list[str] = []
    for member in subscribers:
        had = sorted(index for index in member.assignment.get(topic, ()) if index < count)
        had = [index for index in had if index not in taken]
        keep = had[:quota]
        if len(had) > quota and extra > 0:
            extra -= 1
            keep = had[: quota + 1]
        else:
            unfilled.append(member.member_id)
        if keep:
            held[member.member_id][topic] = set(keep)
            taken.update(keep)
    free = [index for index in range(count) if index not in taken]
    for member_id in unfilled:
        mine = held[member_id].setdefault(topic, set())
        missing = quota - len(mine)
        if extra > 0:
            extra -= 1
            missing += 1
        mine.update(free[:missing])
        free = free[missing:]


def _count(mine: Mapping[uuid.UUID, set[int]]) -> int:
    return sum(len(indexes) for indexes in mine.values())


def _frozen(held: _Held) -> dict[str, Assignment]:
    return {
        member_id: {topic: frozenset(indexes) for topic, indexes in mine.items() if indexes}
        or NOTHING
        for member_id, mine in held.items()
    }
