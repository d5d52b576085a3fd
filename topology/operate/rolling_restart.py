"""Carries a rolling restart out: looks, decides (restart_stages.py), starts the next stage.

Imports the Kafka client: load it where brokers are restarted one after the other.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from topology.deployment.deployment import BrokerView, Daemon, Deployment
from topology.operate.in_sync import read_partitions
from topology.operate.restart_stages import (
    Decision,
    Done,
    Restart,
    Wait,
    decide,
    kept_replicas,
    staged,
)
from topology.operate.up import DeployError, Endings

POLL_S: Final = 0.25
REASONS_MAX: Final = 8
"""Most of what is waited for that is spelled out when the time is over."""
UNSUPERVISED: Final = Wait(reasons=("the supervisor does not answer",))


@dataclass(frozen=True, slots=True, kw_only=True)
class RollingRestart:
    """Clusters one after the other, and their brokers one after the other."""

    deployment: Deployment
    before: Deployment | None
    running: Mapping[str, Daemon]
    """What runs, by key."""
    rolling: Mapping[str, Sequence[BrokerView]]
    """What `rolling_brokers` found."""
    apply: Callable[[Deployment], None]
    """Hands it to the supervisor, and starts one where none lives. Raises DeployError."""
    look: Callable[[], Mapping[str, Any]]
    """The status document."""
    endings: Endings
    on_wait: Callable[[Sequence[str]], None]
    timeout_s: float
    """How long a broker may take to run again and to be in sync."""

    def run(self) -> None:
        """All else is applied first, at once. Raises DeployError; what was not restarted by then
        runs as it did."""
        later = [broker for brokers in self.rolling.values() for broker in brokers]
        self.apply(self._stage(later))
        for name in self.rolling:
            self._roll(name, later)

    def _roll(self, name: str, later: list[BrokerView]) -> None:
        """One cluster; `later` are brokers of all of them, and those restarted here leave it."""
        restarted: list[BrokerView] = []
        deadline_s = time.monotonic() + self.timeout_s
        while True:
            waiting = [broker for broker in self.rolling[name] if broker in later]
            decision = self._decide(self._stage(later), name, waiting, restarted)
            if isinstance(decision, Done):
                return
            if isinstance(decision, Restart):
                restarted += decision.brokers
                later[:] = [broker for broker in later if broker not in decision.brokers]
                self.apply(self._stage(later))
                deadline_s = time.monotonic() + self.timeout_s
                continue
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
    ) -> Decision:
        cluster = stage.cluster(name)
        brokers = [stage.daemon(broker.daemon) for broker in cluster.brokers]
        needed = dict.fromkeys(key for broker in brokers for key in (*broker.after, broker.key))
        document = self.look()
        if document["supervisor"] is None:
            # Only a supervisor knows which processes are not yet as the stage has them. One that
            # was lost may not have stopped the broker before, which is in sync as long as it runs;
            # the next would then stop two.
            return UNSUPERVISED
        rows = {each["key"]: each for each in document["daemons"] if each["key"] in needed}
        self.endings.check(rows.values())
        states = {key: rows[key]["state"] if key in rows else "stopped" for key in needed}
        not_running = {
            stage.daemon(key).label: state for key, state in states.items() if state != "running"
        }
        partitions = read_partitions(cluster.bootstrap) if not not_running else None
        return decide(
            waiting,
            restarted,
            not_running,
            {key for key, row in rows.items() if row["pid"] is not None},
            None if partitions is None else kept_replicas(partitions, cluster.brokers),
        )

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
            "see the logs of the brokers that are behind; `heliograph up` goes on from here,"
            " and --timeout gives it longer"
        )
        return DeployError(
            f"the rolling restart of {name} stopped: no further after {self.timeout_s:g} s", details
        )
