"""What a deployment runs, rendered: daemons with their files, and clusters and links to show.

This is what `up` hands to the supervisor and what lies in the state directory as
`deployment.json`. Everything is plain text and numbers, so that it can be compared: a daemon
whose digest is unchanged is left alone.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Literal

from pydantic import TypeAdapter

from local_cluster.client.auth.security import PLAINTEXT, ClientSecurity

FORMAT_VERSION = 1
"""Version of `deployment.json`; another one is refused."""

STOP_GRACE_S = 20.0
"""How long a daemon may take to stop after SIGTERM before it is killed."""

Role = Literal["zookeeper", "broker", "mirror", "aggregator"]
Kind = Literal["local", "aggregate", "external"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Daemon:
    """One process to keep running."""

    key: str
    """Unique in the deployment, fit for a file name: broker-ewr-1."""
    role: Role
    label: str
    """What people read: broker 1 of ewr."""
    argv: tuple[str, ...]
    files: Mapping[str, str] = field(default_factory=dict)
    """Absolute path to text; written before the process starts. A change is a restart."""
    directories: tuple[str, ...] = ()
    """Created before the process starts."""
    ready_file: str | None = None
    """JSON with `pid` and `state`; ready when they are this process's and "running"."""
    ready_zookeeper: tuple[str, int] | None = None
    """Address of a ZooKeeper server; ready when it says that it serves."""
    after: tuple[str, ...] = ()
    """Keys of daemons that are started before this one and stopped after it."""
    waits_for: Literal["ready", "started"] = "ready"
    """What those must be before this one is started; `started` for a daemon that copes with
    their absence, so that their times of starting overlap."""
    ports: tuple[tuple[str, int], ...] = ()
    """Addresses it binds."""
    stop_grace_s: float = STOP_GRACE_S

    @property
    def digest(self) -> str:
        """Changes when, and only when, the process must be restarted to follow."""
        what = json.dumps([self.argv, sorted(self.files.items())])
        return hashlib.sha256(what.encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerView:
    """A broker as it is shown: its first listener, and the daemon that runs it."""

    id: int
    host: str
    port: int
    daemon: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterView:
    """A cluster as it is shown."""

    name: str
    kind: Kind
    datacenter: str
    bootstrap: str
    security: ClientSecurity = PLAINTEXT
    brokers: tuple[BrokerView, ...] = ()
    aggregator: str | None = None
    """Key of the aggregator's daemon, where there is one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkView:
    """A link as it is shown, and the daemon that copies it."""

    name: str
    source: str
    target: str
    daemon: str
    is_probed: bool = False
    """Whether the aggregator of the target probes it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """Everything `up` starts and `status` shows."""

    name: str
    topology_file: str
    daemons: tuple[Daemon, ...] = ()
    clusters: tuple[ClusterView, ...] = ()
    links: tuple[LinkView, ...] = ()

    def daemon(self, key: str) -> Daemon:
        """The daemon of that key. Raises KeyError."""
        for daemon in self.daemons:
            if daemon.key == key:
                return daemon
        raise KeyError(key)

    def cluster(self, name: str) -> ClusterView:
        """The cluster of that name. Raises KeyError."""
        for cluster in self.clusters:
            if cluster.name == name:
                return cluster
        raise KeyError(name)


def encode_deployment(deployment: Deployment) -> str:
    """JSON text that `decode_deployment` reads."""
    return json.dumps({"version": FORMAT_VERSION, **asdict(deployment)}, indent=1)


def decode_deployment(text: str | bytes) -> Deployment:
    """Raises ValueError for anything `encode_deployment` did not write."""
    try:
        document = json.loads(text)
        if document["version"] != FORMAT_VERSION:
            raise ValueError(f"deployment format {document['version']}, not {FORMAT_VERSION}")
        return Deployment(
            name=document["name"],
            topology_file=document["topology_file"],
            daemons=tuple(decode_daemon(each) for each in document["daemons"]),
            clusters=tuple(_cluster(each) for each in document["clusters"]),
            links=tuple(LinkView(**each) for each in document["links"]),
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"not a deployment: {error!r}") from error


def decode_daemon(each: dict[str, Any]) -> Daemon:
    """A daemon from `asdict` of one. Raises KeyError or TypeError for anything else."""
    zookeeper = each["ready_zookeeper"]
    fields = {
        **each,
        "argv": tuple(each["argv"]),
        "directories": tuple(each["directories"]),
        "ready_zookeeper": tuple(zookeeper) if zookeeper else None,
        "after": tuple(each["after"]),
        "ports": tuple((host, port) for host, port in each["ports"]),
    }
    return Daemon(**fields)


def _cluster(each: dict[str, Any]) -> ClusterView:
    brokers = tuple(BrokerView(**b) for b in each["brokers"])
    security = _SECURITY.validate_python(each.get("security", {}))
    return ClusterView(**{**each, "brokers": brokers, "security": security})


_SECURITY: Final = TypeAdapter(ClientSecurity)
