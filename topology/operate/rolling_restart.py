"""Carries a rolling restart out: observes, decides (restart_stages.py), applies the next stage.

This module imports the Kafka client, so import it only for a rolling restart.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Final

from topology.deployment.deployment import BrokerView, ClusterView, Daemon, Deployment
from topology.operate.controller_metadata import read_partitions
from topology.operate.crash_loops import CrashLoops
from topology.operate.restart_stages import (
    Decision,
    Done,
    Restart,
    Wait,
    decide,
    kept_replicas,
    staged,
)
from topology.operate.restart_turn import Turn, turn_of
from topology.problems import DeployError

POLL_S: Final = 0.25
REASONS_MAX: Final = 8
"""Most reasons that are listed when the timeout has passed."""
UNSUPERVISED: Final = Wait(reasons=("the supervisor does not answer",))


@dataclass(frozen=True, slots=True, kw_only=True)
class RollingRestart:
    """A rolling restart: cluster by cluster, and broker by broker in each."""

    deployment: Deployment
    before: Deployment | None
    running: Mapping[str, Daemon]
    """The daemons that run, by key."""
    rolling: Mapping[str, Sequence[BrokerView]]
    """The result of `rolling_brokers`."""
    apply: Callable[[Deployment], None]
    """Hands a stage to the supervisor, and starts one if none lives. Raises DeployError."""
    observe: Callable[[], Mapping[str, Any]]
    """Returns the status document."""
    crash_loops: CrashLoops
    on_wait: Callable[[Sequence[str]], None]
    timeout_s: float
    """Seconds that a broker may take to run again and to be in sync. The turns of other hosts do
    not count."""
    turn_of: Callable[[Deployment, ClusterView], Turn] = turn_of
    """Whose turn it is to restart brokers of a cluster, among its hosts."""

    def run(self) -> None:
        """Apply every other change at once, then restart the brokers.

        Raises DeployError; brokers that were not restarted by then run with their old settings.
        """
        later = [broker for brokers in self.rolling.values() for broker in brokers]
        self.apply(self._stage(later))
        for name in self.rolling:
            with closing(self.turn_of(self.deployment, self.deployment.cluster(name))) as turn:
                self._roll(name, later, turn)

    def _roll(self, name: str, later: list[BrokerView], turn: Turn) -> None:
        """Roll one cluster. `later` holds brokers of all clusters; restarted ones are removed."""
        restarted: list[BrokerView] = []
        deadline_s = time.monotonic() + self.timeout_s
        while True:
            waiting = [broker for broker in self.rolling[name] if broker in later]
            decision = self._decide(self._stage(later), name, waiting, restarted, turn)
            if isinstance(decision, Done):
                return
            if isinstance(decision, Restart):
                restarted += decision.brokers
                later[:] = [broker for broker in later if broker not in decision.brokers]
                self.apply(self._stage(later))
                deadline_s = time.monotonic() + self.timeout_s
                continue
            if turn.is_taken:
                deadline_s = time.monotonic() + self.timeout_s
            if time.monotonic() > deadline_s:
                raise self._too_slow(name, decision.reasons, waiting)
            self.on_wait(decision.reasons)
            if decision is UNSUPERVISED:
                self.apply(self._stage(later))
            time.sleep(POLL_S)

    def _stage(self, later: Sequence[BrokerView]) -> Deployment:
        return staged(self.deployment, self.before, self.running, later)

    def _decide(
        self,
        stage: Deployment,
        name: str,
        waiting: Sequence[BrokerView],
        restarted: Sequence[BrokerView],
        turn: Turn,
    ) -> Decision:
        cluster = stage.cluster(name)
        keys = {broker.daemon for broker in cluster.brokers}
        brokers = [daemon for daemon in stage.daemons if daemon.key in keys]
        here = {daemon.key for daemon in stage.daemons}
        needed = dict.fromkeys(
            key for broker in brokers for key in (*broker.after, broker.key) if key in here
        )
        document = self.observe()
        if document["supervisor"] is None:
            # Only a supervisor knows which processes still differ from the stage. A lost one may
            # not have stopped the broker of the last stage yet. That broker still runs and is in
            # sync, so the next broker would be chosen, and the next supervisor would stop two.
            return UNSUPERVISED
        rows = {each["key"]: each for each in document["daemons"] if each["key"] in needed}
        self.crash_loops.check(rows.values())
        states = {key: rows[key]["state"] if key in rows else "stopped" for key in needed}
        not_running = {
            stage.daemon(key).label: state for key, state in states.items() if state != "running"
        }
        partitions = (
            read_partitions(cluster.bootstrap, cluster.security) if not not_running else None
        )
        alive = {key for key, row in rows.items() if row["pid"] is not None}
        decision = decide(
            waiting,
            restarted,
            not_running,
            alive,
            None if partitions is None else kept_replicas(partitions, cluster.brokers),
        )
        # A broker without a process starts at once: the host whose turn it is may wait for it.
        if isinstance(decision, Restart) and any(
            broker.daemon in alive for broker in decision.brokers
        ):
            blocked = turn.take()
            if blocked is not None:
                return Wait(reasons=(blocked,))
        return decision

    def _too_slow(
        self, name: str, reasons: Sequence[str], waiting: Sequence[BrokerView]
    ) -> DeployError:
        details = [*reasons[:REASONS_MAX]]
        if len(reasons) > REASONS_MAX:
            details.append(f"and {len(reasons) - REASONS_MAX} more")
        if waiting:
            left = ", ".join(str(broker.id) for broker in waiting)
            details.append(f"not restarted, and run as before: broker {left} of {name}")
        details.append(
            "see the logs of the brokers that are behind; `heliograph up` continues from here,"
            " and --timeout allows more time"
        )
        return DeployError(
            f"the rolling restart of {name} stopped: no further after {self.timeout_s:g} s", details
        )
