"""Asks the supervisors of other hosts, several at once, within limits of bytes and time."""

from __future__ import annotations

import json
import math
import queue
import ssl
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from local_cluster.client.auth.security import SecurityError
from local_cluster.http_security.credentials import HttpCredentials
from local_cluster.http_security.request import HttpFailure, HttpResponse, NoHttpResponse, request
from topology.deployment.deployment import Deployment
from topology.deployment.parts_of_hosts import EVERY_HOST
from topology.hosts.answers import NOT_CONFIGURED, Answer, read_answer, with_clock

ANSWER_TIMEOUT_S: Final = 3.0
ANSWER_BYTES_MAX: Final = 4 * 1024 * 1024
HOSTS_AT_ONCE: Final = 32
"""Hosts that are asked at the same time."""
SPARE_S: Final = 1.0
"""Seconds beyond the timeout, for a name to be resolved and for an answer that drips."""

Ask = Callable[[str], Answer]


def other_hosts(deployment: Deployment) -> list[str]:
    """Return the other hosts of the deployment, each once, in the order of the file."""
    return [
        host
        for host in dict.fromkeys(each.host for each in deployment.elsewhere)
        if host not in EVERY_HOST
    ]


def ask_hosts(deployment: Deployment, hosts: Sequence[str]) -> dict[str, Answer]:
    """Return the answer of each host, or why there is none."""
    return ask_all(lambda host: ask_host(deployment, host), hosts)


def ask_host(deployment: Deployment, host: str) -> Answer:
    """Return the answer of one host, or why there is none."""
    asked_ms = _now_ms()
    found = order(deployment, host, "GET", "/host")
    if isinstance(found, Answer):
        return found
    answered_ms = _now_ms()
    answer = read_answer(found.status, found.body, deployment=deployment.name, host=host)
    return with_clock(answer, asked_ms, answered_ms)


def order(
    deployment: Deployment,
    host: str,
    method: str,
    path: str,
    body: Mapping[str, str] | None = None,
    *,
    timeout_s: float | None = None,
) -> HttpResponse | Answer:
    """Send one request to a host's supervisor; return the response, or why there is none.

    `timeout_s` is `ANSWER_TIMEOUT_S` by default.
    """
    timeout_s = ANSWER_TIMEOUT_S if timeout_s is None else timeout_s
    ports = deployment.supervisors
    url = None if ports is None else ports.url(host)
    if url is None:
        return NOT_CONFIGURED
    try:
        return request(
            HttpCredentials(deployment.http),
            method,
            f"{url}{path}",
            timeout_s=timeout_s,
            bytes_max=ANSWER_BYTES_MAX,
            body=None if body is None else json.dumps(body).encode(),
        )
    except TimeoutError:
        return _late(url, timeout_s)
    except ConnectionRefusedError:
        return Answer(state="not_started", reason=f"nothing listens on {url}")
    except SecurityError as error:
        return Answer(state="not_asked", reason=str(error))
    except NoHttpResponse as error:
        return Answer(state="unusable", reason=str(error))
    except HttpFailure as error:
        cause = error.__cause__
        is_network = isinstance(cause, OSError) and not isinstance(cause, ssl.SSLError)
        return Answer(state="unreachable" if is_network else "unusable", reason=f"{url}: {error}")


def ask_all(
    ask: Ask,
    hosts: Sequence[str],
    *,
    at_once: int = HOSTS_AT_ONCE,
    limit_s: float = ANSWER_TIMEOUT_S + SPARE_S,
) -> dict[str, Answer]:
    """Ask every host, at most `at_once` at the same time; a host that takes longer is unreachable.

    `limit_s` is for each round of hosts. The threads end with the process: the resolver of names
    has no timeout of ours.
    """
    waiting: queue.SimpleQueue[str] = queue.SimpleQueue()
    answered: queue.SimpleQueue[tuple[str, Answer]] = queue.SimpleQueue()
    for host in hosts:
        waiting.put(host)

    def work() -> None:
        while True:
            try:
                host = waiting.get_nowait()
            except queue.Empty:
                return
            answered.put((host, ask(host)))

    for _ in range(min(at_once, len(hosts))):
        threading.Thread(target=work, daemon=True).start()
    deadline_s = time.monotonic() + limit_s * math.ceil(len(hosts) / at_once)
    found: dict[str, Answer] = {}
    while len(found) < len(hosts):
        try:
            host, answer = answered.get(timeout=max(0.0, deadline_s - time.monotonic()))
        except queue.Empty:
            break
        found[host] = answer
    return {host: found.get(host) or _late(host, limit_s - SPARE_S) for host in hosts}


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _late(what: str, timeout_s: float) -> Answer:
    reason = f"{what} does not answer within {timeout_s:g} s"
    return Answer(state="unreachable", reason=reason)
