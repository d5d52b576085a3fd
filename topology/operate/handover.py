"""Hands a deployment to its supervisor, and starts a keeper with a supervisor if none lives."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from importlib.metadata import version
from typing import Final

from topology.deployment.deployment import Deployment, encode_deployment, python_command
from topology.deployment.state_dir import StateDir, write_atomically
from topology.operate.crash_loops import log_tail
from topology.problems import DeployError
from topology.supervisor.control_client import (
    SupervisorRefused,
    SupervisorUnreachable,
    supervisor_apply,
    supervisor_status,
)
from topology.supervisor.own_process import child_environment

POLL_S: Final = 0.05


def hand_over(
    deployment: Deployment, state: StateDir, deadline_s: float, *, starts_keeper: bool = True
) -> None:
    """Make this the wanted deployment of the supervisor. Raises DeployError.

    A supervisor of another version of the package is replaced first. `deadline_s` is in monotonic
    seconds. Without `starts_keeper` it is an error if no supervisor lives.
    """
    _end_other_version(state)
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
            if not starts_keeper:
                raise DeployError("no supervisor lives here: the deployment was taken down")
            try:
                # The supervisor reads this file when it starts, so the daemons start at once.
                write_atomically(state.deployment_file, encode_deployment(deployment))
                child = _start_keeper(state)
            except OSError as error:
                raise DeployError(f"cannot use state directory {state.path}: {error}") from error
        elif child is not None and child.poll() not in (None, 0):
            raise _supervisor_error(state, f"did not start (exit code {child.returncode})")
        time.sleep(POLL_S)


def _end_other_version(state: StateDir) -> None:
    """Kill a supervisor that runs another version than the installed one.

    Its keeper starts the next one, which has the installed version and takes the daemons over.
    """
    try:
        report = supervisor_status(state.socket_path)
    except (SupervisorUnreachable, SupervisorRefused):
        return
    if report.get("version") != version("heliograph"):
        with contextlib.suppress(ProcessLookupError):
            os.kill(report["pid"], signal.SIGKILL)


def _start_keeper(state: StateDir) -> subprocess.Popen[bytes]:
    with open(state.log_file("supervisor"), "ab") as log_file:
        return subprocess.Popen(
            python_command("topology.keeper", "--state-dir", str(state.path)),
            stdin=subprocess.DEVNULL,
            stdout=log_file,
            stderr=subprocess.STDOUT,
            cwd=state.path,
            env=child_environment(os.environ),
            start_new_session=True,
        )


def _supervisor_error(state: StateDir, why: str) -> DeployError:
    return DeployError(f"the supervisor {why}", log_tail(state.log_file("supervisor")))
