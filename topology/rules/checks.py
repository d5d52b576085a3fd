"""The rules between entries of a topology: pure, over whatever entries are right by themselves.

Guarantees: a name, id or port that two entries claim is found, and a reference to nothing.
Not here: types and single values (model/), loops of copying (copy_loops.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from topology.model import (
    Broker,
    BrokerCount,
    Cluster,
    Link,
    LinkNames,
    PlacedBroker,
    ZooKeeperChroot,
    ZooKeeperProcess,
)
from topology.problems import Finding, Location, key_text, nearest_name
from topology.rules.copy_loops import find_copy_loops, find_second_paths
from topology.rules.kafka_configs import check_configs
from topology.rules.name_collisions import find_collisions

LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
PORT_MAX = 65535
ANY_ADDRESSES = frozenset({"0.0.0.0", "::"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """Valid entries by their index in the file, and every name that was given at all."""

    zookeepers: Mapping[int, ZooKeeperProcess] = field(default_factory=dict)
    clusters: Mapping[int, Cluster] = field(default_factory=dict)
    links: Mapping[int, Link] = field(default_factory=dict)
    zookeeper_names: frozenset[str] | set[str] = frozenset()
    cluster_names: frozenset[str] | set[str] = frozenset()


def check_rules(parts: Parts) -> list[Finding]:
    """Every breach of a rule between entries."""
    return [
        *_check_names(parts),
        *_check_zookeepers(parts),
        *_check_clusters(parts),
        *_check_zookeeper_places(parts),
        *_check_ports(parts),
        *_check_links(parts),
    ]


def _check_zookeepers(parts: Parts) -> Iterator[Finding]:
    for index, server in parts.zookeepers.items():
        last = server.ports[-1]
        if last > PORT_MAX:
            expected = f"a port so that the last one of the ensemble, {last}, is at most {PORT_MAX}"
            yield Finding(("zookeepers", index, "port"), expected)


def _check_names(parts: Parts) -> Iterator[Finding]:
    yield from _duplicates(
        ((("zookeepers", i, "name"), each.name) for i, each in parts.zookeepers.items()),
        "a unique ZooKeeper name",
    )
    yield from _duplicates(
        ((("clusters", i, "name"), each.name) for i, each in parts.clusters.items()),
        "a unique cluster name",
    )
    yield from _duplicates(
        (
            (("links", i, "name") if each.name else ("links", i), each.effective_name)
            for i, each in parts.links.items()
        ),
        "a unique link name",
    )


def _duplicates(claims: Iterable[tuple[Location, object]], expected: str) -> Iterator[Finding]:
    first: dict[object, Location] = {}
    for location, value in claims:
        if value in first:
            yield Finding(location, f"{expected}; {value} is taken by {key_text(first[value])}")
        else:
            first[value] = location


def _check_clusters(parts: Parts) -> Iterator[Finding]:
    for index, cluster in parts.clusters.items():
        here: Location = ("clusters", index)
        if cluster.effective_kind == "external":
            yield from _check_external(cluster, here)
            continue
        if "security" in cluster.model_fields_set:
            expected = "absent: our own brokers have no security yet, only external clusters do"
            yield Finding((*here, "security"), expected, at_key=True)
        if not cluster.brokers:
            yield Finding((*here, "brokers"), "a list of brokers or a count", at_key=True)
        yield from _check_listeners(cluster, here)
        yield from check_configs(cluster, here)
        if isinstance(cluster.brokers, list):
            for place, broker in enumerate(cluster.brokers):
                at = (*here, "brokers", place)
                yield from _check_advertised(cluster, broker, at)
                yield from _check_broker_ports(cluster, broker, at)
                yield from _check_log_dirs(broker, at)
            yield from _duplicates(
                (((*here, "brokers", i, "id"), each.id) for i, each in enumerate(cluster.brokers)),
                "a unique broker id",
            )
        elif isinstance(cluster.brokers, BrokerCount):
            last = cluster.brokers.base_port - 1 + cluster.brokers.count * len(cluster.listeners)
            if last > PORT_MAX:
                expected = f"a base port so that the last port, {last}, is at most {PORT_MAX}"
                yield Finding((*here, "brokers", "base_port"), expected)
            yield from _check_advertised(cluster, cluster.brokers, (*here, "brokers"))
            yield from _check_log_dirs(cluster.brokers, (*here, "brokers"))
            yield from _check_racks(cluster.brokers, (*here, "brokers"))


def _check_advertised(
    cluster: Cluster, broker: Broker | BrokerCount, here: Location
) -> Iterator[Finding]:
    """Kafka, too, tells nobody to connect to all addresses of a machine."""
    told = all(listener.advertised_host for listener in cluster.listeners)
    if broker.host in ANY_ADDRESSES and not told:
        expected = (
            f"an address that clients can be told, not {broker.host!r}; a listener's `bind` may be"
            " that, and its `advertised_host` is told instead"
        )
        yield Finding((*here, "host"), expected)


def _check_log_dirs(brokers: Broker | BrokerCount, here: Location) -> Iterator[Finding]:
    yield from _duplicates(
        (((*here, "log_dirs", i), each) for i, each in enumerate(brokers.log_dirs or [])),
        "a log directory that is not listed yet",
    )


def _check_racks(group: BrokerCount, here: Location) -> Iterator[Finding]:
    if group.racks is None:
        return
    if group.rack is not None:
        yield Finding((*here, "rack"), "`rack` or `racks`, not both", at_key=True)
    if len(group.racks) > group.count:
        expected = f"at most as many racks as brokers, {group.count}, not {len(group.racks)}"
        yield Finding((*here, "racks"), expected, at_key=True)
    yield from _duplicates(
        (((*here, "racks", i), each) for i, each in enumerate(group.racks)), "a rack named once"
    )


def _check_external(cluster: Cluster, here: Location) -> Iterator[Finding]:
    if cluster.external is None:
        expected = "`external: host:port`, the bootstrap address of the existing Kafka"
        yield Finding((*here, "kind"), expected)
    if cluster.kind == "aggregate":
        expected = "kind external where `external` names a Kafka; add `aggregator` if it is one"
        yield Finding((*here, "kind"), expected)
    try:
        cluster.security.client(Path())
    except ValueError as error:
        yield Finding((*here, "security"), str(error), at_key=True)
    for key in ("zookeeper", "listeners", "brokers", "flush", "topic_defaults", "config"):
        if key in cluster.model_fields_set:
            expected = "absent: nothing is started for an external cluster"
            yield Finding((*here, key), expected, at_key=True)


def _check_listeners(cluster: Cluster, here: Location) -> Iterator[Finding]:
    listeners = cluster.listeners
    yield from _duplicates(
        (((*here, "listeners", i, "name"), each.name) for i, each in enumerate(listeners)),
        "a unique listener name",
    )
    inter_broker = sum(listener.inter_broker for listener in listeners)
    if inter_broker > 1 or (inter_broker == 0 and len(listeners) > 1):
        expected = f"one listener with inter_broker: true, not {inter_broker}"
        yield Finding((*here, "listeners"), expected, at_key=True)


def _check_broker_ports(cluster: Cluster, broker: Broker, here: Location) -> Iterator[Finding]:
    names = [listener.name for listener in cluster.listeners]
    if broker.port is not None and (broker.ports is not None or len(names) > 1):
        expected = "`ports`, with a port for each listener"
        yield Finding((*here, "port"), f"{expected}: {', '.join(names)}", at_key=True)
        return
    for name in broker.ports or {}:
        if name not in names:
            expected = f"a listener of the cluster: {', '.join(names)}"
            yield Finding((*here, "ports", name), expected, nearest_name(name, names), at_key=True)
    missing = [name for name in names if name not in (broker.ports or {})]
    if broker.port is None and missing:
        key = "port" if broker.ports is None and len(names) == 1 else "ports"
        yield Finding((*here, key), f"a port for listener {', '.join(missing)}", at_key=True)


def _check_zookeeper_places(parts: Parts) -> Iterator[Finding]:
    known = set(parts.zookeeper_names) or {"zookeeper"}
    places: list[tuple[Location, object]] = []
    for index, cluster in parts.clusters.items():
        if cluster.effective_kind == "external":
            continue
        here: Location = ("clusters", index, "zookeeper")
        place = cluster.zookeeper
        if isinstance(place, ZooKeeperChroot):
            if place.embedded not in known:
                expected = f"the name of an entry of zookeepers, not {place.embedded!r}"
                near = nearest_name(place.embedded, known)
                yield Finding((*here, "embedded"), expected, near)
            places.append((here, f"{place.embedded}{place.chroot or f'/{cluster.name}'}"))
        elif place == "embedded":
            first = parts.zookeepers[0].name if 0 in parts.zookeepers else "zookeeper"
            places.append((here, f"{first}/{cluster.name}"))
        else:
            places.append((here, place))
    yield from _duplicates(places, "a chroot that no other cluster uses")


def _check_ports(parts: Parts) -> Iterator[Finding]:
    taken: list[tuple[str, int, Location]] = []
    for location, host, port in _port_claims(parts):
        holder = next(
            (at for other, number, at in taken if number == port and _same_address(host, other)),
            None,
        )
        if holder is not None:
            expected = f"a port of its own; {port} is taken by {key_text(holder)}"
            yield Finding(location, expected)
        taken.append((host, port, location))


def _same_address(one: str, other: str) -> bool:
    return (
        one == other
        or one in ANY_ADDRESSES
        or other in ANY_ADDRESSES
        or (one in LOOPBACK_NAMES and other in LOOPBACK_NAMES)
    )


def _port_claims(parts: Parts) -> Iterator[tuple[Location, str, int]]:
    for index, server in parts.zookeepers.items():
        for port in server.ports:
            yield ("zookeepers", index, "port"), server.host, port
    for index, cluster in parts.clusters.items():
        here: Location = ("clusters", index)
        if cluster.effective_kind != "external":
            yield from _broker_claims(cluster, here)
        for key, endpoint in (("aggregator", cluster.aggregator), ("mirror", cluster.mirror)):
            if endpoint is not None and endpoint.port:
                yield (*here, key, "port"), endpoint.host, endpoint.port


def _broker_claims(cluster: Cluster, here: Location) -> Iterator[tuple[Location, str, int]]:
    binds = {listener.name: listener.bind for listener in cluster.listeners}
    for index, broker in enumerate(cluster.broker_list):
        for name, port in broker.ports.items():
            host = binds.get(name) or broker.host
            yield _port_key(cluster, here, index, broker, name), host, port


def _port_key(
    cluster: Cluster, here: Location, index: int, broker: PlacedBroker, listener: str
) -> Location:
    if not isinstance(cluster.brokers, list):
        return (*here, "brokers", "base_port")
    if cluster.brokers[index].ports is None:
        return (*here, "brokers", index, "port")
    return (*here, "brokers", index, "ports", listener)


def _check_links(parts: Parts) -> Iterator[Finding]:
    pairs: list[tuple[Location, object]] = []
    for index, link in parts.links.items():
        here: Location = ("links", index)
        for key, name in (("source", link.source), ("target", link.target)):
            if name not in parts.cluster_names:
                expected = f"the name of a cluster, not {name!r}"
                near = nearest_name(name, parts.cluster_names)
                yield Finding((*here, key), expected, near)
        if link.source == link.target:
            yield Finding((*here, "target"), "a cluster other than the source")
        if isinstance(link.names, LinkNames) and (link.names.pattern is None) != (
            link.names.to is None
        ):
            yield Finding((*here, "names"), "`pattern` and `to` together", at_key=True)
        targets = [each for each in parts.clusters.values() if each.name == link.target]
        if link.probe and targets and not targets[0].has_aggregator:
            expected = f"`aggregator` in cluster {link.target}, which probes the links into it"
            yield Finding((*here, "probe"), expected)
        pairs.append((here, f"{link.source} to {link.target}"))
    yield from _duplicates(pairs, "one link for each source and target, with all its topics")
    links = list(parts.links.values())
    loops = find_copy_loops(links)
    # A loop doubles everything; to say that as well would only hide it.
    for found in loops or find_second_paths(links):
        index = next(i for i, link in parts.links.items() if link is found.links[-1])
        yield Finding(("links", index, "topics"), found.sentence(), at_key=True)
    for collision in find_collisions(links):
        index = next(i for i, link in parts.links.items() if link is collision.link)
        key = "names" if "names" in collision.link.model_fields_set else "topics"
        yield Finding(("links", index, key), collision.sentence(), at_key=True)
