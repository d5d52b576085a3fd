"""Log directories that an edited topology does without."""

from __future__ import annotations

from pathlib import Path

import pytest

from topology.deployment.deployment import Deployment, encode_deployment
from topology.deployment.removed_log_dirs import (
    LeftLogDir,
    count_replicas,
    left_log_dirs,
    problems_of,
)
from topology.deployment.render import render
from topology.deployment.state_dir import StateDir
from topology.file.load import parse_topology
from topology.operate.up import DeployError, up

TOPOLOGY = """\
name: t
clusters:
  - name: ewr
    brokers: [{{id: 1, port: 9092{first}}}, {{id: 2, port: 9093}}]
"""


@pytest.fixture
def state(tmp_path: Path) -> StateDir:
    return StateDir(tmp_path / "state")


def deployment(state: StateDir, first: str = "") -> Deployment:
    return render(parse_topology(TOPOLOGY.format(first=first)), state, topology_file=Path("t.yaml"))


def test_what_is_taken_out_of_the_list(state: StateDir) -> None:
    alone = deployment(state)
    more = deployment(state, ", log_dirs: [., /d1, /d2]")
    others = deployment(state, ", log_dirs: [/d2]")
    assert left_log_dirs(alone, more) == []
    data = str(state.data_dir / "ewr" / "broker-1")
    broker = "broker 1 of ewr"
    assert left_log_dirs(more, others) == [
        LeftLogDir(broker, data),
        LeftLogDir(broker, "/d1/ewr/broker-1"),
    ]
    assert left_log_dirs(alone, others) == [LeftLogDir(broker, data)]


def test_only_what_holds_replicas_must_stay(tmp_path: Path) -> None:
    (tmp_path / "some" / "t-0").mkdir(parents=True)
    (tmp_path / "some" / "t-1").mkdir()
    (tmp_path / "some" / "meta.properties").touch()
    (tmp_path / "empty").mkdir()
    left = [LeftLogDir("b", str(tmp_path / name)) for name in ("some", "empty", "gone")]
    assert [count_replicas(each.path) for each in left] == [2, 0, 0]
    assert problems_of(left) == [f"{tmp_path}/some of b holds 2 replicas"]


def test_up_does_not_take_them_away(state: StateDir) -> None:
    state.create()
    state.deployment_file.write_text(encode_deployment(deployment(state)))
    replica = state.data_dir / "ewr" / "broker-1" / "t-0"
    replica.mkdir(parents=True)
    with pytest.raises(DeployError, match="log directories that leave hold replicas") as refused:
        up(deployment(state, ", log_dirs: [/d1]"), state)
    assert any("broker 1 of ewr holds 1 replicas" in line for line in refused.value.details)
    assert replica.is_dir()
