"""Bring a deployment up, look at it, take it down: what the command and the demo call.

Guarantees: `up` touches nothing that runs as it should; `down` stops what this deployment
started and nothing else, with or without a living supervisor.
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from topology.deployment.deployment import Daemon, Deployment, decode_deployment, encode_deployment
from topology.deployment.plan import Running, Step, plan
from topology.deployment.removals import LeavingBroker, holding, leaving_brokers, warned
from topology.deployment.state_dir import StateDir, write_atomically
from topology.operate.restart_stages import rolling_brokers
from topology.status.diagnosis import LINK_RUNS, problem_lines
from topology.status.document import (
    LINK_STUCK,
    assemble_status,
    fetch_link_reports,
    fetch_probes,
    unsupervised_report,
)
from topology.supervisor.bounded_logs import last_lines
from topology.supervisor.control_client import (
    SupervisorRefused,
    SupervisorUnreachable,
    supervisor_apply,
    supervisor_status,
    supervisor_stop,
)
from topology.supervisor.own_process import (
    OwnProcess,
    adopt,
    child_environment,
    find_process,
    python_command,
)
from topology.supervisor.process_journal import StartedProcess, read_processes

UP_TIMEOUT_S = 120.0
"""How long `up` waits for all of it, and before that for each broker of a rolling restart."""
DOWN_TIMEOUT_S = 90.0
KILL_TIMEOUT_S = 10.0
"""How long the system may take to end what was killed."""
SETTLE_S = 5.0
"""How long `up` sees everything run but links that wait for a person, before it says so and ends:
a link may be degraded for a moment while its worker begins."""
POLL_S = 0.1
FAILURES_MAX = 3
"""Ends of one daemon, since it was first looked at, after which `up` gives up waiting."""
LOG_LINES = 15
"""Lines of a failed daemon's log that are shown."""


class DeployError(Exception):
    """Something a person can act on; `details` are more lines for them."""

    def __init__(self, message: str, details: Iterable[str] = ()) -> None:
        super().__init__(message)
        self.details = tuple(details)


@dataclass(frozen=True, slots=True)
class Up:
    """What `up` did, and the status document afterwards."""

    steps: tuple[Step, ...]
    status: dict[str, Any]


class Endings:
    """Notices daemons that keep ending while `up` waits; what they did before does not count."""

    def __init__(self) -> None:
        self._before: dict[str, int] = {}

    def check(self, daemons: Iterable[Mapping[str, Any]]) -> None:
        """Look at rows of the status document. Raises DeployError."""
        for daemon in daemons:
            restarts = daemon["restarts"] or 0  # nobody knows without a supervisor
            ends = restarts - self._before.setdefault(daemon["key"], restarts)
            if ends >= FAILURES_MAX and daemon["state"] != "running":
                raise DeployError(
                    f"{daemon['label']} keeps ending (exit code {daemon['exit_code']})",
                    _tail(Path(daemon["log"])),
                )


def read_deployment(state: StateDir) -> Deployment:
    """The deployment of a state directory. Raises DeployError."""
    try:
        return decode_deployment(state.deployment_file.read_bytes())
    except FileNotFoundError:
        raise DeployError(f"nothing was deployed in {state.path}") from None
    except (OSError, ValueError) as error:
        raise DeployError(f"cannot read {state.deployment_file}: {error}") from error


def plan_steps(deployment: Deployment, state: StateDir) -> list[Step]:
    """What `up` would do. Raises DeployError."""
    return warned(_plan_steps(deployment, state), _held_by_leaving(deployment, state))


def _plan_steps(deployment: Deployment, state: StateDir) -> list[Step]:
    running = {
        key: Running(digest=each.daemon.digest, label=each.daemon.label, files=each.daemon.files)
        for key, each in _alive(state).items()
    }
    return plan(deployment.daemons, running)


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
    """Start what is missing, restart what changed, stop what is gone; return when all of it
    runs and answers. Brokers of one cluster restart one after the other. Brokers and log
    directories that leave must hold no replicas, unless these are abandoned.

    Returns also where everything runs but links that wait for a person (an operator has paused
    them, or partitions stand still): the status is then `degraded`. Raises DeployError."""
    _check_owner(deployment, state)
    if not abandon_replicas:
        _check_leaving(deployment, state)
        _check_log_dirs(deployment, state)
    steps = _plan_steps(deployment, state)
    on_plan(steps)
    alive = _alive(state)
    _check_ports(deployment, steps, alive)
    before = read_deployment(state) if state.exists() else None
    try:
        state.create()
    except OSError as error:
        raise DeployError(f"cannot use state directory {state.path}: {error}") from error
    endings = Endings()
    running = {key: each.daemon for key, each in alive.items()}
    if rolling := rolling_brokers(deployment, running):
        from topology.operate.rolling_restart import RollingRestart

        RollingRestart(
            deployment=deployment,
            before=before,
            running=running,
            rolling=rolling,
            apply=lambda stage: _apply(stage, state, time.monotonic() + timeout_s),
            look=lambda: _look(deployment, state),
            endings=endings,
            on_wait=on_roll,
            timeout_s=timeout_s,
        ).run()
    deadline_s = time.monotonic() + timeout_s
    _apply(deployment, state, deadline_s)
    try:
        status = _wait_until_up(deployment, state, deadline_s, endings, on_status)
    except TimeoutError as error:
        raise DeployError(f"not everything runs after {timeout_s:g} s", error.args) from None
    return Up(tuple(steps), status)


def current_status(state: StateDir) -> dict[str, Any]:
    """The status document of what was deployed there; every daemon and existing cluster is asked
    whether it answers. Raises DeployError."""
    return _look(read_deployment(state), state, asks=True, with_probes=True)


def reported_status(state: StateDir) -> dict[str, Any]:
    """As `current_status`, at less cost: only the supervisor and mirror workers are asked, and a
    daemon that hangs seems to run. Raises DeployError."""
    return _look(read_deployment(state), state)


def down(state: StateDir, *, purge: bool = False, timeout_s: float = DOWN_TIMEOUT_S) -> list[str]:
    """Stop everything this deployment started; labels of what ran. Raises DeployError."""
    stopped = [each.daemon.label for each in _alive(state).values()]
    deadline_s = time.monotonic() + timeout_s
    while state.is_locked():
        with contextlib.suppress(SupervisorUnreachable):  # it is starting, or has just ended
            supervisor_stop(state.socket_path)
        if time.monotonic() > deadline_s:
            raise DeployError(
                f"the supervisor did not stop within {timeout_s:g} s",
                [f"its log: {state.log_file('supervisor')}"],
            )
        time.sleep(POLL_S)
    _stop_left_over(_alive(state))
    if purge and state.path.exists():
        try:
            state.purge()
        except OSError as error:
            raise DeployError(f"stopped, but not all is deleted: {error}") from error
    return stopped


def _alive(state: StateDir) -> dict[str, StartedProcess]:
    """What this deployment started and still runs."""
    try:
        records = read_processes(state.processes_file)
    except (OSError, ValueError) as error:
        raise DeployError(f"cannot tell what runs: {error}") from error
    return {key: each for key, each in records.items() if find_process(each.identity)}


def _check_owner(deployment: Deployment, state: StateDir) -> None:
    """One state directory, one deployment."""
    if state.exists():
        there = read_deployment(state).name
        if there != deployment.name:
            raise DeployError(
                f"{state.path} belongs to deployment {there!r}, not {deployment.name!r}",
                ["choose another --state-dir"],
            )


def _check_leaving(deployment: Deployment, state: StateDir) -> None:
    """No broker is stopped for good that still holds replicas."""
    problems = holding(_held_by_leaving(deployment, state))
    if problems:
        hint = "or give up what they hold with --abandon-replicas"
        raise DeployError(
            "brokers that leave hold replicas; nothing was changed", [*problems, hint]
        )


def _check_log_dirs(deployment: Deployment, state: StateDir) -> None:
    """No broker loses a log directory that holds replicas."""
    if not state.exists():
        return
    from topology.deployment.removed_log_dirs import left_log_dirs, problems_of

    problems = problems_of(left_log_dirs(read_deployment(state), deployment))
    if problems:
        hint = "keep them in `log_dirs`, or give up what they hold with --abandon-replicas"
        raise DeployError(
            "log directories that leave hold replicas; nothing was changed", [*problems, hint]
        )


def _held_by_leaving(deployment: Deployment, state: StateDir) -> dict[LeavingBroker, int | None]:
    leaving = leaving_brokers(read_deployment(state), deployment) if state.exists() else []
    if not leaving:
        return {}
    from topology.operate.held_replicas import replicas_held

    return replicas_held(leaving)


def _check_ports(
    deployment: Deployment, steps: list[Step], alive: Mapping[str, StartedProcess]
) -> None:
    """Every port of what is to be started can be bound. Raises DeployError naming all that
    cannot."""
    ours = {port for each in alive.values() for port in each.daemon.ports}
    starting = {step.key for step in steps if step.action != "stop"}
    problems = [
        problem
        for daemon in deployment.daemons
        if daemon.key in starting
        for address in daemon.ports
        if address not in ours and (problem := _port_problem(daemon, *address))
    ]
    if problems:
        raise DeployError("some ports cannot be used; nothing was started", problems)


def _port_problem(daemon: Daemon, host: str, port: int) -> str | None:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except OSError as error:
        what = f"{daemon.label}: {host}:{port}"
        if error.errno == errno.EADDRINUSE:
            return f"{what} is in use by another process"
        if error.errno == errno.EADDRNOTAVAIL:
            return f"{what} is not an address of this machine"
        return f"{what}: {error.strerror or error}"
    return None


def _apply(deployment: Deployment, state: StateDir, deadline_s: float) -> None:
    """Hand the deployment to the supervisor, starting one if none lives."""
    child: subprocess.Popen[bytes] | None = None
    while True:
        try:
            supervisor_apply(state.socket_path, deployment)
            return
        except SupervisorRefused as error:
            raise DeployError(f"the supervisor refuses: {error}") from error
        except SupervisorUnreachable as error:
            if time.monotonic() > deadline_s:
                raise _supervisor_error(state, f"does not answer: {error}") from error
        if child is None and not state.is_locked():
            try:
                # In its place before the supervisor looks, so that daemons start at once.
                write_atomically(state.deployment_file, encode_deployment(deployment))
                child = _start_supervisor(state)
            except OSError as error:
                raise DeployError(f"cannot use state directory {state.path}: {error}") from error
        elif child is not None and child.poll() not in (None, 0):
            raise _supervisor_error(state, f"did not start (exit code {child.returncode})")
        time.sleep(POLL_S / 2)


def _start_supervisor(state: StateDir) -> subprocess.Popen[bytes]:
    with open(state.log_file("supervisor"), "ab") as log:
        return subprocess.Popen(
            python_command("topology.supervisor.keeper", "--state-dir", str(state.path)),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd=state.path,
            env=child_environment(os.environ),
            start_new_session=True,
        )


def _supervisor_error(state: StateDir, why: str) -> DeployError:
    log = state.log_file("supervisor")
    return DeployError(f"the supervisor {why}", _tail(log))


def _look(
    deployment: Deployment, state: StateDir, *, asks: bool = False, with_probes: bool = False
) -> dict[str, Any]:
    """The status document; `asks`: everybody is asked for an answer as well. `up` does not ask the
    probes: what one has found yesterday is no reason to wait today."""
    report: dict[str, Any] | None
    try:
        report = supervisor_status(state.socket_path)
    except SupervisorUnreachable:
        report = unsupervised_report(_alive(state), state.log_file)
    if not asks:
        return assemble_status(deployment, report, fetch_link_reports(deployment, report))
    from topology.status.answers import ask_everyone

    with ThreadPoolExecutor(2) as pool:  # what is silent is waited for once
        asking = pool.submit(ask_everyone, deployment, report)
        probing = pool.submit(fetch_probes, deployment, report) if with_probes else None
        links = fetch_link_reports(deployment, report)
        probes = None if probing is None else probing.result()
        return assemble_status(deployment, report, links, asking.result(), probes)


def _wait_until_up(
    deployment: Deployment,
    state: StateDir,
    deadline_s: float,
    endings: Endings,
    on_status: Callable[[dict[str, Any]], None],
) -> dict[str, Any]:
    """The status when everything runs and answers, or when only a person can do more. Raises
    DeployError, or TimeoutError with what does not run."""
    stuck_since_s: float | None = None
    while True:
        status = _look(deployment, state)
        if status["state"] == "running":
            status = _look(deployment, state, asks=True)  # a process that hangs seems to run
        on_status(status)
        if status["state"] == "running":
            return status
        if not _only_links_are_stuck(status):
            stuck_since_s = None
        elif stuck_since_s is None:
            stuck_since_s = time.monotonic()
        elif time.monotonic() - stuck_since_s >= SETTLE_S:
            status = _look(deployment, state, asks=True)
            if _only_links_are_stuck(status):
                return status
        endings.check(status["daemons"])
        if time.monotonic() > deadline_s:
            status = _look(deployment, state, asks=True)  # who is silent may be why links are not
            if status["state"] == "running":
                return status
            raise TimeoutError(*problem_lines(status["problems"]))
        time.sleep(POLL_S)


def _only_links_are_stuck(status: Mapping[str, Any]) -> bool:
    """Whether all runs but links that waiting does not mend."""
    states = {link["state"] for link in status["links"]}
    return (
        all(daemon["state"] == "running" for daemon in status["daemons"])
        and all(cluster["reason"] is None for cluster in status["clusters"])
        and not states.isdisjoint(LINK_STUCK)
        and states <= LINK_RUNS | LINK_STUCK
    )


def _tail(log: Path) -> list[str]:
    return [f"the end of {log}:", *(f"  {line}" for line in last_lines(log, LOG_LINES))]


def _stop_left_over(alive: Mapping[str, StartedProcess]) -> None:
    """Stop what outlived its supervisor, dependents first. Raises DeployError."""
    left = {key: process for key, each in alive.items() if (process := adopt(each.identity))}
    daemons = {key: alive[key].daemon for key in left}
    while left:
        needed = {before for key in left for before in daemons[key].after}
        last = [key for key in left if key not in needed] or list(left)
        _stop_processes({key: left.pop(key) for key in last}, daemons)


def _stop_processes(processes: Mapping[str, OwnProcess], daemons: Mapping[str, Daemon]) -> None:
    for process in processes.values():
        process.terminate()
    grace_s = max(daemons[key].stop_grace_s for key in processes)
    deadline_s = time.monotonic() + grace_s
    while left := [key for key, process in processes.items() if not process.has_ended()]:
        if time.monotonic() > deadline_s + KILL_TIMEOUT_S:
            labels = ", ".join(daemons[key].label for key in left)
            raise DeployError(f"{labels} cannot be killed")
        if time.monotonic() > deadline_s:
            for key in left:
                processes[key].kill()
        time.sleep(POLL_S)
