"""`up`: starts what is missing, restarts what changed, stops what was removed.

Guarantees: `up` touches no daemon that runs as the topology says.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from topology.deployment.deployment import Deployment, read_deployment
from topology.deployment.plan import Step
from topology.deployment.state_dir import StateDir
from topology.operate.crash_loops import CrashLoops
from topology.operate.handover import hand_over
from topology.operate.preflight import (
    check_installed,
    check_owner,
    check_ports,
    check_protocols,
    check_removals,
    steps_from,
)
from topology.operate.restart_stages import rolling_brokers
from topology.problems import DeployError
from topology.status.blocked import UNREACHABLE, Peers
from topology.status.diagnosis import LINK_RUNS, problem_lines
from topology.status.document import LINK_STUCK, WAITING
from topology.status.observe import observe
from topology.status.peers import check_peers
from topology.supervisor.process_journal import live_processes

UP_TIMEOUT_S: Final = 120.0
"""Seconds that `up` waits for everything, and before that for each broker of a rolling restart."""
SETTLE_S: Final = 5.0
"""Seconds that everything but links must have run before `up` reports links that wait for an
operator. A link may be degraded for a moment while its worker starts."""
POLL_S: Final = 0.1
PEERS_POLL_S: Final = 2.0
"""Seconds between checks of other hosts while `up` waits."""


@dataclass(frozen=True, slots=True)
class Up:
    """The steps of `up`, and the status document after them."""

    steps: tuple[Step, ...]
    status: dict[str, Any]

    @property
    def is_well(self) -> bool:
        """Whether everything runs, or waits only for hosts that were not started yet."""
        if self.status["state"] == WAITING:
            return all(each["state"] != UNREACHABLE for each in self.status["elsewhere"])
        return bool(self.status["state"] == "running")


def up(
    deployment: Deployment,
    state: StateDir,
    *,
    timeout_s: float = UP_TIMEOUT_S,
    abandon_replicas: bool = False,
    on_plan: Callable[[list[Step]], None] = lambda steps: None,
    on_status: Callable[[dict[str, Any]], None] = lambda status: None,
    on_roll: Callable[[Sequence[str]], None] = lambda reasons: None,
) -> Up:
    """Apply a deployment, and return when everything runs and responds. Raises DeployError.

    Brokers of one cluster restart one after the other. Brokers and log directories that are removed
    must hold no replicas, unless `abandon_replicas` gives these up.

    `up` also returns if everything runs except links that wait for an operator (paused links, or
    stopped partitions). The status is `degraded` then. It is `waiting` if everything runs except
    what waits for other hosts.
    """
    check_owner(deployment, state)
    check_installed(deployment)
    if not abandon_replicas:
        check_removals(deployment, state)
    live = live_processes(state)
    check_protocols(deployment, live)
    steps = steps_from(live, deployment)
    on_plan(steps)
    check_ports(deployment, steps, live)
    before = read_deployment(state) if state.exists() else None
    try:
        state.create()
    except OSError as error:
        raise DeployError(f"cannot use state directory {state.path}: {error}") from error
    crash_loops = CrashLoops()
    running = {key: each.daemon for key, each in live.items()}
    if rolling := rolling_brokers(deployment, running):
        from topology.operate.rolling_restart import RollingRestart

        RollingRestart(
            deployment=deployment,
            before=before,
            running=running,
            rolling=rolling,
            apply=lambda stage: hand_over(stage, state, time.monotonic() + timeout_s),
            observe=lambda: observe(deployment, state),
            crash_loops=crash_loops,
            on_wait=on_roll,
            timeout_s=timeout_s,
        ).run()
    deadline_s = time.monotonic() + timeout_s
    hand_over(deployment, state, deadline_s)
    try:
        status = _wait_until_up(deployment, state, deadline_s, crash_loops, on_status)
    except TimeoutError as error:
        raise DeployError(f"not everything runs after {timeout_s:g} s", error.args) from None
    return Up(tuple(steps), status)


def _wait_until_up(
    deployment: Deployment,
    state: StateDir,
    deadline_s: float,
    crash_loops: CrashLoops,
    on_status: Callable[[dict[str, Any]], None],
) -> dict[str, Any]:
    """Return the status when everything runs and responds, or when only an operator can do more.

    Raises DeployError, or TimeoutError with what does not run.
    """
    stuck_since_s: float | None = None
    peers: Peers = {}
    peers_until_s = 0.0
    while True:
        if time.monotonic() >= peers_until_s:
            peers = check_peers(deployment.elsewhere)
            peers_until_s = time.monotonic() + PEERS_POLL_S
        status = observe(deployment, state, peers=peers)
        if status["state"] == "running":
            # A process that hangs still counts as running; only a liveness check shows it.
            status = observe(deployment, state, with_liveness=True)
        on_status(status)
        if status["state"] == "running":
            return status
        if not _only_time_is_no_help(status):
            stuck_since_s = None
        elif stuck_since_s is None:
            stuck_since_s = time.monotonic()
        elif time.monotonic() - stuck_since_s >= SETTLE_S:
            status = observe(deployment, state, with_liveness=True)
            if _only_time_is_no_help(status):
                return status
        crash_loops.check(each for each in status["daemons"] if each["waits_for"] is None)
        if time.monotonic() > deadline_s:
            # A cluster that does not respond may be why its links do not run.
            status = observe(deployment, state, with_liveness=True)
            if status["state"] == "running":
                return status
            raise TimeoutError(*problem_lines(status["problems"]))
        time.sleep(POLL_S)


def _only_time_is_no_help(status: Mapping[str, Any]) -> bool:
    """Return whether everything runs except what waits for other hosts, or for an operator."""
    if status["state"] == WAITING:
        return True
    states = {link["state"] for link in status["links"]}
    return (
        all(daemon["state"] == "running" for daemon in status["daemons"])
        and all(cluster["reason"] is None for cluster in status["clusters"])
        and not states.isdisjoint(LINK_STUCK)
        and states <= LINK_RUNS | LINK_STUCK
    )
