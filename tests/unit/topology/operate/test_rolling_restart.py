"""A roll whose supervisor is lost on the way."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from topology.deployment.deployment import BrokerView, ClusterView, Daemon, Deployment
from topology.operate import rolling_restart
from topology.operate.restart_stages import PartitionState, rolling_brokers
from topology.operate.rolling_restart import RollingRestart
from topology.operate.up import DeployError, Endings
from topology.status.document import assemble_status, unsupervised_report
from topology.supervisor.own_process import Identity
from topology.supervisor.process_journal import StartedProcess

BROKER_IDS = (1, 2, 3)
SYNCED = [PartitionState("t-0", 1, BROKER_IDS, BROKER_IDS)]
TIMEOUT_S = 60.0
LOST = ("the supervisor does not answer",)


def deployment(version: int) -> Deployment:
    brokers = tuple(BrokerView(id=i, host="h", port=i, daemon=f"b{i}") for i in BROKER_IDS)
    cluster = ClusterView(name="c", kind="local", datacenter="c", bootstrap="h:1", brokers=brokers)
    return Deployment(
        name="d",
        topology_file="d.yaml",
        daemons=tuple(
            Daemon(key=each.daemon, role="broker", label=each.daemon, argv=("run", str(version)))
            for each in brokers
        ),
        clusters=(cluster,),
    )


BEFORE, AFTER = deployment(1), deployment(2)


class Machine:
    """Processes that are ready at once, and a supervisor that may be lost."""

    def __init__(self, loses: Callable[[int], bool]) -> None:
        self.runs = {each.key: each for each in BEFORE.daemons}
        self.supervised = True
        self.stopped_at_once: list[list[str]] = []
        self.waits: list[tuple[str, ...]] = []
        self.now_s = 0.0
        self._loses = loses
        """Whether a supervisor is killed when it has just taken that stage, counted from 0."""
        self._stages = 0

    def apply(self, stage: Deployment) -> None:
        self.supervised = not self._loses(self._stages)
        self._stages += 1
        if self.supervised:
            changed = [each for each in stage.daemons if each.digest != self.runs[each.key].digest]
            self.stopped_at_once.append([each.key for each in changed])
            self.runs.update((each.key, each) for each in changed)

    def look(self) -> dict[str, Any]:
        started = {
            key: StartedProcess(Identity(pid, "now"), each)
            for pid, (key, each) in enumerate(self.runs.items(), 100)
        }
        report = unsupervised_report(started, Path)
        assert report is not None
        if self.supervised:
            report["pid"] = 1
        return assemble_status(AFTER, report, {})

    def wait(self, reasons: Sequence[str]) -> None:
        self.waits.append(tuple(reasons))

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds

    def roll(self) -> None:
        RollingRestart(
            deployment=AFTER,
            before=BEFORE,
            running=dict(self.runs),
            rolling=rolling_brokers(AFTER, self.runs),
            apply=self.apply,
            look=self.look,
            endings=Endings(),
            on_wait=self.wait,
            timeout_s=TIMEOUT_S,
        ).run()


Machines = Callable[[Callable[[int], bool]], Machine]


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machines:
    def make(loses: Callable[[int], bool]) -> Machine:
        machine = Machine(loses)
        clock = SimpleNamespace(monotonic=lambda: machine.now_s, sleep=machine.sleep)
        monkeypatch.setattr(rolling_restart, "time", clock)
        monkeypatch.setattr(rolling_restart, "read_partitions", lambda bootstrap: SYNCED)
        return machine

    return make


@pytest.mark.parametrize("lost_at", range(4))
def test_a_supervisor_that_is_lost_with_a_stage_has_the_next_stop_one_broker(
    machine: Machines, lost_at: int
) -> None:
    """Whoever was to be restarted still runs as before, and so is in sync."""
    losing = machine(lambda stage: stage == lost_at)
    losing.roll()
    assert [each for each in losing.stopped_at_once if each] == [["b1"], ["b2"], ["b3"]]
    assert losing.waits == [LOST]
    assert tuple(losing.runs.values()) == AFTER.daemons


def test_without_a_supervisor_that_stays_the_roll_ends_and_says_so(machine: Machines) -> None:
    losing = machine(lambda stage: stage > 0)
    with pytest.raises(DeployError, match="rolling restart of c stopped") as caught:
        losing.roll()
    assert caught.value.details[0] == LOST[0]
    assert tuple(losing.runs.values()) == BEFORE.daemons
