"""Embedded ZooKeeper servers, and where a cluster's ZooKeeper is."""

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


ZooKeeper = Annotated[
    Annotated[str, AfterValidator(_check_connect), Tag("text")]
    | Annotated[ZooKeeperChroot, Tag("mapping")],
    mapping_or("text"),
]


DEFAULT_ZOOKEEPER = ZooKeeperProcess(name="zookeeper")
