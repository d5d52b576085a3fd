"""All hosts are stopped: in which order, and who is named."""

from __future__ import annotations

import pytest

from topology.deployment.deployment import Daemon, Deployment, Role
from topology.hosts import stop_all as stop_all_module
from topology.hosts.answers import Answer
from topology.hosts.stop_all import HostStop, stop_all
from topology.problems import DeployError

HERE = "10.0.0.1"


def daemon(host: str, role: Role) -> Daemon:
    return Daemon(key=f"{role}-{host}", role=role, label=f"{role} of {host}", argv=(), host=host)


def answers(host: str, role: str) -> Answer:
    row = {"label": f"{role} of {host}", "pid": 1, "host": host}
    idle = {"label": "idle", "pid": None, "host": host}
    elsewhere = {"label": "of the same machine", "pid": 2, "host": "another name"}
    return Answer(state="answers", report={"daemons": [row, idle, elsewhere]})


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The hosts that were told to stop, in their order; 10.0.0.9 refuses."""
    told: list[str] = []

    def stop(_: Deployment, host: str) -> None:
        told.append(host)
        if host in ("10.0.0.9", "10.0.0.8"):
            raise DeployError("it refuses", ["because"])

    def ask(_: Deployment, host: str) -> Answer:
        return Answer(state="not_started" if host == "10.0.0.8" else "answers")

    monkeypatch.setattr(stop_all_module, "stop_host", stop)
    monkeypatch.setattr(stop_all_module, "ask_host", ask)
    return told


def deployment(own: Role, **others: Role) -> Deployment:
    elsewhere = tuple(daemon(f"10.0.0.{host[1:]}", role) for host, role in others.items())
    return Deployment(
        name="d", topology_file="/t", daemons=(daemon(HERE, own),), elsewhere=elsewhere
    )


@pytest.mark.parametrize(
    ("own", "order"),
    [("broker", ["10.0.0.3", HERE, "10.0.0.2"]), ("zookeeper", ["10.0.0.3", "10.0.0.2", HERE])],
)
def test_hosts_with_zookeeper_stop_last(own: Role, order: list[str], told: list[str]) -> None:
    here = deployment(own, h2="zookeeper", h3="broker")
    asked = {"10.0.0.2": answers("10.0.0.2", "zookeeper"), "10.0.0.3": answers("10.0.0.3", "b")}

    def stop_here() -> list[str]:
        told.append(HERE)
        return ["own"]

    found = stop_all(here, asked, stop_here)
    rounds = told.index(HERE)
    assert (told if rounds == 1 else [*told[:1], *sorted(told[1:], key=order.index)]) == order
    assert found == [
        HostStop("10.0.0.2", ("zookeeper of 10.0.0.2",)),
        HostStop("10.0.0.3", ("b of 10.0.0.3",)),
        HostStop(HERE, ("own",), is_here=True),
    ]


def test_who_does_not_stop_is_named_and_the_others_stop(told: list[str]) -> None:
    here = deployment("broker", h8="broker", h9="broker")
    asked = {
        "10.0.0.5": Answer(state="not_started", reason="nothing listens"),
        "10.0.0.6": Answer(state="unreachable", reason="late"),
        "10.0.0.8": answers("10.0.0.8", "b"),
        "10.0.0.9": answers("10.0.0.9", "b"),
    }

    def refuse() -> list[str]:
        raise DeployError("the supervisor did not stop")

    found = {each.host: each for each in stop_all(here, asked, refuse)}
    assert sorted(told) == ["10.0.0.8", "10.0.0.9"], "only hosts that answer are told"
    assert {host: each.reason for host, each in found.items()} == {
        "10.0.0.5": None,
        "10.0.0.6": "unreachable: late",
        "10.0.0.8": None,
        "10.0.0.9": "it refuses; because",
        HERE: "the supervisor did not stop",
    }
    assert found["10.0.0.8"].stopped == ("b of 10.0.0.8",), "it has stopped meanwhile"
