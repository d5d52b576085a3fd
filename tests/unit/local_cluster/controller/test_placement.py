"""Where replicas go."""

from __future__ import annotations

from collections import Counter

import pytest

from local_cluster.controller.model import BrokerEndpoints
from local_cluster.controller.placement import load_of, place, sites_of

from .samples import broker, partition, topic

NOTHING = load_of(())


def racks(**by_rack: tuple[int, ...]) -> dict[int, BrokerEndpoints]:
    return {i: broker(i, rack=rack) for rack, ids in by_rack.items() for i in ids}


@pytest.mark.parametrize("brokers", [1, 2, 3, 5])
@pytest.mark.parametrize("partitions", [1, 4, 7, 50])
def test_leaders_differ_by_one_at_most(brokers: int, partitions: int) -> None:
    live = {i: broker(i) for i in range(brokers)}
    placed = place(range(partitions), 1, sites_of(live), topic=NOTHING, cluster=NOTHING)
    counts = Counter(replicas[0] for replicas in placed.values())
    assert sorted(placed) == list(range(partitions))
    assert max(counts.values()) - min(counts[i] for i in live) <= 1


def test_replicas_spread_over_racks() -> None:
    live = racks(a=(1, 2, 3), b=(4,), c=(5,))
    for replicas in place(range(20), 3, sites_of(live), topic=NOTHING, cluster=NOTHING).values():
        assert {live[i].rack for i in replicas} == {"a", "b", "c"}


def test_more_replicas_than_racks_repeat_no_broker() -> None:
    live = racks(a=(1, 2), b=(3, 4))
    for replicas in place(range(8), 4, sites_of(live), topic=NOTHING, cluster=NOTHING).values():
        assert sorted(replicas) == [1, 2, 3, 4]
        assert {live[i].rack for i in replicas[:2]} == {"a", "b"}


def test_without_racks_replicas_spread_over_hosts() -> None:
    live = {
        i: BrokerEndpoints(i, None, {"P": (host, 9000 + i)})
        for i, host in {1: "x", 2: "x", 3: "y", 4: "y"}.items()
    }
    for replicas in place(range(8), 2, sites_of(live), topic=NOTHING, cluster=NOTHING).values():
        assert {live[i].host for i in replicas} == {"x", "y"}


def test_within_a_rack_hosts_count() -> None:
    live = {
        i: BrokerEndpoints(i, "r", {"P": (host, 9000 + i)})
        for i, host in {1: "x", 2: "x", 3: "y"}.items()
    }
    for replicas in place(range(6), 2, sites_of(live), topic=NOTHING, cluster=NOTHING).values():
        assert len({live[i].host for i in replicas}) == 2


def test_the_emptiest_broker_comes_first() -> None:
    cluster = load_of([topic("old", partition(0, 1), partition(1, 2), partition(2, 1))])
    live = {i: broker(i) for i in (1, 2, 3)}
    assert place([0], 1, sites_of(live), topic=NOTHING, cluster=cluster) == {0: (3,)}


def test_added_partitions_count_what_the_topic_has() -> None:
    grown = load_of([topic("t", partition(0, 1), partition(1, 2))])
    live = {i: broker(i) for i in (1, 2, 3)}
    placed = place([2, 3], 1, sites_of(live), topic=grown, cluster=grown)
    assert placed == {2: (3,), 3: (1,)}


def test_the_callers_counts_are_left_alone() -> None:
    before = load_of(())
    place(range(3), 1, sites_of({1: broker(1)}), topic=before, cluster=before)
    assert not before.leaders
    assert not before.replicas
