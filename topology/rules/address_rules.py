"""Rules on addresses: ports and ZooKeeper chroots that two entries claim. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from local_cluster.http_security.addresses import is_loopback
from topology.model import Cluster, PlacedBroker, ZooKeeperChroot, ZooKeeperProcess
from topology.model.scalars import ANY_ADDRESSES, LOOPBACK_NAMES
from topology.model.zookeeper import NODES_OF_HOSTS
from topology.problems import Finding, Location, key_text, nearest_name
from topology.rules.cluster_rules import PORT_MAX
from topology.rules.parts import Parts, duplicates


def check_zookeepers(parts: Parts) -> Iterator[Finding]:
    for index, server in parts.zookeepers.items():
        here: Location = ("zookeepers", index)
        last = max((port for node in server.node_list for port in node.ports), default=0)
        if last > PORT_MAX:
            expected = f"a port so that the last one of the ensemble, {last}, is at most {PORT_MAX}"
            yield Finding((*here, "port"), expected)
        yield from _check_quorum(server, here)
        if server.hosts is None:
            continue
        if len(server.hosts) not in NODES_OF_HOSTS:
            expected = f"3 or 5 hosts, not {len(server.hosts)}"
            yield Finding((*here, "hosts"), expected, at_key=True)
        for key in ("host", "nodes"):
            if key in server.model_fields_set:
                expected = f"`{key}` or `hosts`, not both"
                yield Finding((*here, key), expected, at_key=True)
        yield from duplicates(
            (((*here, "hosts", i), host) for i, host in enumerate(server.hosts)),
            "a host of its own for each node",
        )


def _check_quorum(server: ZooKeeperProcess, here: Location) -> Iterator[Finding]:
    """Yield what the nodes of an ensemble lack to trust each other."""
    nodes = server.node_list
    if len(nodes) == 1:
        if server.quorum_tls is not None:
            yield Finding(
                (*here, "quorum_tls"), "absent; a single server has no quorum", at_key=True
            )
        return
    reached = [node.host for node in nodes if not is_loopback(node.host)]
    if reached and server.quorum_tls is None and not server.allow_insecure:
        expected = (
            f"`quorum_tls` as well, because other hosts reach the nodes at {reached[0]}; or"
            " `allow_insecure: true` in a network of their own"
        )
        yield Finding((*here, "host" if server.hosts is None else "hosts"), expected, at_key=True)


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
        for node in server.node_list:
            for port in node.ports:
                yield ("zookeepers", index, "port"), node.host, port
    for index, cluster in parts.clusters.items():
        here: Location = ("clusters", index)
        if cluster.effective_kind != "external":
            yield from _broker_claims(cluster, here)
        if cluster.aggregator is not None and cluster.aggregator.port:
            yield (*here, "aggregator", "port"), cluster.aggregator.host, cluster.aggregator.port
        if cluster.mirror.port:
            for port in cluster.mirror.ports:
                yield (*here, "mirror", "port"), cluster.mirror.host, port


def check_mirror_hosts(parts: Parts) -> Iterator[Finding]:
    """Check that each host of mirror workers is named once, and that all can bind the endpoint."""
    for index, cluster in parts.clusters.items():
        mirror = cluster.mirror
        if mirror.hosts is None:
            continue
        here: Location = ("clusters", index, "mirror")
        yield from duplicates(
            (((*here, "hosts", i), host) for i, host in enumerate(mirror.hosts)),
            "a host that is not listed yet",
        )
        if mirror.host not in ANY_ADDRESSES | LOOPBACK_NAMES:
            expected = "0.0.0.0 or 127.0.0.1, which each of the `hosts` can bind"
            yield Finding((*here, "host"), expected)


def _broker_claims(cluster: Cluster, here: Location) -> Iterator[tuple[Location, str, int]]:
    binds = {listener.name: listener.bind for listener in cluster.listeners}
    for index, broker in enumerate(cluster.broker_list):
        for name, port in broker.ports.items():
            host = binds.get(name) or broker.host
            yield _port_key(cluster, here, index, broker, name), host, port
    http = cluster.http
    for index, broker in enumerate(cluster.broker_list):
        if http.port is not None:
            # Each host has a loopback and a wildcard address of its own.
            is_of_each = http.host in ANY_ADDRESSES | LOOPBACK_NAMES
            host = broker.host if is_of_each else http.host
            yield (*here, "http", "port"), host, http.port
        elif http.base_port:
            yield (*here, "http", "base_port"), http.host, http.port_of(index)


def _port_key(
    cluster: Cluster, here: Location, index: int, broker: PlacedBroker, listener: str
) -> Location:
    if not isinstance(cluster.brokers, list):
        return (*here, "brokers", "base_port")
    if cluster.brokers[index].ports is None:
        return (*here, "brokers", index, "port")
    return (*here, "brokers", index, "ports", listener)
