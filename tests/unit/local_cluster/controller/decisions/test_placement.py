"""Placement of new replicas."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from local_cluster.controller.decisions.placement import Site, load_of, place, sites_of
from local_cluster.controller.model.cluster_image import BrokerEndpoints
from tests.unit.local_cluster.controller.samples import broker, partition, topic

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


def test_added_partitions_count_those_of_the_topic() -> None:
    grown = load_of([topic("t", partition(0, 1), partition(1, 2))])
    live = {i: broker(i) for i in (1, 2, 3)}
    placed = place([2, 3], 1, sites_of(live), topic=grown, cluster=grown)
    assert placed == {2: (3,), 3: (1,)}


def test_the_counts_of_the_caller_are_not_changed() -> None:
    before = load_of(())
    place(range(3), 1, sites_of({1: broker(1)}), topic=before, cluster=before)
    assert not before.leaders
    assert not before.replicas


@st.composite
def clusters(draw: st.DrawFn) -> tuple[Site, ...]:
    """Up to nine brokers; hosts may span racks, which is a mistake that happens."""
    hosts = st.sampled_from("uvwxyz")
    racks = st.sampled_from("abc")
    rack_of = draw(st.one_of(st.none(), st.dictionaries(hosts, racks)))
    sites = []
    for broker_id in range(1, draw(st.integers(2, 9)) + 1):
        host = draw(hosts)
        rack = draw(racks) if rack_of is None else rack_of.get(host, f"host {host}")
        sites.append(Site(broker_id, rack, host))
    return tuple(sites)


@given(clusters(), st.integers(1, 4), st.data())
def test_one_host_never_holds_all_replicas_where_there_are_others(
    sites: tuple[Site, ...], partitions: int, data: st.DataObject
) -> None:
    factor = data.draw(st.integers(2, len(sites)))
    by_id = {site.broker_id: site for site in sites}
    placed = place(range(partitions), factor, sites, topic=NOTHING, cluster=NOTHING)
    for replicas in placed.values():
        assert len(set(replicas)) == factor
        on_hosts = {by_id[replica].host for replica in replicas}
        assert len(on_hosts) > 1 or len({site.host for site in sites}) == 1


@given(clusters(), st.data())
def test_replicas_spread_evenly_over_racks_and_then_over_hosts(
    sites: tuple[Site, ...], data: st.DataObject
) -> None:
    """Holds if no host is in two racks, and there are several racks."""
    rack_of = {site.host: site.rack for site in sites}
    if any(rack_of[site.host] != site.rack for site in sites):
        return
    by_id = {site.broker_id: site for site in sites}
    factor = data.draw(st.integers(1, len(sites)))
    brokers_in = Counter(site.rack for site in sites)
    several_racks = len(brokers_in) > 1
    for replicas in place(range(3), factor, sites, topic=NOTHING, cluster=NOTHING).values():
        held = Counter(by_id[replica].rack for replica in replicas)
        room = [rack for rack, count in brokers_in.items() if held[rack] < count]
        assert all(held[rack] <= held[other] + 1 for rack in held for other in room)
        for rack in held if several_racks else ():
            inside = {by_id[replica].host for replica in replicas if by_id[replica].rack == rack}
            hosts = {site.host for site in sites if site.rack == rack}
            assert len(inside) == min(held[rack], len(hosts))
