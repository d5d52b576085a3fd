"""The server-side assignors: complete, balanced, sticky, co-partitioned."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from local_cluster.groups.consumer.assignors import Assignor, MemberSpec, assign_range, uniform
from local_cluster.groups.consumer.model import NOTHING, Assignment

A, B, C = (uuid.UUID(int=number) for number in (1, 2, 3))
TOPICS = {A: 5, B: 3, C: 1}


def member(name: str, *topics: uuid.UUID, has: Assignment = NOTHING) -> MemberSpec:
    return MemberSpec(name, None, frozenset(topics), has)


def again(
    assignor: Assignor, members: Sequence[MemberSpec], partitions: dict[uuid.UUID, int]
) -> dict[str, Assignment]:
    """Assign, make that the previous target, and assign again."""
    first = assignor(members, partitions)
    return assignor([m._replace(assignment=first[m.member_id]) for m in members], partitions)


def flat(assignment: dict[str, Assignment]) -> list[tuple[uuid.UUID, int]]:
    return [
        (topic, index) for mine in assignment.values() for topic in mine for index in mine[topic]
    ]


def count(assignment: Assignment) -> int:
    return sum(len(indexes) for indexes in assignment.values())


def test_uniform_gives_everybody_equally_much() -> None:
    assigned = uniform([member(name, A, B) for name in "mno"], TOPICS)
    assert sorted(count(mine) for mine in assigned.values()) == [2, 3, 3]
    assert len(set(flat(assigned))) == len(flat(assigned)) == 8


def test_uniform_moves_no_more_than_a_new_member_needs() -> None:
    before = uniform([member("m", A, B), member("n", A, B)], TOPICS)
    members = [member(name, A, B, has=mine) for name, mine in before.items()] + [member("o", A, B)]
    after = uniform(members, TOPICS)
    assert count(after["o"]) in (2, 3)
    for name in "mn":
        for topic, indexes in after[name].items():
            assert indexes <= before[name][topic], "no partition moves between old members"


def test_uniform_over_unequal_subscriptions_makes_up_for_them() -> None:
    assigned = uniform([member("m", A, B, C), member("n", A)], TOPICS)
    assert count(assigned["m"]) - count(assigned["n"]) <= 1
    assert set(assigned["n"]) == {A}


def test_range_keeps_topics_of_equal_size_together() -> None:
    assigned = assign_range([member(name, A, B) for name in "mno"], {A: 7, B: 7})
    for mine in assigned.values():
        assert mine[A] == mine[B]
        assert max(mine[A]) - min(mine[A]) == len(mine[A]) - 1, "a range"
    assert [count(assigned[name]) for name in "mno"] == [6, 4, 4]


def test_range_keeps_what_members_have() -> None:
    members = [member(name, A) for name in "mn"]
    before = assign_range(members, {A: 6})
    with_third = [m._replace(assignment=before[m.member_id]) for m in members] + [member("o", A)]
    after = assign_range(with_third, {A: 6})
    assert after == {
        "m": {A: frozenset({0, 1})},
        "n": {A: frozenset({3, 4})},
        "o": {A: frozenset({2, 5})},
    }


def test_more_members_than_partitions() -> None:
    for assignor in (uniform, assign_range):
        assigned = assignor([member(name, C) for name in "mno"], TOPICS)
        assert sorted(count(mine) for mine in assigned.values()) == [0, 0, 1]


def test_no_members_and_no_partitions() -> None:
    for assignor in (uniform, assign_range):
        assert assignor([], TOPICS) == {}
        assert assignor([member("m", uuid.UUID(int=9))], {}) == {"m": {}}


topics = st.frozensets(st.sampled_from([A, B, C]))


@given(
    subscriptions=st.lists(topics, min_size=1, max_size=6),
    had=st.lists(st.sampled_from([(t, i) for t in TOPICS for i in range(8)]), unique=True),
)
def test_every_partition_once_only_to_subscribers_and_stable(
    subscriptions: list[frozenset[uuid.UUID]], had: list[tuple[uuid.UUID, int]]
) -> None:
    shares: list[dict[uuid.UUID, set[int]]] = [{} for _ in subscriptions]
    for number, (topic, index) in enumerate(had):
        shares[number % len(shares)].setdefault(topic, set()).add(index)
    members = [
        MemberSpec(f"m{number}", None, topics, {t: frozenset(i) for t, i in share.items()})
        for number, (topics, share) in enumerate(zip(subscriptions, shares, strict=True))
    ]
    wanted = {t for subscribed in subscriptions for t in subscribed}
    for assignor in (uniform, assign_range):
        assigned = assignor(members, TOPICS)
        assert sorted(flat(assigned)) == sorted((t, i) for t in wanted for i in range(TOPICS[t]))
        for spec in members:
            assert assigned[spec.member_id].keys() <= spec.topics
        assert again(assignor, members, TOPICS) == assignor(
            [m._replace(assignment=again(assignor, members, TOPICS)[m.member_id]) for m in members],
            TOPICS,
        ), "a balanced assignment stays"
