"""Restarts the processes of this host with the wanted version, one after the other.

Guarantees: before each restart everything that this host knows of is well: its processes run, the
other hosts are reached, every partition of every own cluster is in sync, no link here has failed.
Brokers of a cluster with several brokers restart as in a rolling restart of `up`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from topology.deployment.deployment import ClusterView, Daemon, Deployment, read_deployment
from topology.deployment.render import render
from topology.deployment.state_dir import StateDir
from topology.file.load import load_topology
from topology.operate.controller_metadata import read_partitions
from topology.operate.crash_loops import CrashLoops
from topology.operate.handover import hand_over
from topology.operate.own_part import check_part, own_part
from topology.operate.preflight import as_it_runs
from topology.operate.rolling_restart import RollingRestart
from topology.problems import DeployError, InvalidTopology
from topology.shared_file.canonical import canonical_text
from topology.status.observe import observe
from topology.supervisor.process_journal import live_processes
from topology.upgrade.restart_order import held_back, shortened, to_restart, trouble

POLL_S: Final = 0.5

log = logging.getLogger(__name__)


def wanted_deployment(state: StateDir) -> Deployment:
    """Return what runs here as the installed version renders it. Raises DeployError.

    An edited file is refused: `up` applies edits, and an upgrade changes the version alone.
    """
    stored = read_deployment(state)
    file = Path(stored.topology_file)
    try:
        topology = load_topology(file)
    except InvalidTopology as error:
        raise DeployError(f"this version cannot read {file}", error.lines()) from error
    except OSError as error:
        raise DeployError(f"cannot read {file}: {error}") from error
    text = canonical_text(topology)
    if stored.file_text and text != stored.file_text:
        raise DeployError(
            f"{file} was edited and not applied; `heliograph plan` shows the edit, and `heliograph"
            " up` applies it with whichever version is installed"
        )
    rendered = own_part(render(topology, state, topology_file=file), stored.part)
    check_part(rendered, state)
    # Users and ACLs stay as the last `up` left them.
    rights = {each.name: each.rights for each in stored.clusters}
    clusters = tuple(replace(each, rights=rights.get(each.name)) for each in rendered.clusters)
    return replace(rendered, clusters=clusters, file_text=stored.file_text)


@dataclass(slots=True, kw_only=True)
class HostUpgrade:
    """The turn of one host."""

    deployment: Deployment
    """The result of `wanted_deployment`."""
    state: StateDir
    timeout_s: float
    """Seconds that each process may take, and before that everything to be in sync."""
    check: Callable[[], None]
    """Raises whatever ends the turn, such as an operator's order to stop."""
    _crash_loops: CrashLoops = field(default_factory=CrashLoops)

    def run(self) -> None:
        """Restart what runs with another version. Raises DeployError, or what `check` raises."""
        live = live_processes(self.state)
        running = {key: each.daemon for key, each in live.items()}
        self.deployment = as_it_runs(self.deployment, live)
        keys = to_restart(self.deployment, running)
        log.info("to restart: %s", ", ".join(running[key].label for key in keys) or "nothing")
        self.check()
        # The supervisor is replaced here, by one of the installed version.
        first = held_back(self.deployment, running, keys)
        hand_over(first, self.state, time.monotonic() + self.timeout_s)
        for place, key in enumerate(keys):
            label = running[key].label
            self._wait_until_well(f"{label} was not restarted")
            log.info("restarting %s", label)
            self._restart(key, held_back(self.deployment, running, keys[place + 1 :]), running)
        self._wait_until_well("everything was restarted, but not all is well")

    def _restart(self, key: str, stage: Deployment, running: Mapping[str, Daemon]) -> None:
        cluster = _cluster_of(stage, key)
        if cluster is None:
            self._apply(stage)
            self._wait_until_well(f"{stage.daemon(key).label} was restarted, and not all is well")
            return
        broker = next(each for each in cluster.brokers if each.daemon == key)
        RollingRestart(
            deployment=stage,
            before=read_deployment(self.state),
            running=running,
            rolling={cluster.name: [broker]},
            apply=self._apply,
            observe=lambda: observe(self.deployment, self.state),
            crash_loops=self._crash_loops,
            on_wait=self._on_wait,
            timeout_s=self.timeout_s,
        ).run()

    def _apply(self, stage: Deployment) -> None:
        self.check()
        deadline_s = time.monotonic() + self.timeout_s
        hand_over(stage, self.state, deadline_s, starts_keeper=False)

    def _on_wait(self, reasons: Sequence[str]) -> None:
        log.debug("waits: %s", "; ".join(reasons))
        self.check()

    def _wait_until_well(self, otherwise: str) -> None:
        """Wait until nothing is wrong. Raises DeployError that begins with `otherwise`."""
        deadline_s = time.monotonic() + self.timeout_s
        while True:
            self.check()
            status = observe(self.deployment, self.state, with_liveness=True)
            self._crash_loops.check(status["daemons"])
            reasons = trouble(self.deployment, status, self._partitions())
            if not reasons:
                return
            if time.monotonic() > deadline_s:
                raise DeployError(f"{otherwise} within {self.timeout_s:g} s", shortened(reasons))
            time.sleep(POLL_S)

    def _partitions(self) -> dict[str, Any]:
        return {
            each.name: read_partitions(each.bootstrap, each.security)
            for each in self.deployment.clusters
            if each.kind != "external"
        }


def _cluster_of(deployment: Deployment, key: str) -> ClusterView | None:
    """Return the cluster of a broker that has others beside it; None for any other daemon."""
    for cluster in deployment.clusters:
        if len(cluster.brokers) > 1 and any(each.daemon == key for each in cluster.brokers):
            return cluster
    return None
