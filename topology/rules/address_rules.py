"""Rules on ports that two entries claim, and on the hosts of mirror workers. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from topology.model import Cluster, PlacedBroker
from topology.model.scalars import ANY_ADDRESSES, LOOPBACK_NAMES
from topology.problems import Finding, Location, key_text
from topology.rules.parts import Parts, duplicates
from topology.rules.supervisor_rules import hosts_of_file


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
            for host, port in node.addresses:
                key = ("client_tls", "port") if port == node.tls_port else ("port",)
                yield ("zookeepers", index, *key), host, port
    for index, cluster in parts.clusters.items():
        here: Location = ("clusters", index)
        if cluster.effective_kind != "external":
            yield from _broker_claims(cluster, here)
        if cluster.aggregator is not None and cluster.aggregator.port:
            yield (*here, "aggregator", "port"), cluster.aggregator.host, cluster.aggregator.port
        if cluster.mirror.port:
            for port in cluster.mirror.ports:
                yield (*here, "mirror", "port"), cluster.mirror.host, port
    if parts.supervisors is not None:
        for host in parts.supervisors.hosts or hosts_of_file(parts):
            yield ("supervisors", "port"), host, parts.supervisors.port


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
