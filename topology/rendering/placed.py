"""A topology whose hosts are containers: one for each process. Pure.

A container has an address of its own. So a listener, and the HTTP of a process, has the same port
in every container, and binds every address.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, NamedTuple

from topology.deployment.broker_daemons import zookeeper_of
from topology.model import Cluster, Topology, ZooKeeperProcess
from topology.model.cluster import AggregatorEndpoint, Broker, BrokerHttp

LISTENER_PORT: Final = 9092
"""Port of the first listener; the others follow, one by one."""
ZOOKEEPER_PORT: Final = 2181
"""Port for clients; the two ports between the nodes follow."""
ZOOKEEPER_TLS_PORT: Final = 2281
"""Port for clients that connect by TLS."""
HTTP_PORT: Final = 8080
"""Port of health and metrics."""
ANY_ADDRESS: Final = "0.0.0.0"
OUTSIDE: Final = "OUTSIDE"
"""Name of the listener for clients outside of the containers, without a free suffix."""
PORT_MAX: Final = 65_535
_NO_LABEL: Final = re.compile(r"[^a-z0-9-]+")


class Place(NamedTuple):
    """A container of a set of equal ones, such as the brokers of a cluster."""

    role: str
    of: str
    """Name of the cluster or of the ZooKeeper."""
    number: int
    """Id of a broker; place of any other process, from 1."""
    datacenter: str

    @property
    def set_name(self) -> str:
        """The name of the set, such as broker-ewr: a DNS label."""
        return dns_label(f"{self.role}-{self.of}")

    @property
    def name(self) -> str:
        """The name of the container, such as broker-ewr-1: a DNS label."""
        return f"{self.set_name}-{self.number}"


AddressOf = Callable[[Place], str]
"""Returns the name that the other containers resolve."""


def dns_label(text: str) -> str:
    """Return the text as a DNS label (RFC 1123)."""
    return _NO_LABEL.sub("-", text.lower()).strip("-")


def placed(topology: Topology, address: AddressOf, outside: str | None = None) -> Topology:
    """Return the topology with the processes of our own clusters in containers.

    With `outside`, each broker has one more listener, which is as secure as the first one. There
    it advertises `outside`, and the port of its first listener in the file. If another broker has
    that port, it is the next free one.
    """
    taken: set[int] = set()
    clusters = [
        each if each.effective_kind == "external" else _cluster(each, address, outside, taken)
        for each in topology.clusters
    ]
    zookeepers = [
        _zookeeper(each, address, _datacenter_of(topology, each))
        for each in topology.effective_zookeepers
    ]
    # Every port binds every address. Who may reach a container is its network's affair.
    http_security = topology.http_security.model_copy(update={"allow_insecure": True})
    return topology.model_copy(
        update={
            "zookeepers": zookeepers,
            "clusters": clusters,
            "http_security": http_security,
        }
    )


def free_port(wanted: int, taken: set[int]) -> int:
    """Return the first port from `wanted` on that is not taken, and add it to those."""
    port = next(each for each in range(wanted, PORT_MAX + 1) if each not in taken)
    taken.add(port)
    return port


def _datacenter_of(topology: Topology, server: ZooKeeperProcess) -> str:
    """Return the datacenter of the first cluster that uses a server; empty if none does."""
    for cluster in topology.clusters:
        if cluster.effective_kind != "external" and zookeeper_of(topology, cluster)[0] == server:
            return cluster.effective_datacenter
    return ""


def _zookeeper(server: ZooKeeperProcess, address: AddressOf, datacenter: str) -> ZooKeeperProcess:
    hosts = [
        address(Place("zookeeper", server.name, number, datacenter))
        for number in range(1, len(server.node_list) + 1)
    ]
    if server.client_tls is not None:
        tls = server.client_tls.model_copy(update={"port": ZOOKEEPER_TLS_PORT})
        server = server.model_copy(update={"client_tls": tls})
    if len(hosts) == 1:
        return server.model_copy(update={"host": hosts[0], "port": ZOOKEEPER_PORT})
    return server.model_copy(update={"hosts": hosts, "nodes": 1, "port": ZOOKEEPER_PORT})


def _cluster(cluster: Cluster, address: AddressOf, outside: str | None, taken: set[int]) -> Cluster:
    inner = cluster.inter_broker_listener.name
    listeners = [
        each.model_copy(update={"bind": ANY_ADDRESS, "advertised_host": None})
        for each in cluster.listeners
    ]
    ports = {each.name: LISTENER_PORT + index for index, each in enumerate(listeners)}
    name = _free_name(set(ports))
    if outside is not None:
        own_keys = {"name": name, "advertised_host": outside, "former_inter_broker": False}
        listeners.append(listeners[0].model_copy(update=own_keys))
    here = cluster.effective_datacenter
    brokers = []
    for broker in cluster.broker_list:
        own = dict(ports)
        if outside is not None:
            own[name] = free_port(broker.ports[cluster.listeners[0].name], taken)
        brokers.append(
            Broker(
                id=broker.id,
                host=address(Place("broker", cluster.name, broker.id, here)),
                # A rack that is the host by default is the container.
                rack=None if broker.rack == broker.host else broker.rack,
                log_dirs=list(broker.log_dirs) or None,
                ports=own,
            )
        )
    hosts = len(cluster.mirror.hosts or [cluster.home])
    workers = range(1, hosts * cluster.mirror.workers + 1)
    update: dict[str, object] = {
        "listeners": [
            each.model_copy(update={"inter_broker": each.name == inner}) for each in listeners
        ],
        "brokers": brokers,
        "http": BrokerHttp(host=ANY_ADDRESS, port=HTTP_PORT),
        "mirror": cluster.mirror.model_copy(
            update={
                "host": ANY_ADDRESS,
                "port": HTTP_PORT,
                "workers": 1,
                "hosts": [address(Place("mirror", cluster.name, each, here)) for each in workers],
            }
        ),
    }
    if cluster.has_aggregator:
        endpoint = cluster.aggregator or AggregatorEndpoint()
        update["aggregator"] = endpoint.model_copy(update={"host": ANY_ADDRESS, "port": HTTP_PORT})
    return cluster.model_copy(update=update)


def _free_name(taken: set[str]) -> str:
    """Return a name for the listener of clients outside that no other listener has."""
    names = (OUTSIDE, *(f"{OUTSIDE}_{number}" for number in range(2, len(taken) + 3)))
    return next(each for each in names if each not in taken)
