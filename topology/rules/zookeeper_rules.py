"""Rules on embedded ZooKeeper servers, and on the ZooKeeper of each cluster. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from local_cluster.http_security.addresses import is_loopback
from topology.model import Cluster, ZooKeeperChroot, ZooKeeperProcess
from topology.model.zookeeper import DEFAULT_ZOOKEEPER, NODES_OF_HOSTS
from topology.problems import Finding, Location, nearest_name
from topology.rules.cluster_rules import PORT_MAX
from topology.rules.parts import Parts, duplicates


def check_zookeepers(parts: Parts) -> Iterator[Finding]:
    for index, server in parts.zookeepers.items():
        here: Location = ("zookeepers", index)
        last = max((port for node in server.node_list for _, port in node.addresses), default=0)
        if last > PORT_MAX:
            expected = f"a port so that the last one of the ensemble, {last}, is at most {PORT_MAX}"
            yield Finding((*here, "port"), expected)
        yield from _check_quorum(server, here)
        yield from _check_clients(server, here)
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
        return  # its ports for other nodes are on the loopback
    reached = [node.host for node in nodes if not is_loopback(node.host)]
    if reached and server.quorum_tls is None and not server.allow_insecure:
        expected = (
            f"`quorum_tls` as well, because other hosts reach the nodes at {reached[0]}; or"
            " `allow_insecure: true` in a network of their own"
        )
        yield Finding((*here, "host" if server.hosts is None else "hosts"), expected, at_key=True)


def _check_clients(server: ZooKeeperProcess, here: Location) -> Iterator[Finding]:
    """Yield an error if clients of other hosts reach a server without TLS."""
    reached = [node.client_address for node in server.node_list]
    reached = [(host, port) for host, port in reached if not is_loopback(host)]
    if reached and not server.allow_insecure:
        host, port = reached[0]
        expected = (
            "`client_tls` with `closes_plain_port: true` as well, because other hosts reach"
            f" ZooKeeper without TLS at {host}:{port}; or `allow_insecure: true` in a network of"
            " their own"
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


def check_zookeeper_tls(parts: Parts) -> Iterator[Finding]:
    """Yield clusters and embedded servers of which only one side has TLS."""
    plain_users: dict[str, str] = {}
    for index, cluster in parts.clusters.items():
        server = _server_of(parts, cluster)
        if server is None:
            continue
        security = cluster.zookeeper_security
        if security is None or not security.tls:
            plain_users.setdefault(server.name, cluster.name)
        elif server.client_tls is None:
            expected = f"false, or `client_tls` in zookeepers entry {server.name!r}"
            yield Finding(("clusters", index, "zookeeper_security", "tls"), expected)
        elif server.client_tls.client_ca_file is not None and security.certificate_file is None:
            expected = f"a client certificate, as zookeepers entry {server.name!r} requires one"
            yield Finding(
                ("clusters", index, "zookeeper_security", "certificate_file"), expected, at_key=True
            )
    for index, server in parts.zookeepers.items():
        tls = server.client_tls
        if tls is not None and tls.closes_plain_port and server.name in plain_users:
            expected = f"false while cluster {plain_users[server.name]} connects without TLS"
            yield Finding(("zookeepers", index, "client_tls", "closes_plain_port"), expected)


def _server_of(parts: Parts, cluster: Cluster) -> ZooKeeperProcess | None:
    """Return the embedded server that a cluster uses, if the file has a valid entry for it."""
    place = cluster.zookeeper
    if cluster.effective_kind == "external" or (isinstance(place, str) and place != "embedded"):
        return None
    if isinstance(place, ZooKeeperChroot):
        servers = parts.zookeepers.values()
        return next((each for each in servers if each.name == place.embedded), None)
    return parts.zookeepers.get(0, None if parts.zookeeper_names else DEFAULT_ZOOKEEPER)
