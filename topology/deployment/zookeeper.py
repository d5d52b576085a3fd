"""The embedded ZooKeeper: the real server, run from the jars that PySpark ships.

This module only returns the files to write and the command to run, and looks for the jars; the
supervisor or a test does the rest. The server binds one address and has no admin server. It
fsyncs its transaction log, unless `fsync` is False (tests).
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final, NamedTuple

MAIN_CLASS: Final = "org.apache.zookeeper.server.ZooKeeperServerMain"
NODE_MAIN_CLASS: Final = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
"""Main class of a node of an ensemble."""
LOGGING_FILE: Final = "zookeeper-log4j2.properties"
"""Name of the file beside the config file that says what is logged."""
INIT_TICKS: Final = 20
"""Ticks that a node may take to fetch its leader's state (initLimit)."""
SYNC_TICKS: Final = 10
"""Ticks that a node may lag before the others continue without it (syncLimit)."""
TICK_MS: Final = 500
"""Sessions expire in steps of one tick."""
SESSION_TIMEOUT_MS_MIN: Final = 1_000
SESSION_TIMEOUT_MS_MAX: Final = 60_000
HEAP_MIB: Final = 768
"""Upper bound; the server takes what it needs. It keeps its last 500 commits for lagging members
of an ensemble, and cannot be configured to keep fewer (ZKDatabase.java raises `commitLogCount` to
500). A commit of the controller may hold 500 states, each of them in memory three times: 200 MB in
all with topic names of 30 bytes, 350 MB with the longest names. Kafka's own script sets 512."""
HEAP_MIB_AT_FIRST: Final = 8
TRANSACTION_LOG_KIB: Final = 1_024
"""Preallocated per transaction log file; the server's own default is 64 MiB."""
SNAPSHOTS_KEPT: Final = 3

_KEYSTORE: Final = "ssl.quorum.keyStore.location"
_TRUSTSTORE: Final = "ssl.quorum.trustStore.location"
_CLIENT_KEYSTORE: Final = "ssl.keyStore.location"
_CLIENT_TRUSTSTORE: Final = "ssl.trustStore.location"
_STORES: Final = (_KEYSTORE, _TRUSTSTORE, _CLIENT_KEYSTORE, _CLIENT_TRUSTSTORE)
_JARS: Final = (
    "zookeeper-*.jar",
    "netty-*.jar",
    "slf4j-api-*.jar",
    "log4j-api-*.jar",
    "log4j-core-*.jar",
    "log4j-slf4j2-impl-*.jar",
    "metrics-core-*.jar",
    "snappy-java-*.jar",
    "commons-io-*.jar",
)

_LOGGING: Final = """\
status = error
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{ISO8601} %p %c{1}: %m%n
rootLogger.level = warn
rootLogger.appenderRef.console.ref = console
"""


class ZooKeeperUnavailable(Exception):
    """This host has no Java, or PySpark's jars are missing."""


class Node(NamedTuple):
    """The addresses on which a node of an ensemble talks to the other nodes."""

    host: str
    peer_port: int
    election_port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumTls:
    """TLS among the nodes of an ensemble: each shows a certificate and checks those of others."""

    keystore_file: str
    """PEM with certificate chain and key."""
    ca_file: str
    """PEM of the authorities that sign the nodes' certificates."""
    check_hostname: bool = True

    @property
    def config(self) -> Mapping[str, object]:
        """The settings of ZooKeeper."""
        return {
            "sslQuorum": "true",
            _KEYSTORE: self.keystore_file,
            "ssl.quorum.keyStore.type": "PEM",
            _TRUSTSTORE: self.ca_file,
            "ssl.quorum.trustStore.type": "PEM",
            "ssl.quorum.clientAuth": "need",
            "ssl.quorum.hostnameVerification": str(self.check_hostname).lower(),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientTls:
    """TLS of clients, on a port beside the plain one."""

    port: int
    keystore_file: str
    """PEM with certificate chain and key."""
    client_ca_file: str | None = None
    """PEM of the authorities that sign certificates of clients; None asks for no certificate."""

    @property
    def config(self) -> Mapping[str, object]:
        """The settings of ZooKeeper, without the address."""
        settings: dict[str, object] = {
            "secureClientPort": self.port,
            "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
            _CLIENT_KEYSTORE: self.keystore_file,
            "ssl.keyStore.type": "PEM",
            "ssl.clientAuth": "none" if self.client_ca_file is None else "need",
        }
        if self.client_ca_file is not None:
            settings |= {_CLIENT_TRUSTSTORE: self.client_ca_file, "ssl.trustStore.type": "PEM"}
        return settings


def files_of_config(text: str) -> tuple[str, ...]:
    """Return the certificates that a server's config names."""
    pairs = (line.partition("=") for line in text.splitlines())
    return tuple(value for name, _, value in pairs if name in _STORES)


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddedZooKeeper:
    """The files and the command of one process: a single server, or a node of an ensemble."""

    directory: Path
    """Directory of its two config files."""
    data_directory: Path
    """Directory of snapshots and transaction logs, which the server creates."""
    port: int
    host: str = "127.0.0.1"
    fsync: bool = True
    """False: a crash of the host may lose acknowledged writes."""
    ensemble: tuple[Node, ...] = ()
    """Every node, including this one; empty for a single server."""
    number: int = 1
    """Number of this node, from 1."""
    quorum_tls: QuorumTls | None = None
    client_tls: ClientTls | None = None
    plain_host: str | None = None
    """Address of the port without TLS; None for `host`."""

    @property
    def connect(self) -> str:
        """The connect string, without a chroot."""
        return f"{self.plain_host or self.host}:{self.port}"

    @property
    def config_file(self) -> Path:
        return self.directory / "zookeeper.cfg"

    @property
    def logging_file(self) -> Path:
        return self.directory / LOGGING_FILE

    @property
    def files(self) -> Mapping[Path, str]:
        """Content by path. The caller creates the directories and writes the files before it runs
        the command."""
        files = {self.config_file: self._config(), self.logging_file: _LOGGING}
        if self.ensemble:
            files[self.data_directory / "myid"] = f"{self.number}\n"
        return files

    @property
    def argv(self) -> tuple[str, ...]:
        """The command to run. Raises ZooKeeperUnavailable."""
        return server_command(
            self.config_file, self.logging_file, is_node=bool(self.ensemble), fsync=self.fsync
        )

    def _config(self) -> str:
        settings: dict[str, object] = {
            "tickTime": TICK_MS,
            "minSessionTimeout": SESSION_TIMEOUT_MS_MIN,
            "maxSessionTimeout": SESSION_TIMEOUT_MS_MAX,
            "dataDir": self.data_directory,
            "clientPort": self.port,
            "clientPortAddress": self.plain_host or self.host,
            "maxClientCnxns": 0,
            "admin.enableServer": "false",
            "4lw.commands.whitelist": "srvr",
            "autopurge.snapRetainCount": SNAPSHOTS_KEPT,
            "autopurge.purgeInterval": 1,
        }
        if self.client_tls is not None:
            settings |= {**self.client_tls.config, "secureClientPortAddress": self.host}
        if self.ensemble:
            settings |= {"initLimit": INIT_TICKS, "syncLimit": SYNC_TICKS}
            settings |= {
                f"server.{number}": f"{node.host}:{node.peer_port}:{node.election_port}"
                for number, node in enumerate(self.ensemble, 1)
            }
        if self.quorum_tls is not None:
            settings |= self.quorum_tls.config
        return "".join(f"{name}={value}\n" for name, value in settings.items())


def server_command(
    config_file: Path, logging_file: Path, *, is_node: bool, fsync: bool = True
) -> tuple[str, ...]:
    """Return the command of a single server, or of a node. Raises ZooKeeperUnavailable."""
    return (
        find_java(),
        f"-Xms{HEAP_MIB_AT_FIRST}m",
        f"-Xmx{HEAP_MIB}m",
        "-Xshare:auto",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        "-XX:+ExitOnOutOfMemoryError",
        "-Djava.awt.headless=true",
        f"-Dlog4j2.configurationFile={logging_file.as_uri()}",
        f"-Dzookeeper.preAllocSize={TRANSACTION_LOG_KIB}",
        f"-Dzookeeper.forceSync={'yes' if fsync else 'no'}",
        "-Dzookeeper.jmx.log4j.disable=true",
        "-Dlog4j2.disableJmx=true",
        "-cp",
        os.pathsep.join(str(path) for path in find_jars()),
        NODE_MAIN_CLASS if is_node else MAIN_CLASS,
        str(config_file),
    )


def find_java() -> str:
    """Return the path of the Java launcher of JAVA_HOME, else of the one on the PATH.

    Raises ZooKeeperUnavailable.
    """
    home = os.environ.get("JAVA_HOME")
    if home and (launcher := Path(home, "bin", "java")).is_file():
        return str(launcher)
    found = shutil.which("java")
    if found is None:
        raise ZooKeeperUnavailable("no java on the PATH, and JAVA_HOME names none: install Java 17")
    return found


def find_jars() -> tuple[Path, ...]:
    """Return the jars that the server needs. Raises ZooKeeperUnavailable."""
    spec = find_spec("pyspark")
    places = list(spec.submodule_search_locations or ()) if spec is not None else []
    if not places:
        raise ZooKeeperUnavailable(
            "the embedded ZooKeeper is not installed: pip install 'heliograph[embedded]', or name "
            "an ensemble of your own with `zookeeper: host:port/chroot` in the topology file"
        )
    directory = Path(places[0], "jars")
    jars = []
    for pattern in _JARS:
        found = sorted(directory.glob(pattern))
        if not found:
            raise ZooKeeperUnavailable(f"{directory} has no {pattern}")
        jars += found
    return tuple(jars)
