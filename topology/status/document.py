"""What a deployment looks like now: the document of `heliograph status -o json`.

Guarantees: what is not known is null, never 0; every cluster, broker and link of the topology is
listed whether it runs or not; whatever is not well has a reason, where one is known.

State of the deployment, the first that fits:

    stopped        nothing of it runs
    unsupervised   its processes run, and nothing restarts them
    stopping
    running        every daemon runs and answers, and every link does its work
    degraded       something is not well that waiting alone does not mend
    starting       everything that is not there yet is on its way
"""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from topology.deployment.deployment import ClusterView, Deployment, LinkView
from topology.status.diagnosis import LINK_RUNS, diagnose
from topology.status.probes import DEGRADED, probe_status, probed_targets, probes_by_link
from topology.supervisor.process_journal import StartedProcess
from topology.supervisor.readiness import http_url, read_ready_file

if TYPE_CHECKING:
    from topology.status.answers import Answers

REPORT_TIMEOUT_S = 2.0
REPORT_BYTES_MAX = 16 * 1024 * 1024
FETCHES_MAX = 16
"""Mirror workers and aggregators asked at the same time."""

Rows = Mapping[str, Mapping[str, Any]]
"""Daemon key to its row of the supervisor's report."""

LINK_STUCK = frozenset({"failed", "held", "degraded"})
"""States of a link in which part of it waits for a person, or for something outside."""

LINK_CUT_OFF = frozenset({"source_down", "target_down"})
"""States of a link that goes on by itself when the cluster answers again."""

ON_ITS_WAY = frozenset({"waiting", "starting", "stopping"})
"""Phases of a daemon that will run soon, or again with other settings."""

NOT_ANSWERING = "not_answering"
"""State of a daemon that has a process, was ready, and does not answer."""

LINK_FIGURES = ("topics", "partitions", "lag_records", "lag_seconds")


def assemble_status(
    deployment: Deployment,
    report: Mapping[str, Any] | None,
    links: Mapping[str, Mapping[str, Any]],
    answers: Answers | None = None,
    probes: Mapping[str, Mapping[str, Any]] | None = None,
) -> dict[str, Any]:
    """The status document, from what is deployed, the supervisor's report, what mirror workers
    said of each link, who answers (None: nobody was asked), and what aggregators said of their
    probes.

    Where nobody was asked for the probes, `probes` is None, and no link has one.
    Without a supervisor the report is `unsupervised_report`'s, or None where nothing runs."""
    rows = _rows(report, answers)
    supervisor_pid = report["pid"] if report is not None else None
    clusters = [_cluster(cluster, rows, answers) for cluster in deployment.clusters]
    document: dict[str, Any] = {
        "name": deployment.name,
        "topology_file": deployment.topology_file,
        "state": "stopped",
        "supervisor": {"pid": supervisor_pid} if supervisor_pid is not None else None,
        "clusters": clusters,
        "links": [
            _link(link, rows, links.get(link.name), clusters, probes) for link in deployment.links
        ],
        "mirrors": list(_mirrors(deployment, rows)),
        "aggregators": list(_aggregators(deployment, rows)),
        "daemons": [_daemon(row) for row in rows.values()],
    }
    document["state"] = _overall(deployment, report, document)
    document["problems"] = [each.as_json() for each in diagnose(deployment, document)]
    return document


def _rows(report: Mapping[str, Any] | None, answers: Answers | None) -> Rows:
    """The supervisor's rows by key; a daemon that runs and does not answer is not running."""
    silent = answers.silent_daemons if answers is not None else {}
    found: dict[str, Mapping[str, Any]] = {}
    for row in report["daemons"] if report is not None else ():
        reason = silent.get(row["key"])
        is_silent = reason is not None and row["phase"] == "running"
        phase = NOT_ANSWERING if is_silent else row["phase"]
        found[row["key"]] = {**row, "phase": phase, "reason": reason if is_silent else None}
    return found


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


def _daemon(row: Mapping[str, Any]) -> dict[str, Any]:
    shown = ("key", "role", "label", "pid", "restarts", "exit_code", "log", "reason")
    return {**{key: row[key] for key in shown}, "state": row["phase"]}


def _cluster(cluster: ClusterView, rows: Rows, answers: Answers | None) -> dict[str, Any]:
    brokers: list[dict[str, Any]] | None
    reason: str | None = None
    if cluster.kind == "external":
        brokers = answers.external_brokers.get(cluster.name) if answers is not None else None
        reason = answers.silent_clusters.get(cluster.name) if answers is not None else None
    else:
        brokers = [
            {
                "id": broker.id,
                "host": broker.host,
                "port": broker.port,
                "pid": rows.get(broker.daemon, {}).get("pid"),
                "state": _state(rows, broker.daemon),
                "reason": rows.get(broker.daemon, {}).get("reason"),
            }
            for broker in cluster.brokers
        ]
        if brokers and all(broker["state"] == NOT_ANSWERING for broker in brokers):
            reason = f"cluster {cluster.name} does not answer: {brokers[0]['reason']}"
    return {
        "name": cluster.name,
        "kind": cluster.kind,
        "datacenter": cluster.datacenter,
        "bootstrap": cluster.bootstrap,
        "brokers": brokers,
        "reason": reason,
    }


def _link(
    link: LinkView,
    rows: Rows,
    said: Mapping[str, Any] | None,
    clusters: Iterable[Mapping[str, Any]],
    probes: Mapping[str, Mapping[str, Any]] | None,
) -> dict[str, Any]:
    told = said or {}
    state, reason = _link_state(link, rows, said)
    silent = {each["name"]: each["reason"] for each in clusters if each["reason"] is not None}
    # A worker needs some seconds to notice that a cluster has stopped.
    if state in LINK_RUNS or state in LINK_CUT_OFF or state == "starting":
        if link.target in silent:
            state, reason = "target_down", silent[link.target]
        elif link.source in silent:
            state, reason = "source_down", silent[link.source]
    probe = None
    if link.is_probed and probes is not None:
        probe = probe_status(link.target, probes.get(link.name))
        if probe["state"] == DEGRADED and state in LINK_RUNS:
            state, reason = DEGRADED, f"its probe: {probe['reason']}"
    return {
        "name": link.name,
        "source": link.source,
        "target": link.target,
        "state": state,
        "reason": reason,
        "standing_still": list(told.get("standing_still") or ()),
        "standing_still_more": told.get("standing_still_more") or 0,
        **{key: told.get(key) for key in LINK_FIGURES},
        "probe": probe,
    }


def _link_state(
    link: LinkView, rows: Rows, said: Mapping[str, Any] | None
) -> tuple[str, str | None]:
    """The state, and the reason where the link does not do its work."""
    worker = _state(rows, link.daemon)
    if worker != "running":
        reason = rows.get(link.daemon, {}).get("reason")
        return worker, f"its worker does not answer: {reason}" if reason else None
    if said is None:
        return "unknown", "its worker has not said anything of it"
    state = str(said.get("state", "unknown")).lower()
    return state, said.get("reason")


def _mirrors(deployment: Deployment, rows: Rows) -> Iterator[dict[str, Any]]:
    """The mirror workers of the deployment, each with the cluster that it writes into."""
    for target, daemon in {link.target: link.daemon for link in deployment.links}.items():
        yield {"cluster": target, "url": _url(rows.get(daemon)), "state": _state(rows, daemon)}


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
    phases = [daemon["state"] for daemon in document["daemons"]]
    missing = {daemon.key for daemon in deployment.daemons} - {r["key"] for r in report["daemons"]}
    links = {link["state"] for link in document["links"]}
    all_run = not missing and all(phase == "running" for phase in phases)
    is_silent = any(cluster["reason"] is not None for cluster in document["clusters"])
    if all_run and not is_silent and links <= LINK_RUNS:
        return "running"
    if (
        is_silent
        or not LINK_STUCK.isdisjoint(links)
        or (all_run and not LINK_CUT_OFF.isdisjoint(links))
        or any(row["restarts"] for row in report["daemons"])
        or any(phase != "running" and phase not in ON_ITS_WAY for phase in phases)
    ):
        return DEGRADED
    return "starting"


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


def fetch_probes(
    deployment: Deployment, report: Mapping[str, Any] | None
) -> dict[str, Mapping[str, Any]]:
    """What the aggregators say of the links that they probe, by link; silent ones are left out."""
    rows = {row["key"]: row for row in report["daemons"]} if report is not None else {}
    targets = probed_targets(deployment)
    urls = [
        _url(rows.get(cluster.aggregator))
        for cluster in deployment.clusters
        if cluster.aggregator is not None and cluster.name in targets
    ]
    return probes_by_link(_fetch_all(f"{url}/api/v1/probe" for url in urls if url is not None))


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
