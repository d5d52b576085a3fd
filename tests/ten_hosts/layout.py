"""The hosts and the topology file that describes them. Pure.

Three datacenters, each with a cluster and a ZooKeeper ensemble over three hosts of its own. The
aggregate has a broker and a mirror worker in each datacenter:

    ewr   hosts 1 2 3, broker of the aggregate and aggregator on 4    ensemble of ewr and nyc
    jfk   hosts 5 6 7, broker of the aggregate on 7 as well           ensemble of jfk
    lga   hosts 8 9 10, broker of the aggregate on 10 as well         ensemble of lga

Host 11 comes later, with a fourth broker of ewr. Host 12 replaces host 7.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

DATACENTERS: Final[Mapping[str, tuple[int, ...]]] = {
    "ewr": (1, 2, 3),
    "jfk": (5, 6, 7),
    "lga": (8, 9, 10),
}
AGGREGATE: Final = "nyc"
AGGREGATE_HOSTS: Final = (4, 7, 10)
FIRST_HOSTS: Final = tuple(range(1, 11))
NEW_HOST: Final = 11
"""The host that the deployment grows by."""
LOST_HOST: Final = 7
"""The host that is lost for good: a broker of jfk and of the aggregate, a ZooKeeper node, a mirror
worker."""
SUCCESSOR: Final = 12
TOPIC: Final = "orders"
PARTITIONS: Final = 6
REPLICAS: Final = 3


class Ports(NamedTuple):
    """The same on every host."""

    zookeeper: int = 2181
    """And the two ports behind it, for the nodes of an ensemble."""
    local: int = 9092
    aggregate: int = 9192
    supervisor: int = 9990
    worker: int = 8081
    aggregator: int = 8080


@dataclass(frozen=True)
class Layout:
    """What the file says at a time."""

    addresses: Mapping[int, str]
    """The address of every host that there will ever be, by its number."""
    ports: Ports = field(default_factory=Ports)
    has_new_host: bool = False
    has_successor: bool = False

    def grown(self) -> Layout:
        """Return the layout with a broker of ewr on the new host."""
        return replace(self, has_new_host=True)

    def replaced(self) -> Layout:
        """Return the layout whose lost host is replaced."""
        return replace(self, has_successor=True)

    @property
    def hosts(self) -> tuple[int, ...]:
        """The numbers of the hosts of the file."""
        first = tuple(self._now(number) for number in FIRST_HOSTS)
        return (*first, NEW_HOST) if self.has_new_host else first

    @property
    def clusters(self) -> tuple[str, ...]:
        """The names of all clusters, the aggregate last."""
        return (*DATACENTERS, AGGREGATE)

    def brokers(self, cluster: str) -> Mapping[int, int]:
        """Return the host of each broker by its id."""
        hosts = AGGREGATE_HOSTS if cluster == AGGREGATE else DATACENTERS[cluster]
        found = {index + 1: self._now(number) for index, number in enumerate(hosts)}
        if cluster == "ewr" and self.has_new_host:
            found[len(found) + 1] = NEW_HOST
        return found

    def bootstrap(self, cluster: str) -> str:
        """Return what its clients connect to first."""
        port = self.ports.aggregate if cluster == AGGREGATE else self.ports.local
        hosts = self.brokers(cluster).values()
        return ",".join(f"{self.addresses[number]}:{port}" for number in hosts)

    def text(self) -> str:
        """Return the topology file."""
        return "\n".join(self._lines()) + "\n"

    def _now(self, number: int) -> int:
        return SUCCESSOR if number == LOST_HOST and self.has_successor else number

    def _lines(self) -> Iterator[str]:
        yield "name: shop"
        yield "http_security: {token: {file: token}, allow_insecure: true}"
        yield f"supervisors: {{port: {self.ports.supervisor}}}"
        yield "zookeepers:"
        for name, numbers in DATACENTERS.items():
            hosts = ", ".join(self.addresses[self._now(number)] for number in numbers)
            port = self.ports.zookeeper
            yield f"  - {{name: {name}, port: {port}, hosts: [{hosts}], allow_insecure: true}}"
        yield "clusters:"
        for name in DATACENTERS:
            yield f"  - name: {name}"
            yield from self._cluster_lines(name, zookeeper=name)
        yield f"  - name: {AGGREGATE}"
        yield "    kind: aggregate"
        yield from self._cluster_lines(AGGREGATE, zookeeper="ewr")
        first = self.addresses[AGGREGATE_HOSTS[0]]
        yield f"    aggregator: {{host: {first}, port: {self.ports.aggregator}}}"
        workers = ", ".join(self.addresses[self._now(number)] for number in AGGREGATE_HOSTS)
        yield f"    mirror: {{hosts: [{workers}], port: {self.ports.worker}}}"
        yield "links:"
        for name in DATACENTERS:
            yield f"  - {{source: {name}, target: {AGGREGATE}, topics: [{TOPIC}]}}"

    def _cluster_lines(self, name: str, *, zookeeper: str) -> Iterator[str]:
        port = self.ports.aggregate if name == AGGREGATE else self.ports.local
        yield f"    zookeeper: {{embedded: {zookeeper}, chroot: /{name}}}"
        yield "    brokers:"
        for broker, number in self.brokers(name).items():
            yield f"      - {{id: {broker}, host: {self.addresses[number]}, port: {port}}}"
        yield "    topic_defaults:"
        yield f"      partitions: {PARTITIONS}"
        yield f"      replication_factor: {REPLICAS}"
        yield "      config: {min.insync.replicas: 2}"
        yield "    config: {auto.create.topics.enable: false}"
