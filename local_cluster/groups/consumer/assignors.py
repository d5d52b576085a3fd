"""The server-side assignors `uniform` and `range` (KIP-848). Deterministic and sticky.

- uniform: members hold equally many partitions. If all subscribe to the same topics, the counts
  differ by at most one. As few partitions as possible move.
- range: each topic separately, equally many partitions per member, in ranges. So topics with
  equally many partitions get the same layout (co-partitioning). A member keeps its lowest
  partitions.

They behave as Kafka's UniformAssignor and RangeAssignor. Kafka takes members in the order of a
hash map; here they are sorted by instance id, then by member id.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from local_cluster.groups.consumer.model import NOTHING, Assignment

BALANCING_ROUNDS_MAX: Final = 100
"""For the uniform assignor with unequal subscriptions; each round but the last one improves."""


class MemberSpec(NamedTuple):
    """One member as input of an assignor."""

    member_id: str
    instance_id: str | None
    topics: frozenset[uuid.UUID]
    assignment: Assignment
    """Its previous target."""


Partitions = Mapping[uuid.UUID, int]
"""The number of partitions of each existing topic."""
Assignor = Callable[[Sequence[MemberSpec], Partitions], dict[str, Assignment]]

_Held = dict[str, dict[uuid.UUID, set[int]]]


def uniform(members: Sequence[MemberSpec], partitions: Partitions) -> dict[str, Assignment]:
    """Assign equally many partitions to each member, with as few moves as possible."""
    if not members:
        return {}
    members = _in_order(members)
    held = _kept(members, partitions)
    if len({member.topics.intersection(partitions) for member in members}) == 1:
        _fill_equally(members, partitions, held)
    else:
        _fill_unequally(members, partitions, held)
    return _frozen(held)


def assign_range(members: Sequence[MemberSpec], partitions: Partitions) -> dict[str, Assignment]:
    """Assign ranges of each topic to the members that subscribe to it."""
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
    """Return what members hold and may keep; if two hold a partition, the first keeps it."""
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
    topics = members[0].topics.intersection(partitions)
    subscribed = {topic: partitions[topic] for topic in topics}
    quota, extra = divmod(sum(subscribed.values()), len(members))
    # Members that hold more than the quota keep one extra partition, while there are some.
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
    # Topics with few subscribers first: the other topics can balance them.
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
    """Move partitions of a topic from the fullest to the emptiest member; return if any moved."""
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
