"""Users and ACLs of clusters that only other hosts run, as `plan` has them."""

from __future__ import annotations

from pathlib import Path

import pytest

from topology.deployment.deployment import ClusterView, Deployment, Part
from topology.deployment.parts_of_hosts import part_here
from topology.deployment.render import render
from topology.deployment.rights_difference import PlannedRights
from topology.deployment.state_dir import StateDir
from topology.file.load import parse_topology
from topology.hosts.answers import Answer
from topology.hosts.rights_elsewhere import planned_elsewhere
from topology.problems import DeployError

RIGHTS = (
    'authorizer: {super_users: ["User:ANONYMOUS"]},'
    ' acls: [{principal: "User:alice", operations: [READ], topics: [t]}]'
)
TOPOLOGY = f"""\
name: t
zookeepers: [{{name: main, host: 127.0.1.1}}]
clusters:
  - {{name: here, {RIGHTS}, brokers: [{{id: 1, host: 127.0.1.1, port: 9101}}]}}
  - {{name: there, {RIGHTS}, brokers: [{{id: 1, host: 127.0.1.2, port: 9101}}]}}
  - {{name: silent, {RIGHTS}, brokers: [{{id: 1, host: 127.0.1.3, port: 9101}}]}}
  - {{name: plain, brokers: [{{id: 1, host: 127.0.1.2, port: 9102}}]}}
  - {{name: limited, quotas: [{{user: a, request_percentage: 1}}],
      brokers: [{{id: 1, host: 127.0.1.2, port: 9103}}]}}
"""


@pytest.fixture
def deployment(tmp_path: Path) -> Deployment:
    whole = render(parse_topology(TOPOLOGY), StateDir(tmp_path), topology_file=Path("/t.yaml"))
    return part_here(whole, Part(host="127.0.1.1"), lambda _: False)


def answers(pid: int | None) -> dict[str, Answer]:
    row = {"key": "broker-there-1", "pid": pid}
    return {
        "127.0.1.2": Answer(state="answers", report={"daemons": [row]}),
        "127.0.1.3": Answer(state="unreachable"),
    }


@pytest.mark.parametrize("pid", [7, None])
def test_clusters_of_hosts_that_answer_are_compared(
    deployment: Deployment, pid: int | None
) -> None:
    asked: list[tuple[str, bool]] = []

    def compare(cluster: ClusterView, is_running: bool) -> PlannedRights:
        asked.append((cluster.name, is_running))
        return PlannedRights(cluster=cluster.name)

    found = planned_elsewhere(deployment, answers(pid), compare)
    assert asked == [("there", pid is not None), ("limited", False)]
    assert [(each.cluster, each.unknown) for each in found] == [
        ("there", None),
        ("silent", "users, ACLs and quotas are unknown, as no host of it answers"),
        ("limited", None),
    ]


def test_what_cannot_be_compared_from_here_says_why(deployment: Deployment) -> None:
    def compare(cluster: ClusterView, is_running: bool) -> PlannedRights:
        raise DeployError("the secret of alice is not on this host")

    there = planned_elsewhere(deployment, answers(7), compare)[0]
    assert there.unknown is not None and there.unknown.endswith("alice is not on this host")
