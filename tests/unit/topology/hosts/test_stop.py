"""Stopping another host: which hosts can be told, and when everything there has stopped."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from local_cluster.http_security.request import HttpResponse
from tests.support.quiet_ports import quiet_port
from topology.deployment.deployment import Daemon, Deployment
from topology.deployment.supervisor_ports import SupervisorPorts
from topology.hosts import stop
from topology.hosts.answers import Answer
from topology.hosts.stop import running_on, stop_host
from topology.problems import DeployError

OTHER = "127.0.1.2"


def daemon(host: str) -> Daemon:
    return Daemon(key=f"d-{host}", role="broker", label="d", argv=("d",), host=host)


@pytest.fixture
def deployment() -> Deployment:
    return Deployment(
        name="flights",
        topology_file="/t.yaml",
        daemons=(daemon("127.0.1.1"),),
        elsewhere=(daemon(OTHER), daemon("127.0.1.3")),
        supervisors=SupervisorPorts(port=quiet_port(), hosts=("127.0.1.1", OTHER)),
    )


@pytest.mark.parametrize(
    ("host", "reason"),
    [
        ("127.0.1.1", "127.0.1.1 is this host; `heliograph down` stops what runs here"),
        ("127.0.1.22", "did you mean '127.0.1.2'"),
        ("127.0.1.3", "not_configured"),
        (OTHER, "not_started: nothing listens on"),
    ],
)
def test_hosts_that_take_no_order(deployment: Deployment, host: str, reason: str) -> None:
    with pytest.raises(DeployError) as refused:
        running_on(deployment, host)
    assert reason in str(refused.value)


def test_without_ports_no_host_takes_an_order(deployment: Deployment) -> None:
    with pytest.raises(DeployError, match="the topology has no `supervisors`"):
        running_on(replace(deployment, supervisors=None), OTHER)


def answers(pid: int | None) -> Answer:
    return Answer(state="answers", report={"daemons": [{"label": "broker 1", "pid": pid}]})


REFUSED = Answer(state="not_started", reason="nothing listens")
LATE = Answer(state="unreachable", reason="no answer")


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> list[Answer]:
    """The answers of the host, one after the other; the last one stays."""
    script: list[Answer] = []

    def ask(*_: Any) -> Answer:
        return script.pop(0) if len(script) > 1 else script[0]

    monkeypatch.setattr(stop, "ask_host", ask)
    monkeypatch.setattr(stop, "order", lambda *_: HttpResponse(200, b"{}"))
    return script


@pytest.fixture
def seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each look at the clock is a second later."""
    clock: Iterator[float] = iter(range(1_000))
    time = SimpleNamespace(monotonic=lambda: float(next(clock)), sleep=lambda _: None)
    monkeypatch.setattr(stop, "time", time)


@pytest.mark.usefixtures("seconds")
def test_a_supervisor_that_is_followed_by_another_has_not_stopped(
    deployment: Deployment, script: list[Answer]
) -> None:
    script += [answers(7), REFUSED, answers(7), LATE, REFUSED, REFUSED, REFUSED, REFUSED]
    stop_host(deployment, OTHER)
    assert script == [REFUSED], "it was asked until nothing had listened for longer"


@pytest.mark.usefixtures("seconds")
@pytest.mark.parametrize(
    ("answer", "details"),
    [(answers(7), "these still run: broker 1"), (LATE, "no answer")],
)
def test_a_host_that_does_not_stop_is_no_success(
    deployment: Deployment, script: list[Answer], answer: Answer, details: str
) -> None:
    script.append(answer)
    with pytest.raises(DeployError, match="was told to stop, and has not") as failed:
        stop_host(deployment, OTHER)
    assert failed.value.details == (details,)


@pytest.mark.parametrize(
    ("response", "reason"),
    [
        (HttpResponse(409, b'{"message": "another host"}'), "refuses to stop: another host"),
        (LATE, "does not confirm the order: no answer"),
    ],
)
def test_an_order_that_is_not_confirmed(
    deployment: Deployment,
    response: HttpResponse | Answer,
    reason: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stop, "order", lambda *_: response)
    with pytest.raises(DeployError) as failed:
        stop_host(deployment, OTHER)
    assert reason in str(failed.value)
