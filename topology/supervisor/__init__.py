"""Keeps the daemons of one deployment running on this host.

    keeper --forks--> supervisor --starts--> daemons

Reading order:

    reconcile        the supervisor's decisions over a table of daemons (pure)
    supervisor       the process that carries them out
    keeper           starts the supervisor, and restarts it when it is lost
    control_server   the supervisor's HTTP API on a unix socket
    host_server      its HTTP port for the commands of other hosts
    host_check       checks a file for another host, in a process
    metrics_text     its metrics (pure)
    control_client   the calls that commands make to it
    own_process      one process of ours, known by pid and start time
    process_journal  the processes that were started, on disk
    readiness        whether a started daemon is ready
    bounded_logs     logs of daemons, kept within a bound
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from topology.deployment.state_dir import StateDir


def run_supervisor(state: StateDir) -> int:
    """Supervise a deployment until it is stopped, and return the exit code.

    A keeper that was started by an older version imports this name, and passes its own `StateDir`.
    So the name stays, and nothing is loaded before it is called.
    """
    from topology.supervisor.supervisor import run_supervisor as run

    return run(state)
