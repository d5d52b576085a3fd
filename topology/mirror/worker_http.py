"""Requests to the mirror worker of a link, over its HTTP API (`mirror_maker/worker/http.py`)."""

from __future__ import annotations

import urllib.parse
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from topology.deployment.deployment import Daemon, Deployment
from topology.problems import unknown_name
from topology.status.process_http import CallFailed, JsonObject, NotRunning, call, url_of_daemon


def post(deployment: Deployment, link: str, action: str, **values: object) -> JsonObject:
    """Send `POST /<action>` to the worker of the link; values that are None are left out.

    Raises CallFailed.
    """
    return _call(deployment, link, "POST", f"{action}?{_query(link, values)}")


@dataclass(frozen=True, slots=True)
class Responses:
    """What the workers of a link responded to one request."""

    given: tuple[JsonObject, ...]
    failures: tuple[CallFailed, ...]
    """Of workers that may run, and from which no response came."""


def post_to_all(deployment: Deployment, link: str, action: str, **values: object) -> Responses:
    """Send `POST /<action>` to every worker of the link. Raises CallFailed if none responds.

    A worker of this host that does not run copies nothing. Beside another one it is no failure.
    """
    path = f"{action}?{_query(link, values)}"
    given: list[JsonObject] = []
    failures: list[CallFailed] = []
    stopped: list[CallFailed] = []
    for daemon in _workers(deployment, link):
        named = f"worker {daemon.key} of link {link}"
        try:
            given.append(call(deployment, *_place(deployment, daemon, named), "POST", path))
        except NotRunning as error:
            (failures if daemon in deployment.elsewhere else stopped).append(error)
        except CallFailed as error:
            failures.append(error)
    if not given:
        raise (failures + stopped)[0]
    return Responses(tuple(given), tuple(failures))


def get(deployment: Deployment, link: str, name: str, **values: object) -> JsonObject:
    """Send `GET /<name>` to the worker of the link, in the same way. Raises CallFailed."""
    return _call(deployment, link, "GET", f"{name}?{_query(link, values)}")


def _query(link: str, values: Mapping[str, object]) -> str:
    given = {name: str(value) for name, value in values.items() if value is not None}
    return urllib.parse.urlencode({"link": link, **given})


def deleted_topics(deployment: Deployment, link: str) -> list[JsonObject]:
    """Return the copies whose source topics were deleted, as the worker of the link reports them.

    Each has `topic`, `copy`, `fate` and `reason`. The list is empty if no worker runs, because then
    nothing is done about them. Raises CallFailed if a worker runs and does not respond.
    """
    try:
        status = _call(deployment, link, "GET", "status")
    except NotRunning:
        return []
    found: JsonObject = next((each for each in status["links"] if each["name"] == link), {})
    gone: list[JsonObject] = found.get("deletions", {}).get("gone", [])
    return gone


def _call(deployment: Deployment, link: str, method: str, path: str) -> JsonObject:
    """Send one request to a worker of the link: that of this host, else the first that runs.

    A worker of another host is asked if other hosts reach its HTTP. Raises CallFailed.
    """
    failures: list[CallFailed] = []
    for daemon in _workers(deployment, link):
        named = f"the worker of link {link}"
        try:
            place = _place(deployment, daemon, named)
        except CallFailed as error:  # it got no request, so another one may
            failures.append(error)
            continue
        try:
            return call(deployment, *place, method, path)
        except NotRunning as error:
            failures.append(error)
    raise failures[0]


def _workers(deployment: Deployment, link: str) -> Iterator[Daemon]:
    """Yield the workers of the link, that of this host first. Raises CallFailed without a link."""
    view = next((each for each in deployment.links if each.name == link), None)
    if view is None:
        raise CallFailed(unknown_name("link", link, [each.name for each in deployment.links]))
    for key in view.every_worker:
        yield deployment.daemon(key)


def _place(deployment: Deployment, daemon: Daemon, named: str) -> tuple[str, str]:
    """Return the URL of a worker, and its name with that of its host. Raises CallFailed."""
    where = f" on {daemon.host}" if daemon in deployment.elsewhere else ""
    return url_of_daemon(deployment, daemon, named), named + where
