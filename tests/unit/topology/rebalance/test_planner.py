"""Plans for any cluster and any assignment."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from local_cluster.client.model import TopicPartition
from local_cluster.controller.decisions.placement import Site, spread
from topology.rebalance.planner import CannotPlan, Move, PartitionLayout, plan_moves

Layouts = dict[TopicPartition, PartitionLayout]


def sites(*ids: int) -> list[Site]:
    """Return brokers in one rack on one host, so that only the balance counts."""
    return [Site(broker_id, "r", "h") for broker_id in ids]


def layouts(*replicas: tuple[int, ...], topic: str = "t", size_bytes: int = 10) -> Layouts:
    return {
        TopicPartition(topic, index): PartitionLayout(replicas=ids, size_bytes=size_bytes)
        for index, ids in enumerate(replicas)
    }


def carried_out(partitions: Layouts, moves: list[Move]) -> Layouts:
    after = {
        move.partition: PartitionLayout(replicas=move.after, size_bytes=move.size_bytes)
        for move in moves
    }
    return {**partitions, **after}


def held(partitions: Layouts) -> Counter[int]:
    return Counter(replica for each in partitions.values() for replica in each.replicas)


def led(partitions: Layouts) -> Counter[int]:
    return Counter(each.replicas[0] for each in partitions.values())


def test_a_new_broker_gets_its_share_and_nothing_else_moves() -> None:
    before = layouts(*[(1, 2, 3)] * 4)
    moves = plan_moves(before, sites(1, 2, 3, 4))
    assert sum(len(move.adding) for move in moves) == 3
    assert all(set(move.adding) == {4} for move in moves if move.adding)
    after = carried_out(before, moves)
    assert held(after) == {1: 3, 2: 3, 3: 3, 4: 3}
    assert led(after) == {1: 1, 2: 1, 3: 1, 4: 1}


def test_a_drained_broker_holds_nothing_and_only_its_replicas_move() -> None:
    before = layouts((1, 2), (2, 3), (3, 1), (2, 1))
    moves = plan_moves(before, sites(1, 2, 3), frozenset({3}))
    assert [move.partition.partition for move in moves] == [1, 2]
    assert {move.partition.partition: move.after for move in moves} == {1: (2, 1), 2: (2, 1)}


def test_a_broker_that_is_dead_can_be_drained() -> None:
    (move,) = plan_moves(layouts((1, 9)), sites(1, 2), frozenset({9}))
    assert move.after == (1, 2)


def test_replicas_of_a_broker_that_is_away_stay() -> None:
    assert plan_moves(layouts((1, 9), (9, 1)), sites(1)) == []


def test_too_few_brokers_to_drain_one() -> None:
    with pytest.raises(CannotPlan) as refused:
        plan_moves(layouts((1, 2), (1,)), sites(1, 2), frozenset({2}))
    assert str(refused.value) == "t-0 has 2 replicas, and 1 brokers stay"


def test_a_partition_crowded_on_one_host_is_spread() -> None:
    crowded = [Site(1, "r", "x"), Site(2, "r", "x"), Site(3, "r", "y")]
    (move,) = plan_moves(layouts((1, 2)), crowded)
    assert set(move.after) in ({1, 3}, {2, 3})


def test_what_copies_least_comes_first() -> None:
    before = layouts((1,), (1,), (1,), (1,), topic="big", size_bytes=1_000)
    before |= layouts((1,), (1,), topic="small", size_bytes=1)
    moves = plan_moves(before, sites(1, 2))
    assert [move.copied_bytes for move in moves] == sorted(m.copied_bytes or 0 for m in moves)
    assert len(moves) == 3


def test_a_size_that_nobody_knows_is_not_known() -> None:
    unknown = {TopicPartition("t", 0): PartitionLayout(replicas=(9,))}
    (move,) = plan_moves(unknown, sites(1), frozenset({9}))
    assert move.copied_bytes is None


@st.composite
def clusters(draw: st.DrawFn) -> tuple[Layouts, list[Site]]:
    brokers = [
        Site(broker_id, draw(st.sampled_from("ab")), draw(st.sampled_from("uvw")))
        for broker_id in range(1, draw(st.integers(1, 6)) + 1)
    ]
    return draw(assignments([each.broker_id for each in brokers])), brokers


@st.composite
def assignments(draw: st.DrawFn, ids: list[int]) -> Layouts:
    partitions: Layouts = {}
    for topic in "st":
        factor = draw(st.integers(1, len(ids)))
        orders = draw(st.lists(st.permutations(ids), max_size=8))
        found = [tuple(order[:factor]) for order in orders]
        partitions |= layouts(*found, topic=topic, size_bytes=draw(st.integers(0, 9)))
    return partitions


@given(clusters())
def test_a_rebalanced_cluster_stays_as_it_is(cluster: tuple[Layouts, list[Site]]) -> None:
    before, brokers = cluster
    by_id = {site.broker_id: site for site in brokers}
    moves = plan_moves(before, brokers)
    after = carried_out(before, moves)
    for key, layout in after.items():
        assert len(set(layout.replicas)) == len(before[key].replicas)
        crowding = [
            spread([by_id[each] for each in which[key].replicas]) for which in (before, after)
        ]
        assert crowding[1] <= crowding[0]
    assert plan_moves(after, brokers) == []


@given(clusters(), st.data())
def test_a_plan_may_be_carried_out_in_part_and_gone_on_with(
    cluster: tuple[Layouts, list[Site]], data: st.DataObject
) -> None:
    before, brokers = cluster
    if len(brokers) < 2 or any(len(each.replicas) == len(brokers) for each in before.values()):
        return
    drained = frozenset({data.draw(st.sampled_from([site.broker_id for site in brokers]))})
    moves = plan_moves(before, brokers, drained)
    part = carried_out(before, moves[: data.draw(st.integers(0, len(moves)))])
    rest = plan_moves(part, brokers, drained)
    assert {move.partition for move in rest} <= {move.partition for move in moves}
    end = carried_out(part, rest)
    assert not held(end).keys() & drained
    # Only what the drained broker held was copied.
    assert sum(len(m.adding) for m in moves) == sum(held(before)[each] for each in drained)


@given(st.integers(1, 6).flatmap(lambda n: assignments(list(range(1, n + 1)))), st.integers(1, 3))
def test_balance_takes_as_few_copies_as_it_can(before: Layouts, added: int) -> None:
    ids = sorted(held(before).keys() | {1})
    ids += range(10, 10 + added)
    moves = plan_moves(before, sites(*ids))
    after = held(carried_out(before, moves))
    counts = [after[each] for each in ids]
    assert max(counts) - min(counts) <= 1
    total, now = sum(counts), held(before)
    too_many = sum(max(now[each] - -(-total // len(ids)), 0) for each in ids)
    too_few = sum(max(total // len(ids) - now[each], 0) for each in ids)
    assert sum(len(move.adding) for move in moves) == max(too_many, too_few)
