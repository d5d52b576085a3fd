"""The JSON document of `heliograph status -o json`. Pure, except that it reads ready files.

Guarantees: an unknown value is null, never 0. Every cluster, broker and link of the topology is
listed, whether it runs or not. Everything that is wrong has a reason, if one is known.

State of the deployment on this host, the first that fits:

    stopped        nothing of it runs
    unsupervised   its processes run, and nobody restarts them
    stopping       `down` stops it
    running        every daemon runs and responds, and every link does its work
    waiting        all of that, except what waits for daemons of other hosts
    degraded       something is wrong that time alone does not fix
    starting       everything that is missing is about to run
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from topology.deployment.deployment import ClusterView, Daemon, Deployment, LinkView
from topology.status.blocked import (
    UNKNOWN,
    Peer,
    Peers,
    blocked_clusters,
    blocked_daemons,
    held_up_daemons,
)
from topology.status.diagnosis import ELSEWHERE, LINK_RUNS, diagnose
from topology.status.held_back import held_back
from topology.status.probes import DEGRADED, probe_status
from topology.supervisor.process_journal import StartedProcess
from topology.supervisor.readiness import http_url, read_ready_file

JsonObject = dict[str, Any]
Rows = Mapping[str, Mapping[str, Any]]
"""Daemon key to its row in the supervisor's report."""

LINK_STUCK = frozenset({"failed", "held", "degraded"})
"""States of a link in which at least a part of it waits for an operator, or for something outside
the deployment."""

LINK_CUT_OFF = frozenset({"source_down", "target_down"})
"""States of a link that continues by itself when the cluster responds again."""

IN_TRANSITION = frozenset({"waiting", "starting", "stopping"})
"""Phases of a daemon that is about to run, or to run with other settings."""

NOT_ANSWERING = "not_answering"
"""State of a daemon whose process was ready and does not respond."""

WAITING = "waiting"
"""State of a deployment in which only daemons of other hosts are missing."""

STARTING = "starting"
"""State of a deployment in which everything that is missing is about to run."""

LINK_FIGURES = ("topics", "partitions", "lag_records", "lag_seconds")


@dataclass(frozen=True, slots=True, kw_only=True)
class Liveness:
    """The results of the liveness checks (liveness.py)."""

    external_brokers: Mapping[str, list[JsonObject]]
    """Brokers of the external clusters that respond, by cluster name, as the document has them."""
    silent_clusters: Mapping[str, str]
    """External clusters that do not respond, by name, with the reason."""
    silent_daemons: Mapping[str, str]
    """Running daemons that do not respond, by key, with the reason."""


def assemble_status(
    deployment: Deployment,
    report: Mapping[str, Any] | None,
    links: Mapping[str, Mapping[str, Any]],
    liveness: Liveness | None = None,
    probes: Mapping[str, Mapping[str, Any]] | None = None,
    peers: Peers | None = None,
    new_nodes: Collection[str] = (),
) -> JsonObject:
    """Return the status document.

    `report` is the supervisor's report; without a supervisor that of `unsupervised_report`, or None
    if nothing runs. `links` are the mirror workers' reports, by link name. `liveness` is None if it
    was not checked. `probes` are the aggregators' reports, by link name; None if they were not
    requested, and then no link of the document has a probe. `peers` is what is known about the
    daemons of other hosts; None if they were not checked. `new_nodes` are the ZooKeeper nodes here
    that need node 1, by key.
    """
    known = peers or {}
    blocked = blocked_daemons(deployment, known, new_nodes)
    waiting = blocked_clusters(deployment, known, blocked)
    rows = _rows(report, liveness, blocked, held_up_daemons(deployment, known, blocked))
    elsewhere = [_peer(daemon, known) for daemon in deployment.elsewhere]
    states = {each["key"]: each["state"] for each in elsewhere}
    clusters = [_cluster(cluster, rows, liveness, states) for cluster in deployment.clusters]
    document: JsonObject = {
        "name": deployment.name,
        "topology_file": deployment.topology_file,
        "state": "stopped",
        "supervisor": _supervisor(report, deployment),
        "clusters": clusters,
        "links": [
            _link_elsewhere(link, deployment)
            if link.daemon in states
            else _link(
                link,
                rows,
                links.get(link.name),
                clusters,
                None if deployment.cluster(link.target).aggregator in states else probes,
            )
            for link in deployment.links
        ],
        "mirrors": list(_mirrors(deployment, rows, states)),
        "aggregators": list(_aggregators(deployment, rows, states)),
        "daemons": [_daemon(row) for row in rows.values()],
        "elsewhere": elsewhere,
    }
    for view, link in zip(deployment.links, document["links"], strict=True):
        worker = rows.get(view.daemon, {}).get("waits_for")
        link["waits_for"] = _link_waits_for(link, waiting, worker)
    document["state"] = _overall(deployment, report, document)
    document["problems"] = [each.as_json() for each in diagnose(deployment, document)]
    return document


def _supervisor(report: Mapping[str, Any] | None, deployment: Deployment) -> JsonObject | None:
    """Return the supervisor, with its URL if it has one.

    `problem` says why other hosts cannot ask it, if they should.
    """
    if report is None or report["pid"] is None:
        return None
    problem = report.get("port_problem")
    host = next((each.host for each in deployment.daemons), None)
    url = deployment.supervisors.url(host) if deployment.supervisors and host else None
    return {
        "pid": report["pid"],
        **({"url": url} if url else {}),
        **({"problem": problem} if problem else {}),
    }


def _rows(
    report: Mapping[str, Any] | None,
    liveness: Liveness | None,
    blocked: Mapping[str, str],
    held_up: Mapping[str, str],
) -> Rows:
    """Return the supervisor's rows by key. A running daemon that is silent is not `running`.

    What is `held_up` waits only while it starts: a daemon that ends has a trouble of its own.
    """
    silent = liveness.silent_daemons if liveness is not None else {}
    found: dict[str, Mapping[str, Any]] = {}
    for row in report["daemons"] if report is not None else ():
        reason = silent.get(row["key"])
        is_silent = reason is not None and row["phase"] == "running"
        phase = NOT_ANSWERING if is_silent else row["phase"]
        waits_for = blocked.get(row["key"]) if phase != "running" else None
        if phase == "starting":
            waits_for = waits_for or held_up.get(row["key"])
        found[row["key"]] = {
            **row,
            "phase": phase,
            "reason": reason if is_silent else waits_for,
            "waits_for": waits_for,
        }
    return found


def _peer(daemon: Daemon, peers: Peers) -> JsonObject:
    peer = peers.get(daemon.key, Peer(UNKNOWN))
    return {
        "key": daemon.key,
        "role": daemon.role,
        "label": daemon.label,
        "host": daemon.host,
        "state": peer.state,
        "reason": peer.reason,
    }


def _link_elsewhere(link: LinkView, deployment: Deployment) -> JsonObject:
    hosts = [deployment.daemon(key).host for key in link.workers]
    return {
        "name": link.name,
        "source": link.source,
        "target": link.target,
        "state": ELSEWHERE,
        "reason": f"`heliograph status` shows it on {', '.join(hosts)}",
        "standing_still": [],
        "standing_still_more": 0,
        **dict.fromkeys(LINK_FIGURES),
        **held_back({}),
        "probe": None,
    }


def _link_waits_for(
    link: Mapping[str, Any], waiting: Mapping[str, str], worker: str | None
) -> str | None:
    """Return why a link that is cut off, or whose `worker` waits, needs other hosts; else None."""
    if link["state"] in LINK_RUNS or link["state"] in LINK_STUCK or link["state"] == ELSEWHERE:
        return None
    for name in (link["target"], link["source"]):
        if name in waiting:
            return f"cluster {name}: {waiting[name]}"
    return None if worker is None else f"its worker: {worker}"


def unsupervised_report(
    started: Mapping[str, StartedProcess], log_file: Callable[[str], Path]
) -> JsonObject | None:
    """Return the report on processes that have outlived their supervisor; None without any."""
    if not started:
        return None
    return {
        "pid": None,
        "stopping": False,
        "daemons": [_left_row(key, each, log_file(key)) for key, each in started.items()],
    }


def _left_row(key: str, started: StartedProcess, log: Path) -> JsonObject:
    daemon, pid = started.daemon, started.identity.pid
    ready = read_ready_file(Path(daemon.ready_file), pid) if daemon.ready_file else None
    return {
        "key": key,
        "role": daemon.role,
        "label": daemon.label,
        # Only ZooKeeper has no ready file, and it gets no request here.
        "phase": "running" if ready is not None or not daemon.ready_file else "starting",
        "pid": pid,
        "restarts": None,
        "exit_code": None,
        "log": str(log),
        "ready": ready,
    }


def _daemon(row: Mapping[str, Any]) -> JsonObject:
    shown = ("key", "role", "label", "pid", "restarts", "exit_code", "log", "reason", "waits_for")
    return {**{key: row[key] for key in shown}, "state": row["phase"]}


def _cluster(
    cluster: ClusterView, rows: Rows, liveness: Liveness | None, elsewhere: Mapping[str, str]
) -> JsonObject:
    brokers: list[JsonObject] | None = None
    reason: str | None = None
    if cluster.kind == "external":
        if liveness is not None:
            brokers = liveness.external_brokers.get(cluster.name)
            reason = liveness.silent_clusters.get(cluster.name)
    else:
        brokers = [
            {
                "id": broker.id,
                "host": broker.host,
                "port": broker.port,
                "pid": rows.get(broker.daemon, {}).get("pid"),
                "state": elsewhere.get(broker.daemon) or _state(rows, broker.daemon),
                "reason": rows.get(broker.daemon, {}).get("reason"),
                "url": row_url(rows.get(broker.daemon)),
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
    report: Mapping[str, Any] | None,
    clusters: Iterable[Mapping[str, Any]],
    probes: Mapping[str, Mapping[str, Any]] | None,
) -> JsonObject:
    reported = report or {}
    state, reason = _link_state(link, rows, report)
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
        "standing_still": list(reported.get("standing_still") or ()),
        "standing_still_more": reported.get("standing_still_more") or 0,
        **{key: reported.get(key) for key in LINK_FIGURES},
        **held_back(reported),
        "probe": probe,
    }


def _link_state(
    link: LinkView, rows: Rows, report: Mapping[str, Any] | None
) -> tuple[str, str | None]:
    """Return the state, and the reason if the link does not do its work."""
    worker = _state(rows, link.daemon)
    if worker != "running":
        reason = rows.get(link.daemon, {}).get("reason")
        return worker, f"its worker does not answer: {reason}" if reason else None
    if report is None:
        return "unknown", "its worker has not reported on it"
    state = str(report.get("state", "unknown")).lower()
    return state, report.get("reason")


def _mirrors(
    deployment: Deployment, rows: Rows, elsewhere: Mapping[str, str]
) -> Iterator[JsonObject]:
    """Yield the mirror workers of this host, each with its target cluster."""
    targets = {worker: link.target for link in deployment.links for worker in link.every_worker}
    for worker, target in targets.items():
        if worker not in elsewhere:
            url = row_url(rows.get(worker))
            yield {"cluster": target, "url": url, "state": _state(rows, worker)}


def _aggregators(
    deployment: Deployment, rows: Rows, elsewhere: Mapping[str, str]
) -> Iterator[JsonObject]:
    for cluster in deployment.clusters:
        if cluster.aggregator is not None and cluster.aggregator not in elsewhere:
            yield {
                "cluster": cluster.name,
                "url": row_url(rows.get(cluster.aggregator)),
                "state": _state(rows, cluster.aggregator),
            }


def _state(rows: Rows, key: str) -> str:
    row = rows.get(key)
    return str(row["phase"]) if row is not None else "stopped"


def row_url(row: Mapping[str, Any] | None) -> str | None:
    """Return the URL of the daemon of a row of the supervisor's report; None without one."""
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
    links = {link["state"] for link in document["links"]} - {ELSEWHERE}
    all_run = not missing and all(phase == "running" for phase in phases)
    is_silent = any(cluster["reason"] is not None for cluster in document["clusters"])
    if all_run and not is_silent and links <= LINK_RUNS:
        return DEGRADED if report.get("port_problem") else "running"
    needs_others = [*document["daemons"], *document["links"]]
    if not missing and any(each["waits_for"] for each in needs_others):
        rest = {each["state"] for each in document["daemons"] if not each["waits_for"]}
        cut_off = {each["state"] for each in document["links"] if not each["waits_for"]}
        if rest <= {"running"} and not is_silent and cut_off <= LINK_RUNS | {ELSEWHERE}:
            return WAITING
    if (
        is_silent
        or not LINK_STUCK.isdisjoint(links)
        or (all_run and not LINK_CUT_OFF.isdisjoint(links))
        or any(row["restarts"] for row in report["daemons"])
        or any(phase != "running" and phase not in IN_TRANSITION for phase in phases)
    ):
        return DEGRADED
    return STARTING
