"""The supervisor's decisions over a table of daemons. Pure.

Phases of a daemon:

    waiting     no process yet; starts when the daemons in its `after` are running, or started
    starting    its process is not ready yet
    running     its process is ready
    restarting  its process ended by itself; starts again after a backoff
    stopping    its process was told to stop: it is not wanted any more, or its settings changed
    stopped     no process, and none wanted

Guarantees: a process that runs as wanted is never touched. The backoff grows and is bounded. A
daemon stops after all daemons that depend on it. A mirror worker or an aggregator whose links were
edited reloads them, and restarts only if it does not confirm that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from topology.deployment.deployment import STOP_GRACE_S, Daemon
from topology.deployment.plan import is_link_edit

RESTART_BACKOFF_FIRST_S = 0.5
RESTART_BACKOFF_MAX_S = 30.0
RELOAD_S_MAX = 60.0
"""Seconds that a process may take to reload its links; then it restarts. A worker waits for batches
in flight, and for requests to clusters that do not answer."""
STABLE_AFTER_S = 60.0
"""The backoff starts over for a daemon that ran for this long."""

Phase = Literal["waiting", "starting", "running", "restarting", "stopping", "stopped"]
Order = Literal["start", "reload", "terminate", "kill"]


def restart_backoff_s(failures: int) -> float:
    """Return the seconds before the next start, after this many failures in a row (at least 1)."""
    assert failures >= 1
    doublings = min(failures - 1, 16)
    return min(RESTART_BACKOFF_FIRST_S * 2.0**doublings, RESTART_BACKOFF_MAX_S)


@dataclass(slots=True, kw_only=True)
class Row:
    """One daemon in the supervisor's table. Times are monotonic seconds."""

    key: str
    wanted: Daemon | None
    """The daemon that should run; None if none should."""
    running: Daemon | None = None
    """The daemon that the process was started as; None without a process."""
    phase: Phase = "waiting"
    failures: int = 0
    """Unexpected exits in a row."""
    restarts: int = 0
    """Unexpected exits since this supervisor started."""
    since_s: float = 0.0
    """When the process was started or taken over."""
    start_after_s: float = 0.0
    stop_asked_s: float | None = None
    killed: bool = False
    reloading: Daemon | None = None
    """The daemon whose links its process was told to reload."""
    reload_asked_s: float = 0.0
    exit_code: int | None = None
    _edit: tuple[Daemon, Daemon, bool] | None = None
    """Of the running and the wanted daemon: whether they differ in links alone."""

    @property
    def has_process(self) -> bool:
        return self.running is not None

    @property
    def differs(self) -> bool:
        """Whether its process differs from the wanted daemon."""
        if self.running is None:
            return False
        return self.wanted is None or self.wanted.digest != self.running.digest

    @property
    def must_reload(self) -> bool:
        """Whether its process becomes the wanted daemon by a reload of its links."""
        if not self.differs or self.wanted is None or self.phase != "running":
            return False
        return self._is_link_edit(self.running, self.wanted)

    def _is_link_edit(self, running: Daemon | None, wanted: Daemon) -> bool:
        """Return `is_link_edit`; it parses settings, and is asked several times per tick."""
        if running is None:
            return False
        if self._edit is None or self._edit[0] is not running or self._edit[1] is not wanted:
            self._edit = running, wanted, is_link_edit(running, wanted)
        return self._edit[2]

    @property
    def must_stop(self) -> bool:
        """Whether its process differs from the wanted daemon, and a reload does not help."""
        return self.differs and not self.must_reload

    def apply_started(self, now_s: float) -> None:
        """Record that a process was started for the wanted daemon."""
        assert self.wanted is not None and not self.has_process
        self.running, self.phase, self.since_s = self.wanted, "starting", now_s
        self.stop_asked_s, self.killed, self.exit_code = None, False, None
        self.reloading = None

    def apply_found(self, daemon: Daemon, now_s: float) -> None:
        """Record that a process of an earlier supervisor still runs."""
        assert not self.has_process
        self.running, self.phase, self.since_s = daemon, "starting", now_s

    def apply_ready(self) -> None:
        if self.phase == "starting":
            self.phase = "running"

    def apply_reloaded(self) -> None:
        """Record that its process has confirmed the reload."""
        assert self.reloading is not None
        self.running, self.reloading = self.reloading, None

    def apply_ended(self, now_s: float, exit_code: int | None) -> None:
        """Record that its process has exited."""
        assert self.has_process
        asked = self.stop_asked_s is not None
        stable = now_s - self.since_s >= STABLE_AFTER_S
        self.running, self.exit_code = None, exit_code
        self.stop_asked_s, self.killed = None, False
        if self.wanted is None:
            self.phase = "stopped"
        elif asked:
            self.phase, self.failures, self.start_after_s = "waiting", 0, now_s
        else:
            self._count_failure(now_s, stable=stable)

    def apply_start_failed(self, now_s: float) -> None:
        """Record that no process could be started."""
        self._count_failure(now_s, stable=False)

    def _count_failure(self, now_s: float, *, stable: bool) -> None:
        self.failures = 1 if stable else self.failures + 1
        self.restarts += 1
        self.phase = "restarting"
        self.start_after_s = now_s + restart_backoff_s(self.failures)

    def apply_order(self, order: Order, now_s: float) -> None:
        """Record that SIGTERM or SIGKILL was sent."""
        if order == "terminate":
            self.stop_asked_s, self.phase = now_s, "stopping"
        elif order == "reload":
            self.reloading, self.reload_asked_s = self.wanted, now_s
        elif order == "kill":
            self.killed = True


@dataclass(slots=True)
class Table:
    """Every daemon by key, in start order."""

    rows: dict[str, Row] = field(default_factory=dict)

    def want(self, daemons: Iterable[Daemon], now_s: float) -> None:
        """Set the wanted daemons; every other daemon is to stop."""
        wanted = {daemon.key: daemon for daemon in daemons}
        for key, row in self.rows.items():
            row.wanted = wanted.get(key)
            if row.wanted is None and not row.has_process:
                row.phase = "stopped"
        for key, daemon in wanted.items():
            row = self.rows.setdefault(key, Row(key=key, wanted=daemon))
            if not row.has_process and row.phase in ("stopped", "restarting"):
                row.phase, row.failures, row.start_after_s = "waiting", 0, now_s
        order = [*wanted, *(key for key in self.rows if key not in wanted)]
        self.rows = {key: self.rows[key] for key in order}

    def forget_stopped(self) -> None:
        """Remove daemons that neither run nor are wanted."""
        self.rows = {
            key: row for key, row in self.rows.items() if row.has_process or row.wanted is not None
        }

    @property
    def is_idle(self) -> bool:
        """Whether no process runs and none is wanted."""
        return all(row.wanted is None and not row.has_process for row in self.rows.values())

    @property
    def is_settled(self) -> bool:
        """Whether every wanted daemon runs as wanted and no other daemon runs."""
        return all(
            row.phase == "running" and not row.differs
            if row.wanted is not None
            else not row.has_process
            for row in self.rows.values()
        )


def decide_orders(rows: Mapping[str, Row], now_s: float) -> list[tuple[str, Order]]:
    """Return the order for each daemon that needs one now."""
    orders: list[tuple[str, Order]] = []
    for key, row in rows.items():
        decide = _decide_stop if row.must_stop else _decide_start
        if row.must_reload:
            decide = _decide_reload
        order = decide(row, rows, now_s)
        if order is not None:
            orders.append((key, order))
    return orders


def _decide_start(row: Row, rows: Mapping[str, Row], now_s: float) -> Order | None:
    if row.wanted is None or row.has_process or now_s < row.start_after_s:
        return None
    for needed in row.wanted.after:
        before = rows.get(needed)
        if before is None:
            continue
        wait = before.phase != "running" if row.wanted.waits_for == "ready" else False
        if wait or before.must_stop or not before.has_process:
            return None
    return None if _has_lingering_port(row.wanted, rows) else "start"


def _has_lingering_port(wanted: Daemon, rows: Mapping[str, Row]) -> bool:
    """Return whether a daemon that must stop still has a port of this one."""
    ports = set(wanted.ports)
    return any(
        other.key != wanted.key
        and other.running is not None
        and other.must_stop
        and not ports.isdisjoint(other.running.ports)
        for other in rows.values()
    )


def _decide_reload(row: Row, rows: Mapping[str, Row], now_s: float) -> Order | None:
    if row.reloading is None:
        return "reload"
    return "terminate" if now_s - row.reload_asked_s >= RELOAD_S_MAX else None


def _decide_stop(row: Row, rows: Mapping[str, Row], now_s: float) -> Order | None:
    assert row.running is not None
    if row.stop_asked_s is None:
        return None if _has_stopping_dependents(row, rows) else "terminate"
    grace_s = row.running.stop_grace_s if row.running else STOP_GRACE_S
    if not row.killed and now_s - row.stop_asked_s >= grace_s:
        return "kill"
    return None


def _has_stopping_dependents(row: Row, rows: Mapping[str, Row]) -> bool:
    """Return whether a daemon that depends on this one must still stop."""
    return any(
        other.running is not None and row.key in other.running.after and other.must_stop
        for other in rows.values()
    )
