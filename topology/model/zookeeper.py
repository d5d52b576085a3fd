"""Embedded ZooKeeper servers, and the ZooKeeper that a cluster uses."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, Tag

from topology.model.scalars import Entry, Host, Name, Port, mapping_or

CHROOT_PATTERN = r"^/[^\s]*[^\s/]$"

_CONNECT = re.compile(r"^[^\s/:,]+:\d{1,5}(,[^\s/:,]+:\d{1,5})*(/[^\s]*[^\s/])?$")


def _check_connect(value: str) -> str:
    if value != "embedded" and not _CONNECT.match(value):
        raise ValueError("'embedded' or a connect string such as zk1:2181,zk2:2181/chroot")
    return value


class ZooKeeperProcess(Entry):
    """An embedded ZooKeeper server or ensemble, run from the jars that PySpark ships."""

    name: Name
    """Name by which clusters refer to this server."""
    host: Host = "127.0.0.1"
    """Address to bind."""
    port: Port = 2181
    """Client port. An ensemble uses nine ports from this one on: three for clients, three between
    its nodes, and three for their elections."""
    nodes: Literal[1, 3] = 1
    """1 for a single server; 3 for an ensemble that tolerates the loss of one node. The number
    cannot change after the first start."""

    @property
    def client_ports(self) -> range:
        """Client port of each node, in the order of the nodes."""
        return range(self.port, self.port + self.nodes)

    @property
    def ports(self) -> range:
        """Every port that it uses."""
        return self.client_ports if self.nodes == 1 else range(self.port, self.port + 9)

    @property
    def connect(self) -> str:
        """The connect string, without a chroot."""
        return ",".join(f"{self.host}:{port}" for port in self.client_ports)


class ZooKeeperChroot(Entry):
    """A chroot in an embedded ZooKeeper server."""

    embedded: Name
    """Name of an entry of `zookeepers`."""
    chroot: Annotated[str, Field(pattern=CHROOT_PATTERN)] | None = None
    """Path of the cluster's znodes; default: `/` and the cluster's name."""


ZooKeeper = Annotated[
    Annotated[str, AfterValidator(_check_connect), Tag("text")]
    | Annotated[ZooKeeperChroot, Tag("mapping")],
    mapping_or("text"),
]


DEFAULT_ZOOKEEPER = ZooKeeperProcess(name="zookeeper")
