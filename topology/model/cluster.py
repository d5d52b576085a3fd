"""Clusters: their brokers, listeners and services."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal, NamedTuple

from pydantic import Field, Tag

from local_cluster.client.auth.scram import HASHES
from local_cluster.security.authentication.listener_security import SecurityProtocol
from local_cluster.security.authentication.oauth.settings import HTTPS_PATTERN
from topology.model.link import Link
from topology.model.listener_security import (
    Authorizer,
    PrincipalName,
    Principals,
    Sasl,
    Tls,
    UserName,
)
from topology.model.quotas import QuotaRule
from topology.model.rights import AclRule
from topology.model.scalars import (
    ANY_ADDRESSES,
    BROKERS_MAX,
    LOOPBACK,
    LOOPBACK_NAMES,
    MIRROR_WORKERS_MAX,
    Bootstrap,
    ConfigValue,
    Entry,
    Host,
    Name,
    Port,
    PortOrAny,
    mapping_or,
)
from topology.model.security import SecretPlace, Security
from topology.model.zookeeper import ZooKeeper, ZooKeeperSecurity

LOG_DIR_PATTERN = r"^(/[^\s,]*[^\s,/]|\.|[A-Za-z0-9][A-Za-z0-9_-]{0,62})$"
"""An absolute path, one name, or a dot. Kafka lists log directories with commas, so no comma."""
LISTENER_PATTERN = r"^[A-Za-z][A-Za-z0-9_-]{0,62}$"

LogDirs = Annotated[list[Annotated[str, Field(pattern=LOG_DIR_PATTERN)]], Field(min_length=1)]
Rack = Annotated[str, Field(min_length=1)]


class Listener(Entry):
    """A listener that every broker of the cluster has."""

    name: Annotated[str, Field(pattern=LISTENER_PATTERN)]
    """Listener name, as in Kafka's `listeners`."""
    inter_broker: bool = False
    """Whether this is the inter-broker listener; required if there are several listeners."""
    former_inter_broker: bool = False
    """Whether brokers may still use this PLAINTEXT listener between them, while they move to
    another one: every connection to it counts as a broker's."""
    bind: Host | None = None
    """Address to bind; default: the broker's `host`."""
    advertised_host: Host | None = None
    """Advertised host, which clients connect to; default: the broker's `host`."""
    security_protocol: SecurityProtocol = "PLAINTEXT"
    """Security protocol, by Kafka's name."""
    tls: Tls | None = None
    """Certificates, for SSL and SASL_SSL."""
    sasl: Sasl | None = None
    """Mechanisms and users, for SASL_PLAINTEXT and SASL_SSL."""


class Broker(Entry):
    """A broker process."""

    id: Annotated[int, Field(strict=True, ge=0, le=2_147_483_647)]
    """Broker id, unique in the cluster."""
    host: Host = "127.0.0.1"
    """Host that the broker binds and advertises, unless the listener has other hosts."""
    rack: Rack | None = None
    """Rack of the broker; default: its host."""
    log_dirs: LogDirs | None = None
    """Log directories, usually one per disk: absolute paths, or names of directories under the
    deployment's data directory, which is `.`. The broker uses CLUSTER/broker-ID in each. Default:
    `.` alone. Keep every entry that holds replicas."""
    port: Port | None = None
    """Port, if the cluster has one listener."""
    ports: dict[str, Port] | None = None
    """Port of each listener, by listener name."""


class BrokerCount(Entry):
    """Several brokers on one host, on consecutive ports."""

    count: Annotated[int, Field(strict=True, ge=1, le=BROKERS_MAX)]
    """Number of brokers."""
    base_port: Port
    """Port of the first listener of the first broker; all others follow, one by one."""
    first_id: Annotated[int, Field(strict=True, ge=0)] = 1
    """Id of the first broker."""
    host: Host = "127.0.0.1"
    """Host of all these brokers."""
    rack: Rack | None = None
    """Rack of all these brokers; default: the host."""
    racks: Annotated[list[Rack], Field(min_length=1)] | None = None
    """Racks that are assigned to the brokers in turn, instead of `rack`."""
    log_dirs: LogDirs | None = None
    """Log directories, as for a single broker."""


Brokers = Annotated[
    Annotated[list[Broker], Field(min_length=1), Tag("list")]
    | Annotated[BrokerCount, Tag("mapping")],
    mapping_or("list"),
]


class TopicDefaults(Entry):
    """Defaults of new topics whose creator does not set a value."""

    partitions: Annotated[int, Field(strict=True, ge=1, le=10_000)] | None = None
    """Partitions of a new topic (num.partitions)."""
    replication_factor: Annotated[int, Field(strict=True, ge=1, le=BROKERS_MAX)] | None = None
    """Replicas of a new topic (default.replication.factor)."""
    config: dict[str, ConfigValue] = {}
    """Topic configs by Kafka's names, such as retention.ms."""


class HttpEndpoint(Entry):
    """Where a service serves HTTP."""

    host: Host = "127.0.0.1"
    """Address to bind."""
    port: PortOrAny = 0
    """Port; 0 picks a free one, which `heliograph status` shows."""


class AggregatorEndpoint(HttpEndpoint):
    """Where an aggregator serves HTTP, and whether it probes links."""

    probe: bool = True
    """Probe the links into the cluster end to end, with one record per second in a topic of the
    probe. Links from or to an external cluster are probed only with `probe: true`."""
    worker_hosts: list[Host] | None = None
    """Hosts of the mirror workers that the aggregator may ask. Default: those of the file. A worker
    of `heliograph mirror run` on another host needs an entry."""


class MirrorEndpoint(HttpEndpoint):
    """Where the mirror workers of a target run, and where they serve HTTP."""

    hosts: Annotated[list[Host], Field(min_length=1)] | None = None
    """Hosts of the mirror workers; they share the partitions of the links. Default: the host of the
    first broker."""
    workers: Annotated[int, Field(strict=True, ge=1, le=MIRROR_WORKERS_MAX)] = 1
    """Workers on each of the hosts. Each has one core of work. If `port` is set, the others follow
    the first, one by one."""

    @property
    def ports(self) -> range:
        """The ports of the workers of one host; empty if they pick free ones."""
        return range(self.port, self.port + self.workers) if self.port else range(0)


class BrokerHttp(Entry):
    """Where the brokers of a cluster serve health and metrics."""

    host: Host = "127.0.0.1"
    """Address to bind."""
    base_port: PortOrAny = 0
    """Port of the first broker; the others follow, one by one. 0 picks free ones, which `heliograph
    status` shows."""
    port: Port | None = None
    """Port of every broker, if each has a host of its own; instead of `base_port`."""

    def port_of(self, index: int) -> int:
        """Return the port of a broker by its place in the cluster; 0 picks a free one."""
        if self.port is not None:
            return self.port
        return self.base_port and self.base_port + index


class Cluster(Entry):
    """A cluster of one datacenter, an aggregate, or an existing Kafka."""

    name: Name
    """Unique name, which is also the prefix of the copies of its topics."""
    datacenter: Annotated[str, Field(min_length=1)] | None = None
    """Datacenter in global views; default: the cluster's name."""
    kind: Literal["local", "aggregate", "external"] = "local"
    """`local` for a datacenter, `aggregate` for a target of mirrors, `external` for a Kafka that
    already runs."""
    external: Bootstrap | None = None
    """Bootstrap addresses of an existing Kafka; no broker is started for it."""
    security: Security = Security()
    """Security settings of connections to the cluster: its first listener, if it is our own."""
    principals: Principals = Principals()
    """Principals of single services, in place of the one in `security`."""
    inter_broker_security: Security = Security()
    """How a broker of our own cluster connects to the others, on the inter-broker listener."""
    oauth_allowed_urls: list[Annotated[str, Field(pattern=HTTPS_PATTERN)]] = []
    """Addresses that brokers may ask for keys of tokens; each `keys_url` of `oauth` must be one."""
    broker_principals: list[PrincipalName] | None = None
    """Principals that count as brokers; default: User: and the user of `inter_broker_security`."""
    authorizer: Authorizer | None = None
    """Decide by ACLs what principals may do; default: everything is allowed."""
    users: dict[UserName, SecretPlace] = {}
    """SCRAM users in ZooKeeper, and where the password of each is; `up` creates and changes them,
    and deletes those that it created and the file no longer has."""
    acls: list[AclRule] = []
    """ACLs; `up` creates them, and deletes those that it created and the file no longer has."""
    quotas: list[QuotaRule] = []
    """Client quotas; `up` sets them, and removes those that it created and the file no longer
    has."""
    zookeeper: ZooKeeper = "embedded"
    """`embedded`, a connect string with chroot, or a chroot of a named embedded server."""
    zookeeper_security: ZooKeeperSecurity | None = None
    """As whom brokers and commands use ZooKeeper, and whether znodes get ACLs; default: without a
    user."""
    listeners: Annotated[list[Listener], Field(min_length=1)] = [Listener(name="PLAINTEXT")]
    """Listeners of every broker; default: one PLAINTEXT listener."""
    brokers: Brokers | None = None
    """A list of brokers, or a count and a base port."""
    flush: Literal["fsync", "page_cache"] = "fsync"
    """`fsync` acknowledges after a group commit to disk; `page_cache` before it, as Kafka does."""
    topic_defaults: TopicDefaults = TopicDefaults()
    """Defaults of new topics."""
    config: dict[str, ConfigValue] = {}
    """Broker configs by Kafka's names, such as auto.create.topics.enable."""
    http: BrokerHttp = BrokerHttp()
    """HTTP ports of the brokers: health and metrics."""
    aggregator: AggregatorEndpoint | None = None
    """HTTP endpoint of the aggregator of this cluster; every aggregate has one."""
    mirror: MirrorEndpoint = MirrorEndpoint()
    """Hosts and HTTP endpoint of the mirror workers that write into this cluster."""

    @property
    def effective_kind(self) -> Literal["local", "aggregate", "external"]:
        """The kind; it is `external` wherever `external` has addresses."""
        return "external" if self.external is not None else self.kind

    @property
    def has_aggregator(self) -> bool:
        return self.effective_kind == "aggregate" or self.aggregator is not None

    @property
    def inter_broker_listener(self) -> Listener:
        """The listener that says so, or the first one."""
        return next((each for each in self.listeners if each.inter_broker), self.listeners[0])

    @property
    def former_inter_broker_listener(self) -> Listener | None:
        """The listener that brokers may still use, while they move to another one."""
        return next((each for each in self.listeners if each.former_inter_broker), None)

    @property
    def effective_broker_principals(self) -> list[str]:
        """The principals that count as brokers; empty if certificates decide and none is named."""
        if self.broker_principals is not None:
            return self.broker_principals
        user = self.inter_broker_security.username
        return [] if user is None else [f"User:{user}"]

    @property
    def scram_mechanisms(self) -> list[str]:
        """The SCRAM mechanisms of all listeners, each once."""
        found = {
            mechanism
            for listener in self.listeners
            if listener.sasl is not None
            for mechanism in listener.sasl.mechanisms
        }
        return sorted(found & HASHES.keys())

    @property
    def effective_datacenter(self) -> str:
        return self.datacenter or self.name

    @property
    def home(self) -> str:
        """The host of the first broker: where a service of the cluster runs by default."""
        brokers = self.broker_list
        return brokers[0].host if brokers else LOOPBACK

    def host_of(self, endpoint: HttpEndpoint) -> str:
        """Return where a service runs: the address that it binds, or the cluster's first host."""
        return self.home if endpoint.host in LOOPBACK_NAMES | ANY_ADDRESSES else endpoint.host

    @property
    def mirror_hosts(self) -> list[str]:
        """The host of each mirror worker into the cluster."""
        return self.mirror.hosts or [self.host_of(self.mirror)]

    def probes(self, link: Link, source: Cluster) -> bool:
        """Return whether the aggregator of this cluster, the target, probes a link."""
        if not self.has_aggregator:
            return False
        if link.probe is not None:
            return link.probe
        is_own = "external" not in (source.effective_kind, self.effective_kind)
        return is_own and (self.aggregator is None or self.aggregator.probe)

    @property
    def broker_list(self) -> list[PlacedBroker]:
        """Every broker with the port of every listener; a missing port stays missing."""
        return list(_place(self))


class PlacedBroker(NamedTuple):
    """A broker with all its ports."""

    id: int
    host: str
    rack: str
    ports: dict[str, int]
    """Port by listener name."""
    log_dirs: tuple[str, ...] = ()
    """As the file has them; empty if it has none."""


def _place(cluster: Cluster) -> Iterator[PlacedBroker]:
    names = [listener.name for listener in cluster.listeners]
    if isinstance(cluster.brokers, BrokerCount):
        group = cluster.brokers
        for index in range(group.count):
            first = group.base_port + index * len(names)
            ports = {name: first + offset for offset, name in enumerate(names)}
            racks = group.racks or [group.rack or group.host]
            yield PlacedBroker(
                group.first_id + index,
                group.host,
                racks[index % len(racks)],
                ports,
                tuple(group.log_dirs or ()),
            )
        return
    for broker in cluster.brokers or []:
        ports = dict(broker.ports or {})
        if broker.port is not None:
            ports.setdefault(names[0], broker.port)
        yield PlacedBroker(
            broker.id,
            broker.host,
            broker.rack or broker.host,
            ports,
            tuple(broker.log_dirs or ()),
        )
