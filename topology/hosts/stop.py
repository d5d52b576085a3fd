"""Stops the processes of another host, by an order to its supervisor."""

from __future__ import annotations

import time
from typing import Final

from topology.deployment.deployment import Deployment
from topology.deployment.parts_of_hosts import hosts_of
from topology.hosts.answers import Answer, refusal_of
from topology.hosts.asking import ask_host, order, other_hosts
from topology.operate.down import DOWN_TIMEOUT_S
from topology.problems import DeployError, unknown_name

POLL_S: Final = 0.25
RESTARTED_WITHIN_S: Final = 2.0
"""A supervisor that was lost is followed by another within `RESTART_DELAY_S` of its keeper. So one
refused connection does not say that everything has stopped."""


def running_on(deployment: Deployment, host: str) -> list[str]:
    """Return the labels of the processes on another host.

    Raises DeployError if the host is this one or none of the file, or if it does not answer.
    """
    if host not in other_hosts(deployment):
        if host in hosts_of(deployment):
            raise DeployError(f"{host} is this host; `heliograph down` stops what runs here")
        raise DeployError(unknown_name("host", host, other_hosts(deployment)))
    if deployment.supervisors is None:
        raise DeployError(
            f"{host} takes no orders: the topology has no `supervisors`",
            ["run `heliograph down` on that host"],
        )
    answer = ask_host(deployment, host)
    if answer.state != "answers":
        raise _no_answer(host, answer)
    return [row["label"] for row in answer.daemons if row["pid"] is not None]


def stop_host(deployment: Deployment, host: str, *, timeout_s: float = DOWN_TIMEOUT_S) -> None:
    """Stop everything that the supervisor of another host started, and wait for that.

    Raises DeployError.
    """
    deadline_s = time.monotonic() + timeout_s
    body = {"deployment": deployment.name, "host": host}
    response = order(deployment, host, "POST", "/stop", body)
    if isinstance(response, Answer):
        raise DeployError(
            f"{host} does not confirm the order: {response.reason}",
            ["it may still stop; `heliograph status` shows it"],
        )
    if response.status != 200:
        said = refusal_of(response.body) or f"HTTP status {response.status}"
        raise DeployError(f"{host} refuses to stop: {said}")
    refused_since_s: float | None = None
    while True:
        answer = ask_host(deployment, host)
        now_s = time.monotonic()
        if answer.state != "not_started":
            refused_since_s = None
        elif refused_since_s is None:
            refused_since_s = now_s
        elif now_s - refused_since_s > RESTARTED_WITHIN_S:
            return
        if now_s > deadline_s:
            left = [row["label"] for row in answer.daemons if row["pid"] is not None]
            raise DeployError(
                f"{host} was told to stop, and has not within {timeout_s:g} s",
                [answer.reason or f"these still run: {', '.join(left)}"],
            )
        time.sleep(POLL_S)


def _no_answer(host: str, answer: Answer) -> DeployError:
    return DeployError(
        f"{host} does not answer as its supervisor: {answer.state}: {answer.reason}",
        [f"nothing was stopped; `heliograph down` on {host} needs no HTTP"],
    )
