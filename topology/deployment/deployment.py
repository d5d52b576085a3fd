"""A rendered deployment: daemons with their files, and the clusters and links to show.

`up` hands it to the supervisor, which keeps it in the state directory as `deployment.json`. It
holds only text and numbers, so that it can be compared: a daemon whose digest is unchanged keeps
running.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from dataclasses import fields as dataclass_fields
from typing import Any, Final, Literal

from pydantic import TypeAdapter

from local_cluster.client.auth.security import PLAINTEXT, ClientSecurity, Secret
from local_cluster.http_security.settings import ANONYMOUS, HttpClientSecurity
from topology.deployment.declared_rights import DeclaredRights, decode_rights
from topology.deployment.state_dir import StateDir
from topology.deployment.supervisor_ports import SupervisorPorts
from topology.model.scalars import LOOPBACK
from topology.problems import DeployError

FORMAT_VERSION = 1
"""Version of `deployment.json`; any other version is refused."""

STOP_GRACE_S = 20.0
"""Seconds that a daemon may take to stop after SIGTERM before it is killed."""

Role = Literal["zookeeper", "broker", "mirror", "aggregator"]
Kind = Literal["local", "aggregate", "external"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Daemon:
    """One process that the supervisor keeps running."""

    key: str
    """Unique in the deployment and usable as a file name: broker-ewr-1."""
    role: Role
    label: str
    """Name for people: broker 1 of ewr."""
    argv: tuple[str, ...]
    files: Mapping[str, str] = field(default_factory=dict)
    """Absolute path to text, written before the process starts. A changed text restarts it."""
    directories: tuple[str, ...] = ()
    """Created before the process starts."""
    ready_file: str | None = None
    """JSON with `pid` and `state`. The daemon is ready when they are its own pid and "running"."""
    ready_zookeeper: tuple[str, int] | None = None
    """Address of a ZooKeeper server. The daemon is ready when that server serves clients."""
    after: tuple[str, ...] = ()
    """Keys of the daemons that start before this one and stop after it."""
    waits_for: Literal["ready", "started"] = "ready"
    """State that the daemons in `after` must have reached before this one starts. A daemon that
    tolerates their absence uses `started`, so that they start in parallel."""
    ports: tuple[tuple[str, int], ...] = ()
    """Addresses that it binds."""
    host: str = LOOPBACK
    """Host that it belongs to, as the topology names it."""
    datacenter: str | None = None
    """Datacenter that it belongs to; None if an older version wrote it."""
    address: tuple[str, int] | None = None
    """Address at which other hosts reach it; None without one."""
    quorum: tuple[str, ...] = ()
    """Keys of all nodes of its ZooKeeper ensemble, itself among them."""
    member: str = ""
    """Its line in the configuration of the ensemble: server.2=ADDRESSES."""
    version: str = ""
    """Version of our package that it runs; empty if it runs none of our code, or for unknown."""
    stop_grace_s: float = STOP_GRACE_S

    @property
    def digest(self) -> str:
        """Hash of command, files and version: it changes exactly when a restart is needed."""
        what = json.dumps([self.argv, sorted(self.files.items()), self.version])
        return hashlib.sha256(what.encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerView:
    """A broker as `status` shows it: its first listener, and the key of its daemon."""

    id: int
    host: str
    port: int
    daemon: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterView:
    """A cluster as `status` shows it."""

    name: str
    kind: Kind
    datacenter: str
    bootstrap: str
    security: ClientSecurity = PLAINTEXT
    spark_security: ClientSecurity | None = None
    """How Spark's readers connect; None connects as `security`."""
    secrets: tuple[Secret, ...] = ()
    """Where each secret of the cluster is: those of `security`, of services and of brokers."""
    key_files: tuple[str, ...] = ()
    """Files with private keys."""
    brokers: tuple[BrokerView, ...] = ()
    aggregator: str | None = None
    """Key of the aggregator's daemon, if the cluster has one."""
    rights: DeclaredRights | None = None
    """Users, ACLs and quotas; None if there is nothing to compare."""

    @property
    def declares_rights(self) -> bool:
        """Whether the file has users, ACLs or quotas of the cluster."""
        return self.rights is not None and not self.rights.is_empty


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkView:
    """A link as `status` shows it, and the key of its mirror worker."""

    name: str
    source: str
    target: str
    daemon: str
    """The worker of this host, if there is one here; else the first one."""
    workers: tuple[str, ...] = ()
    """Every worker that shares the link."""
    is_probed: bool = False
    """Whether the target's aggregator probes the link."""

    @property
    def every_worker(self) -> tuple[str, ...]:
        """Return `daemon` and the other workers. An older version's record names no others."""
        return tuple(dict.fromkeys((self.daemon, *self.workers)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """The part of a deployment that a host was told to run: exactly one of both is set."""

    host: str | None = None
    datacenter: str | None = None

    def sentence(self) -> str:
        return f"host {self.host}" if self.host is not None else f"datacenter {self.datacenter}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """Everything that `up` starts and `status` shows."""

    name: str
    topology_file: str
    daemons: tuple[Daemon, ...] = ()
    """Those that run on this host."""
    clusters: tuple[ClusterView, ...] = ()
    links: tuple[LinkView, ...] = ()
    elsewhere: tuple[Daemon, ...] = ()
    """Daemons of other hosts. Nothing is started for them; their paths are those of this host."""
    http: HttpClientSecurity = ANONYMOUS
    """How commands ask the HTTP ports of the daemons."""
    http_secrets: tuple[Secret, ...] = ()
    """Where the tokens and passwords of the HTTP ports and their clients are."""
    http_metrics_token: Secret | None = None
    """Where the token is that allows the metrics alone, if there is one."""
    http_key_files: tuple[str, ...] = ()
    """Files with private keys for HTTP."""
    supervisors: SupervisorPorts | None = None
    """The HTTP ports of the supervisors, if they have any."""
    part: Part | None = None
    """The part that `up` was told to run; None if the host's addresses decided."""
    file_text: str = ""
    """The topology without secrets, as hosts compare it; empty if it is unknown."""

    @property
    def supervisor_addresses(self) -> tuple[tuple[str, int], ...]:
        """The addresses that the supervisor of this host binds for other hosts."""
        if self.supervisors is None:
            return ()
        return self.supervisors.addresses(list(dict.fromkeys(each.host for each in self.daemons)))

    @property
    def all_secrets(self) -> list[Secret]:
        """The place of every secret, of clusters and of HTTP ports."""
        of_clusters = (secret for cluster in self.clusters for secret in cluster.secrets)
        return [*of_clusters, *self.http_secrets]

    @property
    def all_key_files(self) -> list[str]:
        """Every file with a private key that has no other use."""
        return [*(path for each in self.clusters for path in each.key_files), *self.http_key_files]

    def daemon(self, key: str) -> Daemon:
        """Return the daemon with this key, of this host or another one. Raises KeyError."""
        for daemon in (*self.daemons, *self.elsewhere):
            if daemon.key == key:
                return daemon
        raise KeyError(key)

    def cluster(self, name: str) -> ClusterView:
        """Return the cluster with this name. Raises KeyError."""
        for cluster in self.clusters:
            if cluster.name == name:
                return cluster
        raise KeyError(name)


def python_command(module: str, *arguments: str) -> tuple[str, ...]:
    """Return the command that runs one of our modules with this interpreter.

    `-P` keeps the working directory, which belongs to the deployment, off the import path.
    """
    return (sys.executable, "-P", "-m", module, *arguments)


def encode_deployment(deployment: Deployment) -> str:
    """Return the JSON text that `decode_deployment` reads."""
    return json.dumps({"version": FORMAT_VERSION, **asdict(deployment)}, indent=1)


def decode_deployment(text: str | bytes) -> Deployment:
    """Read the text of `encode_deployment`. Raises ValueError for any other text."""
    try:
        document = json.loads(text)
        if document["version"] != FORMAT_VERSION:
            raise ValueError(f"deployment format {document['version']}, not {FORMAT_VERSION}")
        return Deployment(
            name=document["name"],
            topology_file=document["topology_file"],
            daemons=tuple(decode_daemon(each) for each in document["daemons"]),
            clusters=tuple(_cluster(each) for each in document["clusters"]),
            links=tuple(_link(each) for each in document["links"]),
            # A deployment of an older version has no other hosts.
            elsewhere=tuple(decode_daemon(each) for each in document.get("elsewhere", ())),
            http=_HTTP.validate_python(document.get("http", {})),
            http_secrets=tuple(Secret(**place) for place in document.get("http_secrets", ())),
            http_metrics_token=_secret(document.get("http_metrics_token")),
            http_key_files=tuple(document.get("http_key_files", ())),
            supervisors=_supervisors(document.get("supervisors")),
            part=Part(**document["part"]) if document.get("part") else None,
            file_text=document.get("file_text", ""),
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"not a deployment: {error!r}") from error


def read_deployment(state: StateDir) -> Deployment:
    """Return the deployment of a state directory. Raises DeployError."""
    try:
        return decode_deployment(state.deployment_file.read_bytes())
    except FileNotFoundError:
        raise DeployError(f"nothing was deployed in {state.path}") from None
    except (OSError, ValueError) as error:
        raise DeployError(f"cannot read {state.deployment_file}: {error}") from error


def decode_daemon(each: dict[str, Any]) -> Daemon:
    """Read the result of `asdict` of a daemon. Raises KeyError or TypeError for other values."""
    zookeeper = each["ready_zookeeper"]
    fields = {
        **each,
        "argv": tuple(each["argv"]),
        "directories": tuple(each["directories"]),
        "ready_zookeeper": tuple(zookeeper) if zookeeper else None,
        "after": tuple(each["after"]),
        "ports": tuple((host, port) for host, port in each["ports"]),
        "address": tuple(each["address"]) if each.get("address") else None,
        "quorum": tuple(each.get("quorum", ())),
    }
    return Daemon(**_known(Daemon, fields))


def _known(kind: type, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that this version knows.

    A newer version may have written more, and reads it again after a downgrade.
    """
    names = {each.name for each in dataclass_fields(kind)}
    return {name: fields[name] for name in fields if name in names}


def _secret(place: dict[str, Any] | None) -> Secret | None:
    return None if place is None else Secret(**place)


def _supervisors(ports: dict[str, Any] | None) -> SupervisorPorts | None:
    return None if ports is None else _SUPERVISORS.validate_python(ports)


def _link(each: dict[str, Any]) -> LinkView:
    return LinkView(**_known(LinkView, {**each, "workers": tuple(each.get("workers", ()))}))


def _cluster(each: dict[str, Any]) -> ClusterView:
    brokers = tuple(BrokerView(**_known(BrokerView, b)) for b in each["brokers"])
    security = _SECURITY.validate_python(each.get("security", {}))
    spark = each.get("spark_security")
    # A deployment of an older version does not list them.
    places = each.get("secrets", (asdict(security)["password"], asdict(security)["key_password"]))
    fields = {
        **each,
        "brokers": brokers,
        "security": security,
        "spark_security": spark and _SECURITY.validate_python(spark),
        "secrets": tuple(Secret(**place) for place in places if place is not None),
        "key_files": tuple(each.get("key_files", ())),
        "rights": decode_rights(each.get("rights")),
    }
    return ClusterView(**_known(ClusterView, fields))


_SECURITY: Final = TypeAdapter(ClientSecurity)
_HTTP: Final = TypeAdapter(HttpClientSecurity)
_SUPERVISORS: Final = TypeAdapter(SupervisorPorts)
