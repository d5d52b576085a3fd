"""The topology file as typed objects.

Guarantees: unknown keys are errors; every field carries the sentence that editors show, because
the published JSON Schema is made from these classes.
Not here: positions in the file (load.py), rules between several entries (checks.py, loops.py),
and how an entry becomes a process (render.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    WithJsonSchema,
)

from local_cluster.client.security import ClientSecurity, Secret
from mirror_maker.formats.naming import GROUP_MARK, TopicNames
from mirror_maker.record_rules import RecordFilter, Transforms
from mirror_maker.settings import (
    CONFIGS_EXCLUDE_DEFAULT,
    GROUPS_EXCLUDE_DEFAULT,
    TOPICS_EXCLUDE_DEFAULT,
)
from mirror_maker.start import check_start

BROKERS_MAX = 100
"""Most brokers one `count` may ask for on one host."""

NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9_-]{0,62}$"
"""No dot: a cluster's name is the prefix of the topics that are copied from it."""

HOST_PATTERN = r"^[A-Za-z0-9.:_-]+$"
CHROOT_PATTERN = r"^/[^\s]*[^\s/]$"
TOPIC_PATTERN = r"^[A-Za-z0-9._-]{1,249}$"
LOG_DIR_PATTERN = r"^(/[^\s,]*[^\s,/]|\.|[A-Za-z0-9][A-Za-z0-9_-]{0,62})$"
"""An absolute path, one name, or a dot; Kafka tells log directories as a list with commas."""
LISTENER_PATTERN = r"^[A-Za-z][A-Za-z0-9_-]{0,62}$"

_CONNECT = re.compile(r"^[^\s/:,]+:\d{1,5}(,[^\s/:,]+:\d{1,5})*(/[^\s]*[^\s/])?$")
_ADDRESS = r"(\[[0-9a-fA-F:]+\]|[^\s/:,]+):\d{1,5}"
_BOOTSTRAP = re.compile(rf"^{_ADDRESS}(,{_ADDRESS})*$")


def _check_connect(value: str) -> str:
    if value != "embedded" and not _CONNECT.match(value):
        raise ValueError("'embedded' or a connect string such as zk1:2181,zk2:2181/chroot")
    return value


def _start_text(value: Any) -> Any:
    """YAML reads an unquoted time as one; without a zone it is UTC's, as YAML has it."""
    if isinstance(value, datetime):
        return (value if value.tzinfo else value.replace(tzinfo=UTC)).isoformat()
    return value


def _check_start(value: str) -> str:
    try:
        return check_start(value)
    except ValueError:
        raise ValueError(
            "earliest, latest, mm2, mm2:TOPIC or a time such as 2026-01-01T00:00:00Z"
        ) from None


def _check_bootstrap(value: str) -> str:
    if not _BOOTSTRAP.match(value):
        raise ValueError("addresses such as host1:9092,host2:9092")
    return value


def _check_pattern(value: str) -> str:
    try:
        re.compile(value)
    except re.error as error:
        raise ValueError(f"a topic name or a regular expression; {error}") from error
    return value


def _check_naming_pattern(value: str) -> str:
    if re.compile(_check_pattern(value)).groups != 1:
        raise ValueError("a regular expression with one group")
    return value


def _check_naming_template(value: str) -> str:
    if GROUP_MARK not in value or not re.fullmatch(TOPIC_PATTERN, value.replace(GROUP_MARK, "")):
        raise ValueError(f"a topic name in which {GROUP_MARK} stands for the pattern's group")
    return value


def _listed(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


def _config_text(value: Any) -> Any:
    """Kafka's configs are text; YAML writes the same value as a number or a switch."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    return value


Name = Annotated[str, Field(pattern=NAME_PATTERN)]
Host = Annotated[str, Field(pattern=HOST_PATTERN)]
Port = Annotated[int, Field(strict=True, ge=1, le=65535)]
PortOrAny = Annotated[int, Field(strict=True, ge=0, le=65535)]
Bootstrap = Annotated[str, AfterValidator(_check_bootstrap)]
TopicPattern = Annotated[str, Field(min_length=1), AfterValidator(_check_pattern)]
TopicName = Annotated[str, Field(pattern=TOPIC_PATTERN)]
LogDirs = Annotated[list[Annotated[str, Field(pattern=LOG_DIR_PATTERN)]], Field(min_length=1)]
Rack = Annotated[str, Field(min_length=1)]
ConfigValue = Annotated[
    str,
    BeforeValidator(_config_text),
    WithJsonSchema({"type": ["string", "number", "boolean"]}),
]


class Entry(BaseModel):
    """Base of every mapping in the file."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


class ZooKeeperProcess(Entry):
    """One embedded ZooKeeper server or ensemble, run from the jars that PySpark ships."""

    name: Name
    """Name of this server; clusters refer to it."""
    host: Host = "127.0.0.1"
    """Address it binds to."""
    port: Port = 2181
    """Client port. An ensemble takes nine ports from here on: three for clients, three between its
    nodes, three for their elections."""
    nodes: Literal[1, 3] = 1
    """1 for a single server; 3 for an ensemble that goes on without any one of them."""

    @property
    def client_ports(self) -> range:
        """Of the nodes, the first node first."""
        return range(self.port, self.port + self.nodes)

    @property
    def ports(self) -> range:
        """All that it takes."""
        return self.client_ports if self.nodes == 1 else range(self.port, self.port + 9)

    @property
    def connect(self) -> str:
        """Connect string without a chroot."""
        return ",".join(f"{self.host}:{port}" for port in self.client_ports)


class ZooKeeperChroot(Entry):
    """A place in an embedded ZooKeeper server."""

    embedded: Name
    """Name of an entry of `zookeepers`."""
    chroot: Annotated[str, Field(pattern=CHROOT_PATTERN)] | None = None
    """Path under which the cluster keeps its state; default: `/` and the cluster's name."""


def _mapping_or(other: str) -> Discriminator:
    return Discriminator(lambda value: "mapping" if isinstance(value, dict | Entry) else other)


ZooKeeper = Annotated[
    Annotated[str, AfterValidator(_check_connect), Tag("text")]
    | Annotated[ZooKeeperChroot, Tag("mapping")],
    _mapping_or("text"),
]


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
    _mapping_or("list"),
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


class SecretPlace(Entry):
    """Where a secret is: a file or an environment variable, never the secret itself."""

    file: Annotated[str, Field(min_length=1)] | None = None
    """File that holds it; a relative path starts where the topology file is."""
    env: Annotated[str, Field(min_length=1)] | None = None
    """Environment variable that holds it, of the process that `up` starts."""


class Security(Entry):
    """How to talk to an existing Kafka."""

    protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = "PLAINTEXT"
    """Kafka's name of the protocol."""
    mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] | None = None
    """SASL mechanism."""
    username: Annotated[str, Field(min_length=1)] | None = None
    """Name to log in with."""
    password: SecretPlace | None = None
    """Where its password is."""
    ca_file: Annotated[str, Field(min_length=1)] | None = None
    """PEM of the authorities that brokers' certificates may be signed by; default: the system's."""
    certificate_file: Annotated[str, Field(min_length=1)] | None = None
    """PEM of this side's certificate, where brokers ask for one."""
    key_file: Annotated[str, Field(min_length=1)] | None = None
    """PEM of its private key; default: in `certificate_file`."""
    key_password: SecretPlace | None = None
    """Where the password of the key is, if it has one."""
    check_hostname: bool = True
    """Whether a broker's certificate must name the host that was dialled."""

    def client(self, directory: Path) -> ClientSecurity:
        """The same for a client; relative paths start at `directory`. Raises ValueError."""

        def path(name: str | None) -> str | None:
            return None if name is None else str(directory / name)

        def secret(place: SecretPlace | None) -> Secret | None:
            return None if place is None else Secret(file=path(place.file), env=place.env)

        return ClientSecurity(
            protocol=self.protocol,
            mechanism=self.mechanism,
            username=self.username,
            password=secret(self.password),
            ca_file=path(self.ca_file),
            certificate_file=path(self.certificate_file),
            key_file=path(self.key_file),
            key_password=secret(self.key_password),
            check_hostname=self.check_hostname,
        )


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
    aggregator: HttpEndpoint | None = None
    """Where the aggregator of this cluster answers; every aggregate has one."""
    mirror: HttpEndpoint = HttpEndpoint()
    """Where the mirror worker that writes into this cluster answers."""

    @property
    def effective_kind(self) -> Literal["local", "aggregate", "external"]:
        """The kind, where naming an existing Kafka already says `external`."""
        return "external" if self.external is not None else self.kind

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


class TopicFilter(Entry):
    """Which topics a link copies: full matches of any include, of no exclude."""

    include: Annotated[list[TopicPattern], Field(min_length=1)]
    """Topic names or regular expressions."""
    exclude: list[TopicPattern] = list(TOPICS_EXCLUDE_DEFAULT)
    """Topic names or regular expressions; the default is MirrorMaker 2's. Internal topics are
    left out in any case."""


Topics = Annotated[
    Annotated[list[TopicPattern], Field(min_length=1), Tag("list")]
    | Annotated[TopicFilter, Tag("mapping")],
    _mapping_or("list"),
]


class LinkNames(Entry):
    """Names of single copies; `map` comes before `pattern`."""

    map: dict[TopicName, TopicName] = {}
    """Topic of the source to topic of the target."""
    pattern: Annotated[str, AfterValidator(_check_naming_pattern)] | None = None
    """A regular expression with one group that the whole name must match."""
    to: Annotated[str, AfterValidator(_check_naming_template)] | None = None
    """Name for what `pattern` matches; `$1` stands for its group."""
    otherwise: Literal["prefixed", "identity"] = "prefixed"
    """Names of all other copies."""


Names = Annotated[
    Annotated[Literal["prefixed", "identity"], Tag("text")] | Annotated[LinkNames, Tag("mapping")],
    _mapping_or("text"),
]
Merge = Annotated[
    list[TopicPattern],
    BeforeValidator(_listed),
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}),
]


class LinkTuning(Entry):
    """How a link copies."""

    start: Annotated[str, BeforeValidator(_start_text), AfterValidator(_check_start)] = "earliest"
    """Where a partition begins that was never copied: earliest, latest, a time such as
    2026-01-01T00:00:00Z, or mm2 (where a MirrorMaker 2 stopped; mm2:TOPIC names its offsets)."""
    source_bytes_per_second: Annotated[int, Field(strict=True, ge=0)] = 0
    """Rate of reading from the source, 0 without a limit; `heliograph mirror throttle` changes it
    while the link runs."""
    target_bytes_per_second: Annotated[int, Field(strict=True, ge=0)] = 0
    """Rate of writing to the target, likewise."""
    replication_factor: Annotated[int, Field(strict=True, ge=-1, le=BROKERS_MAX)] = -1
    """Replicas of the topics created on the target; -1 takes the target's default."""
    on_unmapped_target: Literal["fail", "append"] = "fail"
    """What to do where the target partition holds records that no offset map explains."""
    coalesce_batches: bool = True
    """Copy runs of tiny batches as one batch each; the records stay what they are."""
    trace_batches: bool = False
    """Make an OpenTelemetry span of each batch; where they go is said by the OTEL_* variables of
    the worker's environment (OTEL_TRACES_EXPORTER and its like)."""
    source_group: str = ""
    """A group at the source for which the link's positions are committed, so that ordinary lag
    tools see them; empty for none. No consumer may use it."""
    mm2_topics: Literal["off", "source", "target"] = "off"
    """Write MirrorMaker 2's topics as well (offset syncs, checkpoints, heartbeats), with the
    offset syncs on this side, for tools that read them."""


class LinkGroups(Entry):
    """Which consumer groups a link looks at, and what it does for them."""

    sync: bool = False
    """Commit translated positions for the same groups on the target, as soon as they change."""
    rewind: bool = False
    """Move a group's position on the target back as well, after its source."""
    include: list[TopicPattern] = [".*"]
    """Names or regular expressions of groups, matched in full."""
    exclude: list[TopicPattern] = list(GROUPS_EXCLUDE_DEFAULT)
    """Groups left out; default: MirrorMaker 2's, and the mirrors' own."""


TroublePolicy = Literal["fail", "pause", "skip"]
TroubleHalt = Literal["fail", "pause"]


class LinkTroubles(Entry):
    """What a partition in trouble does; the others of the link go on in any case. `fail` waits for
    an operator, `pause` is tried again by itself, `skip` goes on behind the gap and writes it into
    the link's journal topic."""

    out_of_range: TroublePolicy = "fail"
    """The source's retention took records before they were copied."""
    truncated: TroublePolicy = "fail"
    """The source's log was cut back below what was copied."""
    recreated: TroublePolicy = "fail"
    """The source topic was deleted and made anew; `skip` goes on with the new one."""
    corrupt: TroublePolicy = "fail"
    """A source batch fails its CRC, or has a format that cannot be copied."""
    too_large: TroublePolicy = "pause"
    """A single record is larger than the target takes; larger batches are split."""
    unsupported_codec: TroublePolicy = "pause"
    """The target refuses the codec of a batch."""
    timestamp: TroublePolicy = "pause"
    """The target refuses the timestamp of a record."""
    rejected: TroublePolicy = "pause"
    """The target refuses a record for another reason of its own."""
    unauthorized: TroubleHalt = "pause"
    """The source may not be read, or the target not written."""
    target: TroubleHalt = "fail"
    """The target's log contradicts the offset map: it lost records, or got foreign ones."""


class LinkConfigs(Entry):
    """Which configs of its topics a link keeps as they are at the source."""

    sync: bool = False
    """Set on copies what is set on their source topics, as soon as it changes."""
    include: list[TopicPattern] = [".*"]
    """Names or regular expressions of configs, matched in full."""
    exclude: list[TopicPattern] = list(CONFIGS_EXCLUDE_DEFAULT)
    """Configs left alone; default: MirrorMaker 2's."""


class LinkAcls(Entry):
    """Whether a link keeps the ACLs of its topics as they are at the source."""

    sync: bool = False
    """Give copies the ACLs of their source topics; who may write there may not write here."""


class Link(Entry):
    """One direction of copying, from one cluster into another."""

    name: Name | None = None
    """Unique name; default: source, a dash, target."""
    source: Name
    """Name of the cluster to read."""
    target: Name
    """Name of the cluster to write."""
    topics: Topics
    """A list of includes, or a mapping of `include` and `exclude`."""
    names: Names = "prefixed"
    """What copies are called: `prefixed` is <source>.<topic>, `identity` the topic's own name, a
    mapping names single copies."""
    merge: Merge = []
    """Topics that keep their name and are copied into one topic of the target by several links."""
    origin: Literal["any", "local"] | None = None
    """`local` copies only what was born in the source, and nothing that a mirror wrote there.
    Default: `any` where all copies are prefixed, else `local`."""
    filter: RecordFilter = RecordFilter()
    """Which records are copied; with a filter or transforms every batch is opened, which is dear.
    What has begun to copy keeps its filter and transforms."""
    transform: Transforms = ()
    """What is changed in each record that is copied, in order."""
    groups: LinkGroups = LinkGroups()
    """Consumer groups that may fail over along the link."""
    on: LinkTroubles = LinkTroubles()
    """What to do about each trouble of a partition: fail, pause or skip."""
    configs: LinkConfigs = LinkConfigs()
    """Configs that follow the source."""
    acls: LinkAcls = LinkAcls()
    """ACLs that follow the source."""
    deletions: Literal["report", "mirror"] = "report"
    """Whether configs and ACLs that are gone at the source are taken away on the target too."""
    settings: LinkTuning = LinkTuning()
    """How the link copies."""

    @property
    def effective_name(self) -> str:
        return self.name or f"{self.source}-{self.target}"

    @property
    def topic_names(self) -> TopicNames:
        merge = tuple(self.merge)
        if isinstance(self.names, LinkNames):
            names = self.names
            if (names.pattern is None) != (names.to is None):
                # Half a rule, which `validate` reports; what else is wrong is found without it.
                names = names.model_copy(update={"pattern": None, "to": None})
            return TopicNames(
                otherwise=names.otherwise,
                map=dict(names.map),
                pattern=names.pattern,
                to=names.to,
                merge=merge,
            )
        return TopicNames(otherwise=self.names, merge=merge)

    @property
    def effective_origin(self) -> Literal["any", "local"]:
        return self.origin or ("any" if self.topic_names.is_prefixed else "local")

    @property
    def topic_filter(self) -> TopicFilter:
        if isinstance(self.topics, TopicFilter):
            return self.topics
        return TopicFilter(include=self.topics)


class Topology(Entry):
    """A deployment: clusters, and the links between them."""

    name: Name
    """Name of the deployment; its state directory is named after it."""
    zookeepers: list[ZooKeeperProcess] = []
    """Embedded ZooKeeper servers; `embedded` in a cluster means the first. With none listed,
    one runs on 127.0.0.1:2181."""
    clusters: Annotated[list[Cluster], Field(min_length=1)]
    """Clusters of the deployment."""
    links: list[Link] = []
    """What is copied from where to where."""

    def cluster(self, name: str) -> Cluster:
        """The cluster of that name. Raises KeyError."""
        for cluster in self.clusters:
            if cluster.name == name:
                return cluster
        raise KeyError(name)

    @property
    def effective_zookeepers(self) -> list[ZooKeeperProcess]:
        """Every embedded server a cluster may refer to."""
        return self.zookeepers or [DEFAULT_ZOOKEEPER]


DEFAULT_ZOOKEEPER = ZooKeeperProcess(name="zookeeper")
