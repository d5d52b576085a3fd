"""`up` on an edited file restarts the brokers of a cluster one at a time."""

from __future__ import annotations

import asyncio
import json
import re
import sys
import time
from collections.abc import AsyncIterator, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import psutil
import pytest

from local_cluster.client.client import KafkaClient
from local_cluster.client.model import NewTopic
from local_cluster.client.reader import read_topic
from local_cluster.settings import BrokerSettings, Listener, dump_settings
from tests.support.heliograph_command import HeliographCommand, pids
from tests.support.quiet_ports import quiet_ports
from tests.support.replicas import IdempotentProducer
from topology.deployment.deployment import (
    BrokerView,
    ClusterView,
    Daemon,
    Deployment,
    encode_deployment,
)
from topology.deployment.state_dir import StateDir, write_atomically
from topology.operate import handover, rolling_restart
from topology.operate.down import down
from topology.operate.preflight import plan_steps
from topology.operate.restart_stages import PartitionState
from topology.operate.up import Up, up
from topology.problems import DeployError
from topology.status import liveness
from topology.status.document import Liveness
from topology.supervisor.control_client import supervisor_apply, supervisor_status

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]

FAKE = Path(__file__).parents[1] / "topology" / "fake_daemon.py"
WAIT_S = 60.0
PARTITIONS = 3
BROKER_IDS = (1, 2, 3)
EVENT = re.compile(r"broker (\d) of c (ended \(exit code 0\)|runs as pid \d+)$", re.MULTILINE)


def events(state: StateDir) -> list[tuple[int, str]]:
    """Return from the supervisor's log each broker that ended cleanly, or was ready."""
    found = EVENT.findall(state.log_file("supervisor").read_text())
    return [(int(broker), what.split()[0]) for broker, what in found]


def one_after_the_other(*order: int) -> list[tuple[int, str]]:
    return [(broker, what) for broker in order for what in ("ended", "runs")]


@pytest.fixture
async def command(tmp_path: Path) -> AsyncIterator[HeliographCommand]:
    command = HeliographCommand(tmp_path)
    yield command
    if command.state_dir.exists():
        await asyncio.to_thread(command.run, "down", "--purge")


@pytest.mark.long
async def test_an_edited_cluster_never_stops_for_its_producers(command: HeliographCommand) -> None:
    zookeeper, *ports = quiet_ports(4)
    brokers = ", ".join(f"{{id: {i}, port: {p}}}" for i, p in zip(BROKER_IDS, ports, strict=True))

    async def up(new_topics_partitions: int) -> dict[str, int]:
        command.file.write_text(
            f"""\
name: rolls
zookeepers: [{{name: zookeeper, port: {zookeeper}}}]
clusters:
  - name: c
    brokers: [{brokers}]
    topic_defaults:
      partitions: {new_topics_partitions}
      replication_factor: 3
      config: {{min.insync.replicas: 2}}
"""
        )
        return pids(await asyncio.to_thread(command.up))

    before = await up(PARTITIONS)
    seen = len(events(StateDir(command.state_dir)))
    bootstrap = ",".join(f"127.0.0.1:{port}" for port in ports)
    async with KafkaClient(bootstrap) as client:
        await client.create_topics([NewTopic(name="t")])
        producers = [IdempotentProducer(bootstrap, "t", i) for i in range(PARTITIONS)]
        await asyncio.gather(*(producer.advance(20) for producer in producers))
        after = await up(PARTITIONS + 1)
        await asyncio.gather(*(producer.advance(20) for producer in producers))
        for producer in producers:
            await producer.stop()

        assert {key for key in after if after[key] != before[key]} == {
            f"broker-c-{i}" for i in BROKER_IDS
        }
        rolled = events(StateDir(command.state_dir))[seen:]
        assert rolled == one_after_the_other(*(broker for broker, _ in rolled[::2]))
        for index, producer in enumerate(producers):
            values = [record.value async for record in read_topic(client, "t", partition=index)]
            assert values == producer.acknowledged


SYNCED = [PartitionState("t-0", 1, (1, 2), (1, 2))]
BEHIND = [PartitionState("t-0", 2, (1, 2), (2,))]
TOO_LONG = [PartitionState("t-0", 2, (1, 2), (2,))]
"""Behind, at the timeout."""

EVERYBODY_ANSWERS = Liveness(external_brokers={}, silent_clusters={}, silent_daemons={})
"""The fake daemons speak no protocol."""


class Fakes:
    """A cluster of fake daemons, and scripted responses of its controller."""

    def __init__(self, state: StateDir) -> None:
        self.state = state
        self.answers: list[list[PartitionState] | None] = []
        """Responses in order; after them all replicas are in sync."""
        self.asked_of: list[dict[str, int]] = []
        """The processes at each request."""
        self.now_s = 0.0
        """The time that the rolling restart sees."""

    def read_partitions(self, *at: object) -> list[PartitionState] | None:
        self.asked_of.append(self.pids())
        if self.answers and self.answers[0] is TOO_LONG:
            self.now_s += 2 * WAIT_S
        return self.answers.pop(0) if self.answers else SYNCED

    def up(self, **settings: Any) -> Up:
        return up(self.deployment(**settings), self.state, timeout_s=WAIT_S)

    def pids(self) -> dict[str, int]:
        rows = supervisor_status(self.state.socket_path)["daemons"]
        return {row["key"]: row["pid"] for row in rows}

    def deployment(self, **settings: Any) -> Deployment:
        views = tuple(BrokerView(id=i, host="h", port=i, daemon=f"b{i}") for i in BROKER_IDS)
        cluster = ClusterView(
            name="c", kind="local", datacenter="c", bootstrap="h:1", brokers=views
        )
        return Deployment(
            name="fakes",
            topology_file="fakes.yaml",
            daemons=tuple(self._daemon(i, settings) for i in BROKER_IDS),
            clusters=(cluster,),
        )

    def _daemon(self, broker_id: int, settings: dict[str, Any]) -> Daemon:
        key = f"b{broker_id}"
        ready_file = str(self.state.ready_dir / f"{key}.json")
        settings_file = str(self.state.settings_dir / f"{key}.json")
        of_a_broker = BrokerSettings(
            cluster="c",
            broker_id=broker_id,
            listeners=(Listener(name="PLAINTEXT", host="h", port=broker_id),),
            inter_broker_listener="PLAINTEXT",
            zookeeper_connect="h:2",
            log_dirs=(str(self.state.data_dir / key),),
            ready_file=ready_file,
        )
        text = json.dumps({**json.loads(dump_settings(of_a_broker)), "name": key, **settings})
        return Daemon(
            key=key,
            role="broker",
            label=f"broker {broker_id} of c",
            argv=(sys.executable, str(FAKE), settings_file),
            files={settings_file: text},
            ready_file=ready_file,
            stop_grace_s=WAIT_S,
        )


class FakeTime:
    """The `time` module of a rolling restart, on the clock of `Fakes`."""

    def __init__(self, fakes: Fakes) -> None:
        self._fakes = fakes

    def monotonic(self) -> float:
        return self._fakes.now_s

    def sleep(self, _: float) -> None:
        time.sleep(0.01)


@pytest.fixture
def fakes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Fakes]:
    fakes = Fakes(StateDir(tmp_path / "state"))
    monkeypatch.setattr(rolling_restart, "read_partitions", fakes.read_partitions)
    monkeypatch.setattr(rolling_restart, "time", FakeTime(fakes))
    monkeypatch.setattr(liveness, "check_liveness", lambda *_: EVERYBODY_ANSWERS)
    yield fakes
    down(fakes.state)


def test_the_others_run_as_they_did_until_the_first_is_in_sync(fakes: Fakes) -> None:
    fakes.up()
    before, seen = fakes.pids(), len(events(fakes.state))
    assert fakes.asked_of == [], "no rolling restart without running brokers"
    fakes.answers = [SYNCED, BEHIND, None, BEHIND]
    fakes.up(print="changed")
    assert events(fakes.state)[seen:] == one_after_the_other(1, 2, 3)
    first, *behind = fakes.asked_of[:4]
    assert first == before
    assert len(behind) == 3
    assert all(
        each["b1"] != before["b1"] and each == {**before, "b1": each["b1"]} for each in behind
    )
    assert plan_steps(fakes.deployment(print="changed"), fakes.state) == []


def test_a_roll_whose_time_is_over_says_what_is_behind_and_the_next_up_goes_on(
    fakes: Fakes,
) -> None:
    fakes.up()
    before = fakes.pids()
    fakes.answers = [SYNCED, BEHIND, TOO_LONG]
    with pytest.raises(DeployError, match="rolling restart of c stopped") as caught:
        fakes.up(print="changed")
    details = "\n".join(caught.value.details)
    assert "t-0 is behind on broker 1" in details
    assert "run as before: broker 2, 3 of c" in details
    assert fakes.pids() == {**before, "b1": fakes.pids()["b1"]}
    assert fakes.pids()["b1"] != before["b1"]
    steps = plan_steps(fakes.deployment(print="changed"), fakes.state)
    assert [step.key for step in steps] == ["b2", "b3"]

    fakes.up(print="changed")
    assert plan_steps(fakes.deployment(print="changed"), fakes.state) == []


def test_a_supervisor_that_is_killed_with_a_stage_has_the_next_stop_one_broker(
    fakes: Fakes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has stored the stage, and stopped no broker yet. Its keeper is killed as well."""
    fakes.up()
    stages = 0

    def apply(socket_path: Path, stage: Deployment) -> list[dict[str, Any]]:
        nonlocal stages
        stages += 1
        if stages != 2:
            return supervisor_apply(socket_path, stage)
        supervisor = psutil.Process(supervisor_status(socket_path)["pid"])
        keeper = supervisor.parent()
        assert keeper is not None
        for process in (keeper, supervisor):
            process.kill()
        while fakes.state.is_locked():
            time.sleep(0.01)
        write_atomically(fakes.state.deployment_file, encode_deployment(stage))
        return []

    monkeypatch.setattr(handover, "supervisor_apply", apply)
    fakes.up(print="changed")
    assert plan_steps(fakes.deployment(print="changed"), fakes.state) == []
    # All brokers run at each request to the controller.
    for before, after in pairwise(fakes.asked_of):
        assert len({*after.items()} - {*before.items()}) <= 1, fakes.asked_of


def test_settings_that_a_broker_does_not_start_with_reach_no_second_broker(fakes: Fakes) -> None:
    fakes.up()
    before = fakes.pids()
    with pytest.raises(DeployError, match="broker 1 of c keeps ending"):
        fakes.up(exit_code=7)
    assert {key: pid for key, pid in fakes.pids().items() if key != "b1"} == {
        key: pid for key, pid in before.items() if key != "b1"
    }
    fakes.up()
    assert {**fakes.pids(), "b1": 0} == {**before, "b1": 0}
