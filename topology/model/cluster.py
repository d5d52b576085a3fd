"""Clusters: their brokers, listeners and services."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal, NamedTuple

from pydantic import Field, Tag

from topology.model.scalars import (
    BROKERS_MAX,
    Bootstrap,
    ConfigValue,
    Entry,
    Host,
    Name,
    Port,
    PortOrAny,
    mapping_or,
)
from topology.model.security import Security
from topology.model.zookeeper import ZooKeeper

LOG_DIR_PATTERN = r"^(/[^\s,]*[^\s,/]|\.|[A-Za-z0-9][A-Za-z0-9_-]{0,62})$"
"""An absolute path, one name, or a dot; Kafka tells log directories as a list with commas."""
LISTENER_PATTERN = r"^[A-Za-z][A-Za-z0-9_-]{0,62}$"

LogDirs = Annotated[list[Annotated[str, Field(pattern=LOG_DIR_PATTERN)]], Field(min_length=1)]
Rack = Annotated[str, Field(min_length=1)]


class Listener(Entry):
    """One named listening address of every broker of a cluster."""

    name: Annotated[str, Field(pattern=LISTENER_PATTERN)]
    """Name, as in Kafka's `listeners`."""
    inter_broker: bool = False
    """Whether brokers talk to each other here; needed when there are several listeners."""
    bind: Host | None = None
    """Address to bind; default: the broker's `host`."""
    advertised_host: Host | None = None
    """Host told to clients; default: the broker's `host`."""
    security_protocol: Literal["PLAINTEXT"] = "PLAINTEXT"
    """Kafka's name of the protocol."""


class Broker(Entry):
    """One broker process."""

    id: Annotated[int, Field(strict=True, ge=0, le=2_147_483_647)]
    """Broker id, unique in its cluster."""
    host: Host = "127.0.0.1"
    """Host of the broker: bound, and told to clients, unless the listener says otherwise."""
    rack: Rack | None = None
    """Rack of the broker; default: its host."""
    log_dirs: LogDirs | None = None
    """Places of its logs, each on a disk of its own: absolute paths, or names of directories under
    the deployment's data, which is `.` itself. The broker keeps CLUSTER/broker-ID in each. Default:
    `.` alone. A place that holds replicas stays in the list."""
    port: Port | None = None
    """Port of the only listener."""
    ports: dict[str, Port] | None = None
    """Port of each listener, by listener name."""


class BrokerCount(Entry):
    """Several brokers on one host, on consecutive ports."""

    count: Annotated[int, Field(strict=True, ge=1, le=BROKERS_MAX)]
    """How many brokers."""
    base_port: Port
    """Port of the first listener of the first broker; the others follow it one by one."""
    first_id: Annotated[int, Field(strict=True, ge=0)] = 1
    """Id of the first broker."""
    host: Host = "127.0.0.1"
    """Host of all of them."""
    rack: Rack | None = None
    """Rack of all of them; default: the host."""
    racks: Annotated[list[Rack], Field(min_length=1)] | None = None
    """Racks that the brokers are dealt out to in turn, instead of `rack`."""
    log_dirs: LogDirs | None = None
    """Places of their logs, as for a single broker."""


Brokers = Annotated[
    Annotated[list[Broker], Field(min_length=1), Tag("list")]
    | Annotated[BrokerCount, Tag("mapping")],
    mapping_or("list"),
]


class TopicDefaults(Entry):
    """What a topic of the cluster gets when its creator does not say."""

    partitions: Annotated[int, Field(strict=True, ge=1, le=10_000)] | None = None
    """Partitions of a new topic (Kafka's num.partitions)."""
    replication_factor: Annotated[int, Field(strict=True, ge=1, le=BROKERS_MAX)] | None = None
    """Replicas of a new topic (Kafka's default.replication.factor)."""
    config: dict[str, ConfigValue] = {}
    """Topic configs by Kafka's names, such as retention.ms."""


class HttpEndpoint(Entry):
    """Where a service answers HTTP."""

    host: Host = "127.0.0.1"
    """Address to bind."""
    port: PortOrAny = 0
    """Port; 0 picks a free one, which `heliograph status` shows."""


class AggregatorEndpoint(HttpEndpoint):
    """Where an aggregator answers HTTP, and what it does by itself."""

    probe: bool = True
    """Probe the links into the cluster end to end, each second with a record of a topic of its own.
    Links from or to an external cluster are probed only where they say so."""


class Cluster(Entry):
    """A broker cluster of one datacenter, an aggregate, or an existing Kafka."""

    name: Name
    """Unique name; the prefix of this cluster's topics where they are copied to."""
    datacenter: Annotated[str, Field(min_length=1)] | None = None
    """Datacenter shown in global views; default: the cluster's name."""
    kind: Literal["local", "aggregate", "external"] = "local"
    """`local` for a datacenter, `aggregate` for a target of mirrors, `external` for a Kafka
    that runs already."""
    external: Bootstrap | None = None
    """Bootstrap addresses of an existing Kafka; nothing is started for it."""
    security: Security = Security()
    """How to talk to it."""
    zookeeper: ZooKeeper = "embedded"
    """`embedded`, a connect string with chroot, or a chroot of a named embedded server."""
    listeners: Annotated[list[Listener], Field(min_length=1)] = [Listener(name="PLAINTEXT")]
    """Listening addresses of every broker."""
    brokers: Brokers | None = None
    """A list of brokers, or a count and a base port."""
    flush: Literal["fsync", "page_cache"] = "fsync"
    """`fsync` acknowledges after a group commit; `page_cache` keeps Kafka's own promise."""
    topic_defaults: TopicDefaults = TopicDefaults()
    """Defaults of new topics."""
    config: dict[str, ConfigValue] = {}
    """Broker configs by Kafka's names, such as auto.create.topics.enable."""
    aggregator: AggregatorEndpoint | None = None
    """Where the aggregator of this cluster answers; every aggregate has one."""
    mirror: HttpEndpoint = HttpEndpoint()
    """Where the mirror worker that writes into this cluster answers."""

    @property
    def effective_kind(self) -> Literal["local", "aggregate", "external"]:
        """The kind, where naming an existing Kafka already says `external`."""
        return "external" if self.external is not None else self.kind

    @property
    def has_aggregator(self) -> bool:
        return self.effective_kind == "aggregate" or self.aggregator is not None

    @property
    def effective_datacenter(self) -> str:
        return self.datacenter or self.name

    @property
    def broker_list(self) -> list[PlacedBroker]:
        """Every broker with the port of every listener; without a port where none is given."""
        return list(_place(self))


class PlacedBroker(NamedTuple):
    """A broker with its ports worked out."""

    id: int
    host: str
    rack: str
    ports: dict[str, int]
    """Listener name to port."""
    log_dirs: tuple[str, ...] = ()
    """As they are written; none where nothing is said."""


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
