"""Liveness checks: whether the running daemons and the external clusters respond.

A process that was stopped, or that hangs, still exists, and the kernel still accepts connections
for it. Only a missing response shows it. So each gets a small request, all at the same time:

    broker               ApiVersions, on its first listener
    ZooKeeper            the command `srvr`
    mirror, aggregator   GET /healthz
    external cluster     Metadata without topics

This module imports the Kafka client, so import it only where a request is sent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, NamedTuple, Protocol

from local_cluster.client.auth.security import ClientSecurity, SecurityError
from local_cluster.client.auth.session import NoProofError
from local_cluster.client.client import KafkaClient
from local_cluster.client.connection import connect
from local_cluster.client.model import ClusterMetadata
from local_cluster.http_security.credentials import HttpCredentials
from local_cluster.http_security.request import HttpFailure, NoHttpResponse, request
from local_cluster.wire.errors import ErrorCode, KafkaError
from topology.deployment.deployment import ClusterView, Daemon, Deployment
from topology.status.document import JsonObject, Liveness
from topology.supervisor.readiness import ZOOKEEPER_REPLY_TIMEOUT_S, http_url, zookeeper_serves

LIVENESS_TIMEOUT_S: Final = 3.0
"""Seconds that `status` and `up` wait for a response."""
RESPONSE_TIMEOUT_S: Final = 10.0
"""Seconds that a command which needs a cluster waits for one of its brokers."""
CHECKS_MAX: Final = 256
"""Checks that run at the same time."""
HTTP_CHECKS_MAX: Final = 32
"""HTTP checks that run at the same time, each on a thread."""
CLIENT_ID: Final = "heliograph-status"


class ClusterSilent(Exception):
    """No broker of a cluster responds; the message names the cluster."""


class Cluster(Protocol):
    """A cluster's name and addresses; `ClusterView` implements it."""

    @property
    def name(self) -> str: ...
    @property
    def bootstrap(self) -> str: ...
    @property
    def security(self) -> ClientSecurity: ...


class ClusterAddress(NamedTuple):
    """A cluster that is known by its addresses alone."""

    name: str
    bootstrap: str
    security: ClientSecurity


async def require_clusters(clusters: Iterable[Cluster]) -> None:
    """Check that every cluster responds, all at the same time.

    Raises ClusterSilent that names every cluster without a response in `RESPONSE_TIMEOUT_S`.
    """
    by_name = {each.name: each for each in clusters}.values()
    results = await asyncio.gather(
        *(describe_cluster(each, RESPONSE_TIMEOUT_S) for each in by_name), return_exceptions=True
    )
    silent = [result for result in results if isinstance(result, ClusterSilent)]
    for result in results:
        if isinstance(result, BaseException) and not isinstance(result, ClusterSilent):
            raise result
    if silent:
        raise ClusterSilent("; ".join(map(str, silent)))


async def describe_cluster(cluster: Cluster, timeout_s: float) -> ClusterMetadata:
    """Return the cluster's brokers, from the first broker that responds. Raises ClusterSilent."""
    addresses = cluster.bootstrap.split(",")
    # The addresses are tried in turn, and a stopped broker must leave time for the next one.
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


def check_liveness(deployment: Deployment, report: Mapping[str, Any] | None) -> Liveness:
    """Check every external cluster, and every daemon that runs by the supervisor's report."""
    return asyncio.run(_check_liveness(deployment, report))


async def _check_liveness(deployment: Deployment, report: Mapping[str, Any] | None) -> Liveness:
    slots = asyncio.Semaphore(CHECKS_MAX)
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(HTTP_CHECKS_MAX))
    rows = [row for row in (report or {}).get("daemons", ()) if row["phase"] == "running"]
    clusters = [each for each in deployment.clusters if each.kind == "external"]
    brokers = dict(_brokers(deployment))
    daemons = {daemon.key: daemon for daemon in deployment.daemons}
    credentials = HttpCredentials(deployment.http)

    async def check_daemon(row: Mapping[str, Any]) -> str | None:
        async with slots:
            broker = brokers.get(row["key"])
            return await _why_silent(row, daemons.get(row["key"]), broker, credentials)

    async def check_external(cluster: ClusterView) -> ClusterMetadata | ClusterSilent:
        async with slots:
            try:
                return await describe_cluster(cluster, LIVENESS_TIMEOUT_S)
            except ClusterSilent as error:
                return error

    reasons, results = await asyncio.gather(
        asyncio.gather(*map(check_daemon, rows)), asyncio.gather(*map(check_external, clusters))
    )
    by_cluster = [(each.name, result) for each, result in zip(clusters, results, strict=True)]
    return Liveness(
        external_brokers={
            name: _registered(result)
            for name, result in by_cluster
            if not isinstance(result, ClusterSilent)
        },
        silent_clusters={
            name: str(result) for name, result in by_cluster if isinstance(result, ClusterSilent)
        },
        silent_daemons={
            row["key"]: reason
            for row, reason in zip(rows, reasons, strict=True)
            if reason is not None
        },
    )


def _brokers(deployment: Deployment) -> Iterator[tuple[str, tuple[ClusterView, str, int]]]:
    """Yield each broker's daemon key, with its cluster, host and port."""
    for cluster in deployment.clusters:
        for broker in cluster.brokers:
            yield broker.daemon, (cluster, broker.host, broker.port)


async def _why_silent(
    row: Mapping[str, Any],
    daemon: Daemon | None,
    broker: tuple[ClusterView, str, int] | None,
    credentials: HttpCredentials,
) -> str | None:
    """Return why a running daemon counts as silent; None if it responds, or has no check."""
    if broker is not None:
        return await _why_broker_silent(*broker)
    if row["role"] == "zookeeper" and daemon is not None and daemon.ready_zookeeper is not None:
        if await zookeeper_serves(*daemon.ready_zookeeper):
            return None
        host, port = daemon.ready_zookeeper
        return f"{host}:{port} does not say within {ZOOKEEPER_REPLY_TIMEOUT_S:g} s that it serves"
    url = http_url(row["ready"])
    return None if url is None else await _why_http_silent(url, credentials)


async def _why_broker_silent(cluster: ClusterView, host: str, port: int) -> str | None:
    try:
        connection = await connect(
            host,
            port,
            client_id=CLIENT_ID,
            timeout_ms=int(LIVENESS_TIMEOUT_S * 1000),
            security=cluster.security,
        )
    except NoProofError:
        return None  # the broker has responded, but what has the proof has not
    except KafkaError as error:
        # A broker that refuses the credentials has responded.
        return None if error.code == ErrorCode.sasl_authentication_failed else error.message
    await connection.close()
    return None


async def _why_http_silent(url: str, credentials: HttpCredentials) -> str | None:
    address = f"{url}/healthz"
    try:
        await asyncio.to_thread(request, credentials, "GET", address, timeout_s=LIVENESS_TIMEOUT_S)
    except TimeoutError:
        return f"{address} does not answer within {LIVENESS_TIMEOUT_S:g} s"
    except (OSError, SecurityError) as error:
        return f"{address}: {error}"
    except NoHttpResponse:
        return f"{address} does not answer with HTTP"
    except HttpFailure as error:
        return f"{address}: {error}"
    return None


def _registered(metadata: ClusterMetadata) -> list[JsonObject]:
    return [
        {
            "id": broker.node_id,
            "host": broker.host,
            "port": broker.port,
            "pid": None,
            "state": "registered",
            "reason": None,
            "url": None,
        }
        for broker in sorted(metadata.brokers.values())
    ]
