"""When `up` changes the members of ZooKeeper ensembles.

1. If an ensemble runs, new nodes start and become members before brokers restart. Until then
   everything else runs as before. So brokers keep the nodes that they know.
   A server that was the only node restarts once, when the new ones run. So it is soon back.
2. A new ensemble starts with everything else. `up` returns when its members are those of the file.

If only other hosts are missing, `up` goes on: the `up` of the last one makes the step.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from topology.deployment.deployment import Daemon, Deployment
from topology.deployment.state_dir import StateDir
from topology.ensemble.growth import EnsembleGrowth, all_listen
from topology.ensemble.nodes import Unfinished, ensembles_of, growths, is_moving
from topology.operate.crash_loops import CrashLoops
from topology.problems import DeployError
from topology.status.observe import observe

POLL_S: Final = 0.1
PATIENCE_S: Final = 5.0
"""Seconds that other hosts may take while nothing else is missing."""


@dataclass(slots=True)
class EnsembleRollout:
    """The ensembles of a deployment, over the course of one `up`."""

    deployment: Deployment
    before: Deployment | None
    running: Mapping[str, Daemon]
    """The daemons that run, by key."""
    state: StateDir
    apply: Callable[[Deployment], None]
    """Hands a stage to the supervisor, and starts one if none lives. Raises DeployError."""
    crash_loops: CrashLoops
    on_wait: Callable[[Sequence[str]], None]
    timeout_s: float

    def begin(self) -> EnsembleGrowth:
        """Do step 1; return what does step 2. Raises DeployError."""
        growth = EnsembleGrowth(self.deployment, self.state)
        if self.before is None or not self._goes_first(growth):
            return growth
        stage = _only_zookeepers(self.deployment, self.before)
        deadline_s = time.monotonic() + self.timeout_s
        self._start_new_nodes(stage, deadline_s)
        self.apply(stage)
        settled_since_s: float | None = None
        while unfinished := growth.advance():
            now_s = time.monotonic()
            if not all(each.needs_other_hosts for each in unfinished):
                settled_since_s = None
            elif settled_since_s is None:
                settled_since_s = now_s
            elif now_s - settled_since_s >= PATIENCE_S:
                break
            if now_s > deadline_s:
                raise _too_slow(unfinished, self.timeout_s)
            self.on_wait([line for each in unfinished for line in each.lines()])
            self.crash_loops.check(observe(stage, self.state)["daemons"])
            time.sleep(POLL_S)
        return growth

    def _start_new_nodes(self, stage: Deployment, deadline_s: float) -> None:
        """Start new nodes beside a server that still runs as the only node. Raises DeployError."""
        single = {
            each.after.nodes[0].key: self.running[each.before.nodes[0].key]
            for each in growths(self.before, self.deployment)
            if each.before.nodes[0].key in self.running and len(each.before.nodes) == 1
        }
        new = [each for each in stage.daemons if each.quorum and each.key not in self.running]
        beside = [each for each in new if each.key not in single]
        if not single or not beside:
            return
        daemons = tuple(single.get(each.key, each) for each in stage.daemons)
        first = replace(stage, daemons=daemons)
        self.apply(first)
        while not all_listen(beside) and time.monotonic() < deadline_s:
            self.on_wait([f"{each.label}: starting" for each in beside])
            self.crash_loops.check(observe(first, self.state)["daemons"])
            time.sleep(POLL_S)

    def _goes_first(self, growth: EnsembleGrowth) -> bool:
        """Return whether an ensemble that runs has other members than those of the file."""
        growing = growths(self.before, self.deployment)
        if any(is_moving(each) for each in growing):
            return False  # brokers cannot stay connected, so they restart at the same time
        runs = {
            name
            for name, each in ensembles_of(self.deployment).items()
            if any(node.key in self.running for node in each.nodes)
        }
        runs |= {
            each.after.name
            for each in growing
            if any(node.key in self.running for node in each.before.nodes)
        }
        return any(each.name in runs for each in growth.look())


def _only_zookeepers(deployment: Deployment, before: Deployment) -> Deployment:
    """Return what is deployed with the ZooKeepers of another deployment."""
    return replace(
        before,
        daemons=(
            *(each for each in deployment.daemons if each.role == "zookeeper"),
            *(each for each in before.daemons if each.role != "zookeeper"),
        ),
        elsewhere=deployment.elsewhere,
    )


def _too_slow(unfinished: Sequence[Unfinished], timeout_s: float) -> DeployError:
    details = [line for each in unfinished for line in each.lines()]
    hint = "see the logs of its nodes; `heliograph up` continues from here, --timeout allows more"
    return DeployError(f"no further after {timeout_s:g} s; brokers run as before", [*details, hint])
