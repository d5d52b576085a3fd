"""Placement: the brokers of the replicas of new partitions.

Guarantees:

- No broker holds two replicas of a partition.
- The brokers of one host never hold all replicas if there are other hosts, even at the cost of a
  rack.
- Replicas spread evenly over the racks, then over the hosts of a rack, then to the brokers that
  hold least.
- The numbers of leaders of one topic differ by at most one between brokers.
- The same input gives the same placement. Kafka starts at a random broker; here the brokers that
  hold least come first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from local_cluster.controller.model.cluster_image import BrokerEndpoints, TopicState


class Site(NamedTuple):
    """A broker as placement sees it."""

    broker_id: int
    rack: str
    host: str


def sites_of(brokers: Mapping[int, BrokerEndpoints]) -> tuple[Site, ...]:
    """Return the sites of brokers, in the order of their ids."""
    return tuple(site_of(each.id, each.rack, each.host) for _, each in sorted(brokers.items()))


def site_of(broker_id: int, rack: str | None, host: str) -> Site:
    """Return the site of a broker; without a rack its host counts as a rack of its own."""
    return Site(broker_id, rack or f"host {host}", host)


class Load(NamedTuple):
    """The number of leaders and replicas that each broker holds."""

    leaders: Counter[int]
    replicas: Counter[int]

    def add(self, partitions: Iterable[tuple[int, ...]]) -> None:
        """Count the replicas of each partition; the first one is its preferred leader."""
        for replicas in partitions:
            self.leaders.update(replicas[:1])
            self.replicas.update(replicas)


def load_of(topics: Iterable[TopicState]) -> Load:
    """Return what the brokers hold of these topics."""
    load = Load(Counter(), Counter())
    for topic in topics:
        load.add(partition.replicas for partition in topic.partitions.values())
    return load


def place(
    partitions: Iterable[int],
    replication_factor: int,
    sites: tuple[Site, ...],
    *,
    topic: Load,
    cluster: Load,
) -> dict[int, tuple[int, ...]]:
    """Return the replicas by partition, the preferred leader first.

    `topic` counts the existing partitions of the topic, `cluster` those of all topics.
    """
    assert 1 <= replication_factor <= len(sites), "the caller checks the replication factor"
    topic_load = Load(Counter(topic.leaders), Counter(topic.replicas))
    cluster_load = Load(Counter(cluster.leaders), Counter(cluster.replicas))
    placed = {}
    for partition in partitions:
        chosen = _place_one(replication_factor, sites, topic_load, cluster_load)
        placed[partition] = tuple(site.broker_id for site in chosen)
        topic_load.add([placed[partition]])
        cluster_load.add([placed[partition]])
    return placed


def _place_one(
    replication_factor: int, sites: tuple[Site, ...], topic: Load, cluster: Load
) -> list[Site]:
    def leader_cost(site: Site) -> tuple[int, int, int, int]:
        broker_id = site.broker_id
        return (
            topic.leaders[broker_id],
            cluster.leaders[broker_id],
            cluster.replicas[broker_id],
            broker_id,
        )

    def follower_cost(site: Site) -> tuple[Crowding, int, int, int]:
        broker_id = site.broker_id
        return (
            crowding(site, chosen, replication_factor),
            topic.replicas[broker_id],
            cluster.replicas[broker_id],
            broker_id,
        )

    chosen = [min(sites, key=leader_cost)]
    while len(chosen) < replication_factor:
        chosen.append(min((s for s in sites if s not in chosen), key=follower_cost))
    return chosen


class Crowding(NamedTuple):
    """How badly a broker adds to the spread of a partition's replicas; less is better."""

    is_all_on_one_host: bool
    in_its_rack: int
    on_its_host: int


def crowding(site: Site, chosen: Sequence[Site], replication_factor: int) -> Crowding:
    """Return the crowding if `site` holds the next replica of a partition."""
    is_last = len(chosen) + 1 == replication_factor
    return Crowding(
        is_last and bool(chosen) and all(each.host == site.host for each in chosen),
        sum(each.rack == site.rack for each in chosen),
        sum(each.host == site.host for each in chosen),
    )


def spread(held: Sequence[Site]) -> Crowding:
    """Return the crowding of all replicas: pairs in one rack, pairs on one host."""
    hosts = Counter(site.host for site in held)
    return Crowding(
        len(held) > 1 and len(hosts) == 1,
        sum(count * (count - 1) // 2 for count in Counter(site.rack for site in held).values()),
        sum(count * (count - 1) // 2 for count in hosts.values()),
    )
