"""Who answers: the running daemons of a deployment and its existing clusters. Shell.

A process that was stopped, or hangs, is still there, and its connections are still accepted: only
the missing answer shows it. So each is asked something small, all at the same time:

    broker               its API versions, on its first listener
    ZooKeeper            `srvr`
    mirror, aggregator   GET /healthz
    existing cluster     Metadata without topics

Imports the Kafka client: load it where something is asked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol
from urllib.parse import urlsplit

from local_cluster.client.auth.security import ClientSecurity
from local_cluster.client.broker_directory import parse_address
from local_cluster.client.client import KafkaClient
from local_cluster.client.connection import connect
from local_cluster.client.model import ClusterMetadata
from local_cluster.wire.errors import ErrorCode, KafkaError
from topology.deployment.deployment import ClusterView, Daemon, Deployment
from topology.deployment.readiness import ZOOKEEPER_REPLY_TIMEOUT_S, http_url, zookeeper_serves

PROBE_TIMEOUT_S: Final = 3.0
"""How long `status` and `up` wait for an answer."""
ANSWER_TIMEOUT_S: Final = 10.0
"""How long a command that needs a cluster waits until one of its brokers answers."""
ASKED_AT_ONCE_MAX: Final = 256
CLIENT_ID: Final = "heliograph-status"

JsonObject = dict[str, Any]


class ClusterSilent(Exception):
    """No broker of a cluster answers; the message names it."""


class Cluster(Protocol):
    """How a cluster is reached; `ClusterView` is one."""

    @property
    def name(self) -> str: ...
    @property
    def bootstrap(self) -> str: ...
    @property
    def security(self) -> ClientSecurity: ...


class ReachedCluster(NamedTuple):
    """A cluster that is known by its addresses alone."""

    name: str
    bootstrap: str
    security: ClientSecurity


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """What was heard."""

    external_brokers: Mapping[str, list[JsonObject]]
    """Brokers of existing clusters, by the cluster's name, in the form of the status document."""
    silent_clusters: Mapping[str, str]
    """Existing clusters that do not answer, by name, and why."""
    silent_daemons: Mapping[str, str]
    """Running daemons that do not answer, by key, and why."""


async def check_clusters(clusters: Iterable[Cluster]) -> None:
    """See that each of them answers, all asked at the same time.

    Raises ClusterSilent that names every one that does not, after `ANSWER_TIMEOUT_S`.
    """
    asked = {each.name: each for each in clusters}.values()
    answers = await asyncio.gather(
        *(ask_cluster(each, ANSWER_TIMEOUT_S) for each in asked), return_exceptions=True
    )
    silent = [answer for answer in answers if isinstance(answer, ClusterSilent)]
    for answer in answers:
        if isinstance(answer, BaseException) and not isinstance(answer, ClusterSilent):
            raise answer
    if silent:
        raise ClusterSilent("; ".join(map(str, silent)))


async def ask_cluster(cluster: Cluster, timeout_s: float) -> ClusterMetadata:
    """The cluster's brokers, as the first of them says that answers. Raises ClusterSilent."""
    addresses = cluster.bootstrap.split(",")
    # Each is tried in turn, and one that was stopped must not take all of the time.
    each_ms = int(timeout_s * 1000 / len(addresses))
    try:
        async with (
            asyncio.timeout(timeout_s),
            KafkaClient(
                cluster.bootstrap,
                client_id=CLIENT_ID,
                request_timeout_ms=each_ms,
                security=cluster.security,
            ) as client,
        ):
            return await client.metadata([])
    except TimeoutError as error:
        raise ClusterSilent(
            f"cluster {cluster.name} ({cluster.bootstrap}) does not answer within {timeout_s:g} s"
        ) from error
    except (KafkaError, OSError) as error:
        reason = error.message if isinstance(error, KafkaError) else str(error)
        raise ClusterSilent(f"cluster {cluster.name} does not answer: {reason}") from error


def ask_everyone(deployment: Deployment, report: Mapping[str, Any] | None) -> Answers:
    """Ask every existing cluster, and every daemon that the supervisor's report says runs."""
    return asyncio.run(_ask_everyone(deployment, report))


async def _ask_everyone(deployment: Deployment, report: Mapping[str, Any] | None) -> Answers:
    slots = asyncio.Semaphore(ASKED_AT_ONCE_MAX)
    rows = [row for row in (report or {}).get("daemons", ()) if row["phase"] == "running"]
    clusters = [each for each in deployment.clusters if each.kind == "external"]
    brokers = dict(_brokers(deployment))
    daemons = {daemon.key: daemon for daemon in deployment.daemons}

    async def ask_daemon(row: Mapping[str, Any]) -> str | None:
        async with slots:
            return await _why_silent(row, daemons.get(row["key"]), brokers.get(row["key"]))

    async def ask_external(cluster: ClusterView) -> ClusterMetadata | ClusterSilent:
        async with slots:
            try:
                return await ask_cluster(cluster, PROBE_TIMEOUT_S)
            except ClusterSilent as error:
                return error

    reasons, found = await asyncio.gather(
        asyncio.gather(*map(ask_daemon, rows)), asyncio.gather(*map(ask_external, clusters))
    )
    by_cluster = [(each.name, answer) for each, answer in zip(clusters, found, strict=True)]
    return Answers(
        external_brokers={
            name: _registered(answer)
            for name, answer in by_cluster
            if not isinstance(answer, ClusterSilent)
        },
        silent_clusters={
            name: str(answer) for name, answer in by_cluster if isinstance(answer, ClusterSilent)
        },
        silent_daemons={
            row["key"]: reason
            for row, reason in zip(rows, reasons, strict=True)
            if reason is not None
        },
    )


def _brokers(deployment: Deployment) -> Iterator[tuple[str, tuple[ClusterView, str, int]]]:
    """Each broker's daemon, with its cluster and where clients find it."""
    for cluster in deployment.clusters:
        for broker in cluster.brokers:
            yield broker.daemon, (cluster, broker.host, broker.port)


async def _why_silent(
    row: Mapping[str, Any],
    daemon: Daemon | None,
    broker: tuple[ClusterView, str, int] | None,
) -> str | None:
    """Why a running daemon counts as silent; None where it answers, or there is nothing to ask."""
    if broker is not None:
        return await _why_broker_silent(*broker)
    if row["role"] == "zookeeper" and daemon is not None and daemon.ready_zookeeper is not None:
        if await zookeeper_serves(*daemon.ready_zookeeper):
            return None
        host, port = daemon.ready_zookeeper
        return f"{host}:{port} does not say within {ZOOKEEPER_REPLY_TIMEOUT_S:g} s that it serves"
    url = http_url(row["ready"])
    return await _why_http_silent(url) if url is not None else None


async def _why_broker_silent(cluster: ClusterView, host: str, port: int) -> str | None:
    try:
        connection = await connect(
            host,
            port,
            client_id=CLIENT_ID,
            timeout_ms=int(PROBE_TIMEOUT_S * 1000),
            security=cluster.security,
        )
    except KafkaError as error:
        # Whoever refuses a name has answered.
        return None if error.code == ErrorCode.sasl_authentication_failed else error.message
    await connection.close()
    return None


async def _why_http_silent(url: str) -> str | None:
    host, port = parse_address(urlsplit(url).netloc)
    try:
        async with asyncio.timeout(PROBE_TIMEOUT_S):
            reader, writer = await asyncio.open_connection(host, port)
            try:
                writer.write(b"GET /healthz HTTP/1.0\r\n\r\n")
                answer = await reader.readline()
            finally:
                writer.close()
    except TimeoutError:
        return f"{url}/healthz does not answer within {PROBE_TIMEOUT_S:g} s"
    except (OSError, ValueError) as error:
        return f"{url}/healthz: {error}"
    return None if answer.startswith(b"HTTP/") else f"{url}/healthz answers something else"


def _registered(metadata: ClusterMetadata) -> list[JsonObject]:
    return [
        {
            "id": broker.node_id,
            "host": broker.host,
            "port": broker.port,
            "pid": None,
            "state": "registered",
            "reason": None,
        }
        for broker in sorted(metadata.brokers.values())
    ]
