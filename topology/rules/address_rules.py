"""Rules on addresses: ports and ZooKeeper chroots that two entries claim. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from topology.model import Cluster, PlacedBroker, ZooKeeperChroot
from topology.problems import Finding, Location, key_text, nearest_name
from topology.rules.cluster_rules import ANY_ADDRESSES, PORT_MAX
from topology.rules.parts import Parts, duplicates

LOOPBACK_NAMES: Final = frozenset({"localhost", "127.0.0.1", "::1"})


def check_zookeepers(parts: Parts) -> Iterator[Finding]:
    for index, server in parts.zookeepers.items():
        last = server.ports[-1]
        if last > PORT_MAX:
            expected = f"a port so that the last one of the ensemble, {last}, is at most {PORT_MAX}"
            yield Finding(("zookeepers", index, "port"), expected)


def check_chroots(parts: Parts) -> Iterator[Finding]:
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
    yield from duplicates(places, "a chroot that no other cluster uses")


def check_ports(parts: Parts) -> Iterator[Finding]:
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
    for index in range(len(cluster.broker_list) if cluster.http.base_port else 0):
        yield (*here, "http", "base_port"), cluster.http.host, cluster.http.port_of(index)


def _port_key(
    cluster: Cluster, here: Location, index: int, broker: PlacedBroker, listener: str
) -> Location:
    if not isinstance(cluster.brokers, list):
        return (*here, "brokers", "base_port")
    if cluster.brokers[index].ports is None:
        return (*here, "brokers", index, "port")
    return (*here, "brokers", index, "ports", listener)
