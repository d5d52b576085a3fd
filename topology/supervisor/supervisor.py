"""The supervisor: one detached process for each deployment, which keeps its daemons running.

Guarantees:
- Daemons outlive the supervisor, and the next supervisor takes over those that still run.
- Every running process is on record.
- Only processes that are on record, with the same pid and start time, are ever signalled.

Not here: that a deployment has at most one supervisor (keeper.py), the decisions (reconcile.py),
the control API (control_server.py).
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

from topology.deployment.deployment import Daemon, Deployment, decode_deployment, encode_deployment
from topology.deployment.plan import Running, Step, plan
from topology.deployment.state_dir import StateDir, write_atomically
from topology.supervisor.bounded_logs import bound_logs
from topology.supervisor.keeper import EXIT_NOTHING_TO_KEEP, EXIT_STOPPED, accept_signals
from topology.supervisor.own_process import OwnProcess, adopt, start
from topology.supervisor.process_journal import StartedProcess, read_processes, write_processes
from topology.supervisor.readiness import has_reloaded, is_ready, read_ready_file
from topology.supervisor.reconcile import Order, Row, Table, decide_orders

TICK_BUSY_S = 0.05
"""Seconds between checks while a daemon starts or stops."""
TICK_SETTLED_S = 0.25
"""Seconds between checks while every daemon runs as wanted: how fast a death is noticed."""
LOG_CHECK_S = 5.0

log = logging.getLogger(__name__)


class Supervisor:
    """The table of daemons and their processes. It runs on one event loop and has no locks."""

    def __init__(self, state: StateDir) -> None:
        self.state = state
        self.deployment: Deployment | None = None
        self.started_at_ms = int(time.time() * 1000)
        self.version = version("heliograph")
        """Version of the package that this process runs."""
        self.applied = asyncio.Event()
        """Set when a deployment was applied."""
        self.port_problem: str | None = None
        """Why the HTTP port for other hosts could not be opened."""
        self._table = Table()
        self._processes: dict[str, OwnProcess] = {}
        self._stopping = False
        self._wake = asyncio.Event()

    def load(self) -> None:
        """Take over the recorded processes that still run, and apply `deployment.json`.

        Raises OSError or ValueError.
        """
        now_s = time.monotonic()
        for key, record in read_processes(self.state.processes_file).items():
            process = adopt(record.identity)
            if process is not None:
                row = Row(key=key, wanted=None)
                row.apply_found(record.daemon, now_s)
                self._table.rows[key] = row
                self._processes[key] = process
                log.info("%s already runs as pid %d", record.daemon.label, process.pid)
        self.apply(decode_deployment(self.state.deployment_file.read_bytes()))

    def apply(self, deployment: Deployment) -> list[Step]:
        """Make this the wanted deployment; return the steps that follow. Raises OSError."""
        steps = plan(deployment.daemons, self._running())
        write_atomically(self.state.deployment_file, encode_deployment(deployment))
        self.deployment = deployment
        self.applied.set()
        self._stopping = False
        self._table.want(deployment.daemons, time.monotonic())
        self._table.forget_stopped()
        for step in steps:
            log.info("%s", step.sentence())
        self._wake.set()
        return steps

    def stop(self) -> None:
        """Stop every daemon; `run` returns when all of them have stopped."""
        if not self._stopping:
            log.info("stopping every daemon")
        self._stopping = True
        self._table.want((), time.monotonic())
        self._wake.set()

    async def run(self) -> None:
        """Keep the wanted daemons running until `stop`."""
        next_log_check_s = 0.0
        while not (self._stopping and self._table.is_idle):
            await self._observe()
            self._table.forget_stopped()
            for key, order in decide_orders(self._table.rows, time.monotonic()):
                self._carry_out(self._table.rows[key], order)
            if time.monotonic() >= next_log_check_s:
                next_log_check_s = time.monotonic() + LOG_CHECK_S
                await asyncio.to_thread(bound_logs, self.state.logs_dir)
            tick_s = TICK_SETTLED_S if self._table.is_settled else TICK_BUSY_S
            self._wake.clear()
            try:
                await asyncio.wait_for(self._wake.wait(), tick_s)
            except TimeoutError:
                continue

    async def _observe(self) -> None:
        """Update the table from the processes."""
        starting: list[tuple[Row, Daemon, OwnProcess]] = []
        for key, process in list(self._processes.items()):
            row = self._table.rows[key]
            assert row.running is not None
            if process.has_ended():
                del self._processes[key]
                label = row.running.label
                row.apply_ended(time.monotonic(), process.exit_code)
                log.info("%s ended (%s)", label, _exit_text(process.exit_code))
            elif row.phase == "starting":
                starting.append((row, row.running, process))
            elif row.reloading is not None and has_reloaded(row.reloading, process.pid):
                self._take_reloaded(row, process)
        ready = await asyncio.gather(*(is_ready(daemon, p.pid) for _, daemon, p in starting))
        for (row, daemon, process), yes in zip(starting, ready, strict=True):
            if yes and self._processes.get(row.key) is process:
                row.apply_ready()
                log.info("%s runs as pid %d", daemon.label, process.pid)

    def _take_reloaded(self, row: Row, process: OwnProcess) -> None:
        """Record that a worker runs with edited links; else the next supervisor repeats it."""
        assert row.reloading is not None
        try:
            self._record(row.key, StartedProcess(process.identity, row.reloading))
        except OSError as error:
            log.error("%s cannot be recorded: %s", row.key, error)
            return
        row.apply_reloaded()
        log.info("%s has reloaded its links", row.key)

    def _reload(self, row: Row, process: OwnProcess) -> None:
        """Write the settings with the edited links, and tell the worker."""
        assert row.wanted is not None
        try:
            for path, text in row.wanted.files.items():
                write_atomically(Path(path), text)
        except OSError as error:
            log.error("%s: its settings cannot be written: %s", row.key, error)
            return
        process.hang_up()

    def _carry_out(self, row: Row, order: Order) -> None:
        if order == "start":
            self._start(row)
            return
        process = self._processes[row.key]
        row.apply_order(order, time.monotonic())
        if order == "reload":
            self._reload(row, process)
        elif order == "terminate":
            process.terminate()
        else:
            log.warning("%s did not stop in time; killing pid %d", row.key, process.pid)
            process.kill()

    def _start(self, row: Row) -> None:
        daemon = row.wanted
        assert daemon is not None and row.key not in self._processes
        try:
            for directory in daemon.directories:
                Path(directory).mkdir(parents=True, exist_ok=True)
            for path, text in daemon.files.items():
                write_atomically(Path(path), text)
            if daemon.ready_file is not None:
                Path(daemon.ready_file).unlink(missing_ok=True)
            log_file = self.state.log_file(daemon.key)
            process = start(daemon.argv, log_file=log_file, directory=self.state.path)
            try:
                self._record(row.key, StartedProcess(process.identity, daemon))
            except OSError:
                process.kill()
                raise
            process.release()
        except OSError as error:
            row.apply_start_failed(time.monotonic())
            log.error("%s could not be started: %s", daemon.label, error)
            return
        row.apply_started(time.monotonic())
        self._processes[row.key] = process

    def _record(self, key: str, started: StartedProcess) -> None:
        """Record the started process together with all that may still run. Raises OSError."""
        records: dict[str, StartedProcess] = {}
        for other, row in self._table.rows.items():
            if other == key:
                records[key] = started
            elif row.running is not None:
                identity = self._processes[other].identity
                records[other] = StartedProcess(identity, row.running)
        write_processes(self.state.processes_file, records)

    def _running(self) -> dict[str, Running]:
        """Return the daemons that have a process, as `plan` compares them."""
        return {
            key: Running.of(row.running)
            for key, row in self._table.rows.items()
            if row.running is not None
        }

    def report(self) -> dict[str, Any]:
        """Return the response to `GET /status`."""
        name = self.deployment.name if self.deployment is not None else None
        return {
            "name": name,
            "pid": os.getpid(),
            "version": self.version,
            "started_at_ms": self.started_at_ms,
            "stopping": self._stopping,
            "port_problem": self.port_problem,
            "daemons": [self._row_report(row) for row in self._table.rows.values()],
        }

    def _row_report(self, row: Row) -> dict[str, Any]:
        daemon = row.running or row.wanted
        process = self._processes.get(row.key)
        ready: dict[str, Any] | None = None
        if process is not None and daemon is not None and daemon.ready_file is not None:
            ready = read_ready_file(Path(daemon.ready_file), process.pid)
        return {
            "key": row.key,
            "role": daemon.role if daemon is not None else None,
            "label": daemon.label if daemon is not None else row.key,
            "host": daemon.host if daemon is not None else None,
            "version": row.running.version if row.running is not None else None,
            "phase": _shown_phase(row),
            "pid": process.pid if process is not None else None,
            "restarts": row.restarts,
            "failures": row.failures,
            "exit_code": row.exit_code,
            "log": str(self.state.log_file(row.key)),
            "ready": ready,
        }


def _shown_phase(row: Row) -> str:
    """Return the phase as others see it: `up` waits for what differs."""
    if row.must_stop:
        return "stopping"
    return "starting" if row.must_reload else row.phase


def _exit_text(code: int | None) -> str:
    if code is None:
        return "exit code unknown"
    return f"signal {-code}" if code < 0 else f"exit code {code}"


def run_supervisor(state: StateDir) -> int:
    """Supervise until stopped, and return the exit code for the keeper.

    An unexpected error is raised, and the keeper starts the next supervisor.
    """
    supervisor = Supervisor(state)
    try:
        supervisor.load()
    except (OSError, ValueError) as error:
        log.error("cannot read what to supervise: %s", error)
        return EXIT_NOTHING_TO_KEEP
    asyncio.run(_supervise(supervisor))
    return EXIT_STOPPED


async def _supervise(supervisor: Supervisor) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, supervisor.stop)
    accept_signals()
    socket_path = supervisor.state.socket_path
    async with asyncio.TaskGroup() as group:
        running = group.create_task(supervisor.run())
        await asyncio.sleep(0)  # the first daemons start while the HTTP server is imported
        from topology.supervisor.control_server import serve_control
        from topology.supervisor.host_server import serve_other_hosts

        # This process holds the lock, so a socket that exists is a leftover.
        await asyncio.to_thread(socket_path.unlink, missing_ok=True)
        async with serve_control(supervisor, socket_path), serve_other_hosts(supervisor):
            await asyncio.to_thread(_watch_upgrades, supervisor.state)
            await running


def _watch_upgrades(state: StateDir) -> None:
    """Import the watch while the package is the one that this process runs, and start it."""
    from topology.upgrade.watch import start_watch

    start_watch(state)
