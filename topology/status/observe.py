"""The status of a deployment now: asks the supervisor and the daemons, assembles the document."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from topology.deployment.deployment import Deployment, read_deployment
from topology.deployment.state_dir import StateDir
from topology.ensemble.node_files import needs_first_node
from topology.status.blocked import Peers
from topology.status.completeness import summary
from topology.status.document import JsonObject, assemble_status, unsupervised_report
from topology.status.growing import with_growth
from topology.status.peers import check_peers
from topology.status.probes import DEGRADED
from topology.status.reports import fetch_completeness, fetch_link_reports, fetch_probes
from topology.supervisor.control_client import SupervisorUnreachable, supervisor_status
from topology.supervisor.process_journal import live_processes


def current_status(state: StateDir) -> JsonObject:
    """Return the status of the deployment in a state directory, with liveness and probes.

    Raises DeployError.
    """
    return observe(read_deployment(state), state, with_liveness=True, with_probes=True)


def reported_status(state: StateDir) -> JsonObject:
    """Return the same at less cost: only the supervisor and the mirror workers are asked.

    A daemon that hangs counts as running. Raises DeployError.
    """
    return observe(read_deployment(state), state)


def observe(
    deployment: Deployment,
    state: StateDir,
    *,
    with_liveness: bool = False,
    with_probes: bool = False,
    peers: Peers | None = None,
) -> JsonObject:
    """Return the status document. Raises DeployError.

    `peers` is what is known about the daemons of other hosts; None checks them.
    `with_liveness` checks every daemon and external cluster. `up` does not ask for the probes: a
    fault that a probe found yesterday is no reason to wait today.
    """
    report: Mapping[str, Any] | None
    try:
        report = supervisor_status(state.socket_path)
    except SupervisorUnreachable:
        report = unsupervised_report(live_processes(state), state.log_file)
    if peers is None:
        peers = check_peers(deployment.elsewhere)
    new_nodes = _new_nodes(deployment, state)
    if not with_liveness:
        links = fetch_link_reports(deployment, report)
        return assemble_status(deployment, report, links, peers=peers, new_nodes=new_nodes)
    from topology.ensemble.growth import EnsembleGrowth
    from topology.hosts.document import ask_other_hosts, status_of_hosts
    from topology.shared_file.agreement import file_state
    from topology.status.liveness import check_liveness
    from topology.status.published_streams import fetch_streams

    with ThreadPoolExecutor(3) as pool:  # all requests wait at the same time
        checking = pool.submit(check_liveness, deployment, report)
        probing = pool.submit(fetch_probes, deployment, report) if with_probes else None
        asks_others = with_probes and deployment.supervisors is not None
        asking = pool.submit(ask_other_hosts, deployment) if asks_others else None
        links = fetch_link_reports(deployment, report)
        probes = None if probing is None else probing.result()
        found = checking.result()
        document = assemble_status(deployment, report, links, found, probes, peers, new_nodes)
        if with_probes:
            complete = fetch_completeness(deployment, report)
            document["completeness"] = [summary(name, each) for name, each in complete.items()]
            document["streams"] = fetch_streams(deployment, found.silent_clusters)
            if (shared := file_state(deployment, state)) is not None:
                document["file"] = shared.as_json()
            if asking is not None:
                document["hosts"] = status_of_hosts(deployment, asking.result(), shared)
            unfinished = EnsembleGrowth(deployment, state).look()
            document = with_growth(document, unfinished, DEGRADED)
        return document


def _new_nodes(deployment: Deployment, state: StateDir) -> set[str]:
    """Return the ZooKeeper nodes here, by key, whose ensemble is new and so needs node 1."""
    found = set()
    for daemon in deployment.daemons:
        if len(daemon.quorum) > 1 and daemon.member:  # else an older version started it
            with contextlib.suppress(OSError, ValueError):
                if needs_first_node(state.data_dir / daemon.key):
                    found.add(daemon.key)
    return found
