"""Embedded ZooKeeper servers, the ZooKeeper that a cluster uses, and as whom."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Final, Literal, NamedTuple

from pydantic import AfterValidator, Field, Tag

from local_cluster.client.auth.zookeeper_security import ZooKeeperSecurity as ClientSettings
from local_cluster.controller.model.znode_access import SET_ACL
from topology.model.scalars import Entry, Host, Name, Port, mapping_or
from topology.model.security import SecretPlace, path_at, secret_at

CHROOT_PATTERN = r"^/[^\s]*[^\s/]$"
USERNAME_PATTERN = r"^[^\s:]+$"
"""ZooKeeper separates user and password by a colon."""

LOOPBACK: Final = "127.0.0.1"
NODES_OF_HOSTS: Final = (3, 5)
"""Nodes of an ensemble with a host for each."""

_CONNECT = re.compile(r"^[^\s/:,]+:\d{1,5}(,[^\s/:,]+:\d{1,5})*(/[^\s]*[^\s/])?$")


def _check_connect(value: str) -> str:
    if value != "embedded" and not _CONNECT.match(value):
        raise ValueError("'embedded' or a connect string such as zk1:2181,zk2:2181/chroot")
    return value


class ZooKeeperNode(NamedTuple):
    """The addresses of a single server, or of a node of an ensemble."""

    host: str
    client_port: int
    peer_port: int | None = None
    """Port on which it talks to the other nodes; None for a single server."""
    election_port: int | None = None
    tls_port: int | None = None
    """Port of clients that connect by TLS, if it has one."""
    plain_host: str = ""
    """Address of `client_port`; empty for `host`."""

    @property
    def client_address(self) -> tuple[str, int]:
        """The address of clients without TLS."""
        return self.plain_host or self.host, self.client_port

    @property
    def reached_at(self) -> tuple[str, int]:
        """The address of clients of other hosts."""
        if self.plain_host and self.tls_port is not None:
            return self.host, self.tls_port
        return self.host, self.client_port

    @property
    def addresses(self) -> tuple[tuple[str, int], ...]:
        """Every address that it binds."""
        others = (self.peer_port, self.election_port, self.tls_port)
        return (self.client_address, *((self.host, port) for port in others if port is not None))


class QuorumTls(Entry):
    """TLS among the nodes of an ensemble: each shows a certificate and checks those of others."""

    keystore_file: Annotated[str, Field(min_length=1)]
    """PEM file with certificate chain and key, without a password; each host has its own one under
    this name. A relative path starts at the directory of the topology file."""
    ca_file: Annotated[str, Field(min_length=1)]
    """PEM file of the authorities that sign these certificates, and no others."""
    check_hostname: bool = True
    """Whether a node's certificate must name its host."""


class ZooKeeperTls(Entry):
    """TLS of the clients of an embedded server or ensemble, on a port beside the plain one."""

    port: Port
    """Client port with TLS. `nodes: 3` uses three ports from this one on."""
    keystore_file: Annotated[str, Field(min_length=1)]
    """PEM file with certificate chain and key, without a password; each host has its own one under
    this name. A relative path starts at the directory of the topology file."""
    client_ca_file: Annotated[str, Field(min_length=1)] | None = None
    """PEM file of the authorities that sign certificates of clients. Then each client needs one."""
    closes_plain_port: bool = False
    """Bind the plain port to the loopback only, when every cluster connects by TLS."""


class ZooKeeperProcess(Entry):
    """An embedded ZooKeeper server or ensemble, run from the jars that PySpark ships."""

    name: Name
    """Name by which clusters refer to this server."""
    host: Host = "127.0.0.1"
    """Address to bind."""
    port: Port = 2181
    """Client port. `nodes: 3` uses nine ports from this one on: three for clients, three between
    its nodes, and three for their elections. With `hosts`, each node uses three."""
    nodes: Literal[1, 3] = 1
    """1 for a single server; 3 for an ensemble that tolerates the loss of one node. 1 may become 3,
    while all runs; not the other way."""
    hosts: list[Host] | None = None
    """Hosts of an ensemble of 3 or 5 nodes, one node on each, instead of `host` and `nodes`. New
    hosts may follow the present ones, while all runs; none can leave."""
    quorum_tls: QuorumTls | None = None
    """TLS among the nodes of an ensemble; required if other hosts reach them. A single server may
    have it too."""
    client_tls: ZooKeeperTls | None = None
    """TLS of its clients: brokers and commands whose `zookeeper_security` has `tls`."""
    allow_insecure: bool = False
    """Allow ports that other hosts reach without TLS, in a network of their own: of nodes without
    `quorum_tls`, and of clients until `client_tls` closes the plain port."""

    @property
    def node_list(self) -> list[ZooKeeperNode]:
        """Every node, in the order of their numbers."""
        tls = self.client_tls
        if tls is None:
            return self._plain_nodes
        plain_host = LOOPBACK if tls.closes_plain_port else ""
        step = 0 if self.hosts is not None else 1
        return [
            node._replace(tls_port=tls.port + step * index, plain_host=plain_host)
            for index, node in enumerate(self._plain_nodes)
        ]

    @property
    def _plain_nodes(self) -> list[ZooKeeperNode]:
        if self.hosts is not None:
            client, peer, election = range(self.port, self.port + 3)
            return [ZooKeeperNode(host, client, peer, election) for host in self.hosts]
        if self.nodes == 1:
            return [ZooKeeperNode(self.host, self.port)]
        return [
            ZooKeeperNode(self.host, port, port + self.nodes, port + 2 * self.nodes)
            for port in range(self.port, self.port + self.nodes)
        ]

    def connect(self, *, tls: bool) -> str:
        """Return the connect string, without a chroot; with `tls` it needs `client_tls`."""
        return ",".join(
            f"{node.host}:{node.tls_port if tls else node.client_port}" for node in self.node_list
        )


class ZooKeeperChroot(Entry):
    """A chroot in an embedded ZooKeeper server."""

    embedded: Name
    """Name of an entry of `zookeepers`."""
    chroot: Annotated[str, Field(pattern=CHROOT_PATTERN)] | None = None
    """Path of the cluster's znodes; default: `/` and the cluster's name."""


class ZooKeeperSecurity(Entry):
    """The user of the brokers and of `heliograph` in the cluster's ZooKeeper."""

    username: Annotated[str, Field(pattern=USERNAME_PATTERN)]
    """User of ZooKeeper's digest scheme."""
    password: SecretPlace
    """Where its password is."""
    tls: bool = False
    """Connect by TLS: to `client_tls` of an embedded server, else to the secureClientPort of your
    ensemble, whose addresses `zookeeper` has."""
    ca_file: Annotated[str, Field(min_length=1)] | None = None
    """PEM file of the authorities that sign the servers' certificates, beside the system's."""
    certificate_file: Annotated[str, Field(min_length=1)] | None = None
    """PEM file of the client certificate, if the servers require one."""
    key_file: Annotated[str, Field(min_length=1)] | None = None
    """PEM file of the client's private key; default: it is in `certificate_file`."""
    key_password: SecretPlace | None = None
    """Where the password of the private key is, if it has one."""
    check_hostname: bool = True
    """Whether a server's certificate must name the host of the connection."""
    set_acl: bool = False
    """Give new znodes Kafka's ACLs (zookeeper.set.acl): only this user may change them, and all may
    read what holds no secret. Add it when all brokers run with the user."""

    def client(self, directory: Path) -> ClientSettings:
        """Return the settings for a client; relative paths start at `directory`.

        Raises ValueError for keys that do not go together.
        """
        return ClientSettings(
            username=self.username,
            password=self.password.secret(directory),
            tls=self.tls,
            ca_file=path_at(directory, self.ca_file),
            certificate_file=path_at(directory, self.certificate_file),
            key_file=path_at(directory, self.key_file),
            key_password=secret_at(directory, self.key_password),
            check_hostname=self.check_hostname,
        )

    def configs(self) -> dict[str, str]:
        """Return the broker configs."""
        return {SET_ACL: "true"} if self.set_acl else {}


ZooKeeper = Annotated[
    Annotated[str, AfterValidator(_check_connect), Tag("text")]
    | Annotated[ZooKeeperChroot, Tag("mapping")],
    mapping_or("text"),
]


DEFAULT_ZOOKEEPER = ZooKeeperProcess(name="zookeeper")
