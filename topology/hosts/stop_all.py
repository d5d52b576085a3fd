"""Stops a deployment on every host: those that answer, and this one.

Hosts without ZooKeeper stop first: a broker without ZooKeeper cannot hand its partitions over.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

from topology.deployment.deployment import Deployment
from topology.hosts.answers import Answer
from topology.hosts.asking import HOSTS_AT_ONCE, ask_host
from topology.hosts.stop import stop_host
from topology.problems import DeployError


class HostStop(NamedTuple):
    """What has stopped on one host."""

    host: str
    stopped: tuple[str, ...] = ()
    """Labels of what ran there."""
    reason: str | None = None
    """Why something may still run there; None if nothing does."""
    is_here: bool = False

    def as_json(self) -> dict[str, Any]:
        return {"host": self.host, "stopped": [*self.stopped], "reason": self.reason}


def running_there(host: str, answer: Answer) -> tuple[str, ...]:
    """Return the labels of what runs on a host; one machine may be several hosts of the file."""
    rows = (row for row in answer.daemons if row["pid"] is not None and row["host"] == host)
    return tuple(row["label"] for row in rows)


def stop_all(
    deployment: Deployment, answers: Mapping[str, Answer], stop_here: Callable[[], list[str]]
) -> list[HostStop]:
    """Stop everything on the hosts that answer and on this one; return a row for each host.

    A host where no supervisor listens counts as stopped. This one comes last in the result.
    """
    here = ", ".join(dict.fromkeys(each.host for each in deployment.daemons))
    found: dict[str, HostStop] = {}

    def stop(host: str) -> HostStop:
        if host == here:
            return _stop_here(here, stop_here)
        return _stop_there(deployment, host, answers[host])

    with_zookeeper = {
        here if each in deployment.daemons else each.host
        for each in (*deployment.daemons, *deployment.elsewhere)
        if each.role == "zookeeper"
    }
    hosts = [*answers, here]
    for has_zookeeper in (False, True):
        turn = [host for host in hosts if (host in with_zookeeper) is has_zookeeper]
        with ThreadPoolExecutor(max_workers=HOSTS_AT_ONCE) as threads:
            found |= zip(turn, threads.map(stop, turn), strict=True)
    return [found[host] for host in hosts]


def _stop_here(host: str, stop: Callable[[], list[str]]) -> HostStop:
    try:
        return HostStop(host, tuple(stop()), is_here=True)
    except DeployError as error:
        return HostStop(host, reason=_sentence(error), is_here=True)


def _stop_there(deployment: Deployment, host: str, answer: Answer) -> HostStop:
    if answer.state == "not_started":
        return HostStop(host)
    if answer.state != "answers":
        return HostStop(host, reason=f"{answer.state}: {answer.reason}")
    stopped = running_there(host, answer)
    try:
        stop_host(deployment, host)
    except DeployError as error:
        # Another host of the file may be the same machine, and have stopped it already.
        if ask_host(deployment, host).state != "not_started":
            return HostStop(host, reason=_sentence(error))
    return HostStop(host, stopped)


def _sentence(error: DeployError) -> str:
    return "; ".join([str(error), *error.details])
