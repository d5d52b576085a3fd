"""`down`: stops what a deployment started and nothing else, with or without a living supervisor."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping
from typing import Final

from topology.deployment.deployment import Daemon
from topology.deployment.state_dir import StateDir
from topology.problems import DeployError
from topology.supervisor.control_client import SupervisorUnreachable, supervisor_stop
from topology.supervisor.own_process import OwnProcess, adopt
from topology.supervisor.process_journal import StartedProcess, live_processes

DOWN_TIMEOUT_S: Final = 90.0
KILL_TIMEOUT_S: Final = 10.0
"""Seconds that the system may take to end a killed process."""
POLL_S: Final = 0.1


def down(state: StateDir, *, purge: bool = False, timeout_s: float = DOWN_TIMEOUT_S) -> list[str]:
    """Stop everything that this deployment started; return the labels. Raises DeployError."""
    stopped = [each.daemon.label for each in live_processes(state).values()]
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
    _stop_left_over(live_processes(state))
    if purge and state.path.exists():
        try:
            state.purge()
        except OSError as error:
            raise DeployError(f"stopped, but not all is deleted: {error}") from error
    return stopped


def _stop_left_over(live: Mapping[str, StartedProcess]) -> None:
    """Stop processes that outlived their supervisor, dependents first. Raises DeployError."""
    left = {key: process for key, each in live.items() if (process := adopt(each.identity))}
    daemons = {key: live[key].daemon for key in left}
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
