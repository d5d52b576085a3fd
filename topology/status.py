"""What a deployment looks like now: the document of `heliograph status -o json`.

Guarantees: what is not known is null, never 0; every cluster, broker and link of the topology is
listed whether it runs or not.
"""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from topology.deployment import ClusterView, Deployment, LinkView
from topology.journal import StartedProcess
from topology.readiness import http_url, read_ready_file

REPORT_TIMEOUT_S = 2.0
REPORT_BYTES_MAX = 16 * 1024 * 1024
FETCHES_MAX = 16
"""Mirror workers and aggregators asked at the same time."""

Rows = Mapping[str, Mapping[str, Any]]
"""Daemon key to its row of the supervisor's report."""

LINK_RUNS = frozenset({"running", "catching_up"})
"""States of a link that does its work, at the end of its source or on the way there."""

LINK_FIGURES = ("topics", "partitions", "lag_records", "lag_seconds")


def assemble_status(
    deployment: Deployment,
    report: Mapping[str, Any] | None,
    links: Mapping[str, Mapping[str, Any]],
    external_brokers: Mapping[str, list[dict[str, Any]]] | None = None,
) -> dict[str, Any]:
    """The status document, from what is deployed, the supervisor's report, what mirror workers
    said of each link, and what existing clusters said.

    Without a supervisor the report is `unsupervised_report`'s, or None where nothing runs."""
    rows: Rows = {row["key"]: row for row in report["daemons"]} if report is not None else {}
    supervisor_pid = report["pid"] if report is not None else None
    document: dict[str, Any] = {
        "name": deployment.name,
        "topology_file": deployment.topology_file,
        "state": "stopped",
        "supervisor": {"pid": supervisor_pid} if supervisor_pid is not None else None,
        "clusters": [
            _cluster(cluster, rows, external_brokers or {}) for cluster in deployment.clusters
        ],
        "links": [_link(link, rows, links.get(link.name)) for link in deployment.links],
        "aggregators": list(_aggregators(deployment, rows)),
        "daemons": [_daemon(deployment, row) for row in rows.values()],
    }
    document["state"] = _overall(deployment, report, document)
    return document


def unsupervised_report(
    started: Mapping[str, StartedProcess], log_file: Callable[[str], Path]
) -> dict[str, Any] | None:
    """What a supervisor would report of processes that have outlived it; None if there are none."""
    if not started:
        return None
    return {
        "pid": None,
        "stopping": False,
        "daemons": [_left_row(key, each, log_file(key)) for key, each in started.items()],
    }


def _left_row(key: str, started: StartedProcess, log: Path) -> dict[str, Any]:
    daemon, pid = started.daemon, started.identity.pid
    ready = read_ready_file(Path(daemon.ready_file), pid) if daemon.ready_file else None
    return {
        "key": key,
        "role": daemon.role,
        "label": daemon.label,
        # Only ZooKeeper has no ready file, and it is not asked here.
        "phase": "running" if ready is not None or not daemon.ready_file else "starting",
        "pid": pid,
        "restarts": None,
        "exit_code": None,
        "log": str(log),
        "ready": ready,
    }


def _daemon(deployment: Deployment, row: Mapping[str, Any]) -> dict[str, Any]:
    shown = ("key", "role", "label", "pid", "restarts", "exit_code", "log")
    return {**{key: row[key] for key in shown}, "state": row["phase"]}


def _cluster(
    cluster: ClusterView, rows: Rows, external_brokers: Mapping[str, list[dict[str, Any]]]
) -> dict[str, Any]:
    brokers: list[dict[str, Any]] | None
    if cluster.kind == "external":
        brokers = external_brokers.get(cluster.name)
    else:
        brokers = [
            {
                "id": broker.id,
                "host": broker.host,
                "port": broker.port,
                "pid": rows.get(broker.daemon, {}).get("pid"),
                "state": _state(rows, broker.daemon),
            }
            for broker in cluster.brokers
        ]
    return {
        "name": cluster.name,
        "kind": cluster.kind,
        "datacenter": cluster.datacenter,
        "bootstrap": cluster.bootstrap,
        "brokers": brokers,
    }


def _link(link: LinkView, rows: Rows, said: Mapping[str, Any] | None) -> dict[str, Any]:
    worker = _state(rows, link.daemon)
    state = worker if worker != "running" else str((said or {}).get("state", "unknown")).lower()
    figures = {key: (said or {}).get(key) for key in LINK_FIGURES}
    return {
        "name": link.name,
        "source": link.source,
        "target": link.target,
        "state": state,
        **figures,
    }


def _aggregators(deployment: Deployment, rows: Rows) -> Iterator[dict[str, Any]]:
    for cluster in deployment.clusters:
        if cluster.aggregator is not None:
            yield {
                "cluster": cluster.name,
                "url": _url(rows.get(cluster.aggregator)),
                "state": _state(rows, cluster.aggregator),
            }


def _state(rows: Rows, key: str) -> str:
    row = rows.get(key)
    return str(row["phase"]) if row is not None else "stopped"


def _url(row: Mapping[str, Any] | None) -> str | None:
    return http_url(row["ready"]) if row is not None else None


def _overall(
    deployment: Deployment, report: Mapping[str, Any] | None, document: Mapping[str, Any]
) -> str:
    if report is None:
        return "stopped"
    if report["pid"] is None:
        return "unsupervised"
    if report["stopping"]:
        return "stopping"
    phases = [row["phase"] for row in report["daemons"]]
    missing = {daemon.key for daemon in deployment.daemons} - {r["key"] for r in report["daemons"]}
    links_run = all(link["state"] in LINK_RUNS for link in document["links"])
    if not missing and links_run and all(phase == "running" for phase in phases):
        return "running"
    return "degraded" if any(row["restarts"] for row in report["daemons"]) else "starting"


def fetch_link_reports(
    deployment: Deployment, report: Mapping[str, Any] | None
) -> dict[str, Mapping[str, Any]]:
    """What the mirror workers of the deployment say of each link, by link name; silent ones are
    left out.

    Where workers elsewhere have a part of a link, only the aggregator of the target knows how far
    all of it is behind.
    """
    rows = {row["key"]: row for row in report["daemons"]} if report is not None else {}
    workers = [_url(row) for row in rows.values() if row["role"] == "mirror"]
    told = {
        str(link["name"]): link
        for answer in _fetch_all(f"{url}/status" for url in workers if url is not None)
        for link in _listed_links(answer)
        if "name" in link
    }
    aggregators = [
        _url(rows.get(cluster.aggregator))
        for cluster in deployment.clusters
        if cluster.aggregator is not None
        and any(
            link.target == cluster.name and _is_partial(told.get(link.name))
            for link in deployment.links
        )
    ]
    whole = {
        str(link["link"]): link
        for answer in _fetch_all(f"{url}/api/v1/lag" for url in aggregators if url is not None)
        for link in _listed_links(answer)
        if "link" in link
    }
    return {
        name: {**link, **_figures_of_all(link, whole.get(name))} if _is_partial(link) else link
        for name, link in told.items()
    }


def _is_partial(link: Mapping[str, Any] | None) -> bool:
    """Whether a worker has not all of a link's partitions."""
    return link is not None and link.get("partitions") != link.get("partitions_known")


def _figures_of_all(link: Mapping[str, Any], lag: Mapping[str, Any] | None) -> dict[str, Any]:
    """A link's figures, with the lag that its aggregator puts together; null where it does not."""
    found = lag or {}
    topics = {part["topic"] for part in found.get("partitions") or ()}
    return {
        "topics": len(topics) if found.get("records") is not None else None,
        "partitions": link.get("partitions_known"),
        "lag_records": found.get("records"),
        "lag_seconds": found.get("seconds"),
    }


def _fetch_all(urls: Iterable[str]) -> list[Any]:
    """The JSON answers, None where there is none."""
    asked = list(urls)
    if not asked:
        return []
    with ThreadPoolExecutor(min(len(asked), FETCHES_MAX)) as pool:
        return list(pool.map(_fetch, asked))


def _fetch(url: str) -> Any:
    try:
        with urllib.request.urlopen(url, timeout=REPORT_TIMEOUT_S) as response:
            return json.loads(response.read(REPORT_BYTES_MAX))
    except (OSError, http.client.HTTPException, ValueError):
        return None


def _listed_links(document: Any) -> list[Mapping[str, Any]]:
    links = document.get("links") if isinstance(document, dict) else None
    if not isinstance(links, list):
        return []
    return [link for link in links if isinstance(link, dict)]
