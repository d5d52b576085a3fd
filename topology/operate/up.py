"""`up`: starts what is missing, restarts what changed, stops what was removed.

Guarantees: `up` touches no daemon that runs as the topology says.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from topology.deployment.deployment import Daemon, Deployment
from topology.deployment.plan import Step
from topology.deployment.removals import with_former_rights
from topology.deployment.rights_difference import RightsChange
from topology.deployment.state_dir import StateDir
from topology.ensemble.growth import EnsembleGrowth
from topology.ensemble.nodes import add_growth, growths
from topology.hosts.document import ask_other_hosts
from topology.hosts.fitness import host_warnings
from topology.hosts.own_host import check_room, host_facts
from topology.operate.crash_loops import CrashLoops
from topology.operate.ensemble_rollout import EnsembleRollout
from topology.operate.handover import hand_over
from topology.operate.preflight import (
    as_it_runs,
    check_ensembles,
    check_installed,
    check_owner,
    check_ports,
    check_protocols,
    check_removals,
    check_supervisor_port,
    deployed_before,
    login_notes,
    steps_from,
)
from topology.operate.restart_stages import rolling_brokers
from topology.problems import DeployError
from topology.status.blocked import UNREACHABLE, Peers
from topology.status.diagnosis import LINK_RUNS, problem_lines
from topology.status.document import LINK_STUCK, STARTING, WAITING
from topology.status.growing import with_growth
from topology.status.observe import observe
from topology.status.peers import check_peers
from topology.supervisor.process_journal import StartedProcess, live_processes
from topology.upgrade.plan_znode import check_levels

if TYPE_CHECKING:
    from topology.operate.rights_rollout import RightsRollout

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
    rights: Mapping[str, Sequence[RightsChange]]
    """Changes of users, ACLs and quotas, by the name of the cluster."""
    warnings: tuple[str, ...] = ()
    """What the operator should know of this host, though everything can start."""

    def as_json(self) -> dict[str, Any]:
        """Return the status document with `steps`, `rights` and `warnings`."""
        rights = [
            {"cluster": cluster, **change.as_json()}
            for cluster, changes in self.rights.items()
            for change in changes
        ]
        steps = [step.as_json() for step in self.steps]
        return {**self.status, "steps": steps, "rights": rights, "warnings": [*self.warnings]}

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
    keep_rights: bool = False,
    on_plan: Callable[[list[Step]], None] = lambda steps: None,
    on_checked: Callable[[], None] = lambda: None,
    on_status: Callable[[dict[str, Any]], None] = lambda status: None,
    on_roll: Callable[[Sequence[str]], None] = lambda reasons: None,
    on_rights: Callable[[str, Sequence[RightsChange]], None] = lambda cluster, changes: None,
) -> Up:
    """Apply a deployment, and return when everything runs and responds. Raises DeployError.

    Brokers of one cluster restart one after the other. Users, ACLs and quotas are applied before
    what needs them starts (rights_rollout.py); `keep_rights` deletes none. What is removed must
    hold no replicas, unless `abandon_replicas`. `on_checked` may stop `up` by a DeployError.

    `up` also returns if everything runs except links that wait for an operator (status `degraded`),
    or what waits for other hosts (status `waiting`).
    """
    live, steps, warnings = _checked(deployment, state, on_plan, abandon_replicas=abandon_replicas)
    on_checked()
    before = deployed_before(state)
    deployment = with_former_rights(as_it_runs(deployment, live), before)
    _create(state)

    def apply_stage(stage: Deployment) -> None:
        hand_over(stage, state, time.monotonic() + timeout_s)

    crash_loops = CrashLoops()
    running = {key: each.daemon for key, each in live.items()}
    growth = EnsembleRollout(
        deployment, before, running, state, apply_stage, crash_loops, on_roll, timeout_s
    ).begin()
    rollout = _rights_rollout(
        deployment,
        before,
        running,
        on_rights,
        lambda: crash_loops.check(observe(deployment, state)["daemons"]),
        deletes=not keep_rights,
    )
    rolling = rolling_brokers(deployment, running)
    if rollout is not None:
        rollout.begin(list(itertools.chain(*rolling.values())), apply_stage, timeout_s)
    if rolling:
        from topology.operate.rolling_restart import RollingRestart

        RollingRestart(
            deployment=deployment,
            before=before,
            running=running,
            rolling=rolling,
            apply=apply_stage,
            observe=lambda: observe(deployment, state),
            crash_loops=crash_loops,
            on_wait=on_roll,
            timeout_s=timeout_s,
        ).run()
    deadline_s = time.monotonic() + timeout_s
    hand_over(deployment, state, deadline_s)
    if rollout is not None:
        rollout.end(deadline_s)
    try:
        status = _wait_until_up(deployment, state, deadline_s, crash_loops, growth, on_status)
    except TimeoutError as error:
        raise DeployError(f"not everything runs after {timeout_s:g} s", error.args) from None
    return Up(tuple(steps), status, rollout.applied if rollout else {}, tuple(warnings))


def _create(state: StateDir) -> None:
    """Create the state directory. Raises DeployError."""
    try:
        state.create()
    except OSError as error:
        raise DeployError(f"cannot use state directory {state.path}: {error}") from error


def _checked(
    deployment: Deployment,
    state: StateDir,
    on_plan: Callable[[list[Step]], None],
    *,
    abandon_replicas: bool,
) -> tuple[Mapping[str, StartedProcess], list[Step], list[str]]:
    """Return what runs, the steps and warnings, after all checks. Raises DeployError."""
    check_owner(deployment, state)
    check_installed(deployment)
    check_levels(deployment)
    if not abandon_replicas:
        check_removals(deployment, state)
    live = live_processes(state)
    check_protocols(deployment, live)
    before = deployed_before(state)
    check_ensembles(deployment, before)
    steps = steps_from(live, as_it_runs(deployment, live))
    steps = add_growth(steps, growths(before, deployment))
    on_plan(steps)
    check_ports(deployment, steps, live)
    check_supervisor_port(deployment, state)
    facts = host_facts(deployment, steps, ask_other_hosts(deployment))
    check_room(facts)
    return live, steps, [*host_warnings(facts), *login_notes(deployment)]


def _rights_rollout(
    deployment: Deployment,
    before: Deployment | None,
    running: Mapping[str, Daemon],
    on_rights: Callable[[str, Sequence[RightsChange]], None],
    check: Callable[[], None],
    *,
    deletes: bool,
) -> RightsRollout | None:
    """Return who applies users, ACLs and quotas; None if no cluster has any to compare."""
    if all(each.rights is None for each in deployment.clusters):
        return None
    from topology.operate.rights_rollout import RightsRollout

    return RightsRollout(
        deployment=deployment,
        before=before,
        running=running,
        on_rights=on_rights,
        deletes=deletes,
        check=check,
    )


def _wait_until_up(
    deployment: Deployment,
    state: StateDir,
    deadline_s: float,
    crash_loops: CrashLoops,
    growth: EnsembleGrowth,
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
        status = with_growth(status, growth.advance(), STARTING)
        on_status(status)
        if status["state"] == "running":
            return status
        if not _only_time_is_no_help(status):
            stuck_since_s = None
        elif stuck_since_s is None:
            stuck_since_s = time.monotonic()
        elif time.monotonic() - stuck_since_s >= SETTLE_S:
            status = observe(deployment, state, with_liveness=True)
            status = with_growth(status, growth.advance(), STARTING)
            if _only_time_is_no_help(status):
                return status
        crash_loops.check(each for each in status["daemons"] if each["waits_for"] is None)
        if time.monotonic() > deadline_s:
            # A cluster that does not respond may be why its links do not run.
            status = observe(deployment, state, with_liveness=True)
            status = with_growth(status, growth.advance(), STARTING)
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
