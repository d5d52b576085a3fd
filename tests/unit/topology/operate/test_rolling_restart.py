"""A rolling restart whose supervisor is lost before it is done."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from topology.deployment.deployment import BrokerView, ClusterView, Daemon, Deployment
from topology.operate import rolling_restart
from topology.operate.crash_loops import CrashLoops
from topology.operate.restart_stages import PartitionState, rolling_brokers
from topology.operate.restart_turn import OwnTurn, Turn
from topology.operate.rolling_restart import RollingRestart
from topology.problems import DeployError
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
    """Processes that are ready at once, and a supervisor that may be lost. It is also the clock."""

    def __init__(self, loses: Callable[[int], bool]) -> None:
        self.runs = {each.key: each for each in BEFORE.daemons}
        self.supervised = True
        self.stopped_at_once: list[list[str]] = []
        self.waits: list[tuple[str, ...]] = []
        self.now_s = 0.0
        self.turn: Turn = OwnTurn()
        self._loses = loses
        """Whether the supervisor is killed right after it took that stage, counted from 0."""
        self._stages = 0

    def apply(self, stage: Deployment) -> None:
        self.supervised = not self._loses(self._stages)
        self._stages += 1
        if self.supervised:
            changed = [each for each in stage.daemons if each.digest != self.runs[each.key].digest]
            self.stopped_at_once.append([each.key for each in changed])
            self.runs.update((each.key, each) for each in changed)

    def observe(self) -> dict[str, Any]:
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

    def monotonic(self) -> float:
        return self.now_s

    def roll(self) -> None:
        RollingRestart(
            deployment=AFTER,
            before=BEFORE,
            running=dict(self.runs),
            rolling=rolling_brokers(AFTER, self.runs),
            apply=self.apply,
            observe=self.observe,
            crash_loops=CrashLoops(),
            on_wait=self.wait,
            turn_of=lambda *_: self.turn,
            timeout_s=TIMEOUT_S,
        ).run()


Machines = Callable[[Callable[[int], bool]], Machine]


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machines:
    def make(loses: Callable[[int], bool]) -> Machine:
        machine = Machine(loses)
        monkeypatch.setattr(rolling_restart, "time", machine)
        monkeypatch.setattr(rolling_restart, "read_partitions", lambda *at: SYNCED)
        return machine

    return make


@pytest.mark.parametrize("lost_at", range(4))
def test_after_the_loss_of_a_supervisor_the_next_one_stops_one_broker(
    machine: Machines, lost_at: int
) -> None:
    """The broker of that stage still runs with its old settings, so it is in sync."""
    losing = machine(lambda stage: stage == lost_at)
    losing.roll()
    assert [each for each in losing.stopped_at_once if each] == [["b1"], ["b2"], ["b3"]]
    assert losing.waits == [LOST]
    assert tuple(losing.runs.values()) == AFTER.daemons


def test_the_roll_ends_with_an_error_if_no_supervisor_stays(machine: Machines) -> None:
    losing = machine(lambda stage: stage > 0)
    with pytest.raises(DeployError, match="rolling restart of c stopped") as caught:
        losing.roll()
    assert caught.value.details[0] == LOST[0]
    assert tuple(losing.runs.values()) == BEFORE.daemons


class OthersTurn:
    """Another host has the turn for longer than the timeout; then it is free."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.is_taken = False
        self.is_ours = False
        self.closed = 0

    def take(self) -> str | None:
        if self.is_ours:
            return None
        self.is_taken = self.machine.now_s < 3 * TIMEOUT_S
        if self.is_taken:
            return "host b restarts brokers of the cluster"
        self.is_ours = True
        return "it is this host's turn to restart brokers"

    def close(self) -> None:
        self.closed += 1


def test_the_turn_of_another_host_is_waited_for(machine: Machines) -> None:
    rolling = machine(lambda _: False)
    rolling.turn = turn = OthersTurn(rolling)
    rolling.roll()
    assert [each for each in rolling.stopped_at_once if each] == [["b1"], ["b2"], ["b3"]]
    assert {each[0].split()[0] for each in rolling.waits} == {"host", "it"}
    assert rolling.now_s >= 3 * TIMEOUT_S
    assert turn.closed == 1


def test_a_turn_that_nobody_gives_ends_the_roll(machine: Machines) -> None:
    silent = machine(lambda _: False)

    class NoZooKeeper(OthersTurn):
        def take(self) -> str | None:
            return "ZooKeeper does not answer"

    silent.turn = turn = NoZooKeeper(silent)
    with pytest.raises(DeployError, match="rolling restart of c stopped") as caught:
        silent.roll()
    assert caught.value.details[0] == "ZooKeeper does not answer"
    assert turn.closed == 1
    assert tuple(silent.runs.values()) == BEFORE.daemons
