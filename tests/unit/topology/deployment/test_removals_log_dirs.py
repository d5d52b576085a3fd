"""Log directories that an edited topology removes."""

from __future__ import annotations

from pathlib import Path

import pytest

from topology.deployment.deployment import Deployment, encode_deployment
from topology.deployment.removals import (
    RemovedLogDir,
    count_replicas,
    log_dir_problems,
    removed_log_dirs,
)
from topology.deployment.render import render
from topology.deployment.state_dir import StateDir
from topology.file.load import parse_topology
from topology.operate.up import up
from topology.problems import DeployError

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


def test_directories_that_the_new_file_lacks(state: StateDir) -> None:
    alone = deployment(state)
    more = deployment(state, ", log_dirs: [., /d1, /d2]")
    others = deployment(state, ", log_dirs: [/d2]")
    assert removed_log_dirs(alone, more) == []
    data = str(state.data_dir / "ewr" / "broker-1")
    broker = "broker 1 of ewr"
    assert removed_log_dirs(more, others) == [
        RemovedLogDir(broker, data),
        RemovedLogDir(broker, "/d1/ewr/broker-1"),
    ]
    assert removed_log_dirs(alone, others) == [RemovedLogDir(broker, data)]


def test_only_directories_with_replicas_must_stay(tmp_path: Path) -> None:
    (tmp_path / "some" / "t-0").mkdir(parents=True)
    (tmp_path / "some" / "t-1").mkdir()
    (tmp_path / "some" / "meta.properties").touch()
    (tmp_path / "empty").mkdir()
    left = [RemovedLogDir("b", str(tmp_path / name)) for name in ("some", "empty", "gone")]
    assert [count_replicas(each.path) for each in left] == [2, 0, 0]
    assert log_dir_problems(left) == [f"{tmp_path}/some of b holds 2 replicas"]


def test_up_keeps_directories_with_replicas(state: StateDir) -> None:
    state.create()
    state.deployment_file.write_text(encode_deployment(deployment(state)))
    replica = state.data_dir / "ewr" / "broker-1" / "t-0"
    replica.mkdir(parents=True)
    with pytest.raises(DeployError, match="log directories that leave hold replicas") as refused:
        up(deployment(state, ", log_dirs: [/d1]"), state)
    assert any("broker 1 of ewr holds 1 replicas" in line for line in refused.value.details)
    assert replica.is_dir()
