"""Requests to the mirror worker of a link, over its HTTP API (`mirror_maker/worker/http.py`)."""

from __future__ import annotations

import json
import urllib.parse
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from local_cluster.client.auth.security import SecurityError
from local_cluster.http_security.credentials import HttpCredentials
from local_cluster.http_security.request import HttpFailure, request
from topology.deployment.deployment import Deployment
from topology.problems import unknown_name
from topology.supervisor.readiness import http_url

RESPONSE_TIMEOUT_S: Final = 10.0
"""More than a worker waits for its target (`mirror_maker.worker.service.CONTROL_MS_MAX`), so that
the worker can report what it waited for."""
JsonObject = dict[str, Any]


class WorkerCallFailed(Exception):
    """The worker did not respond, or refused the request; the message says why."""


class NoWorker(WorkerCallFailed):
    """No worker of the link runs on this host."""


def post(deployment: Deployment, link: str, action: str, **values: object) -> JsonObject:
    """Send `POST /<action>` to the worker of the link; values that are None are left out.

    Raises WorkerCallFailed.
    """
    return _call(deployment, link, "POST", f"{action}?{_query(link, values)}")


def get(deployment: Deployment, link: str, name: str, **values: object) -> JsonObject:
    """Send `GET /<name>` to the worker of the link, in the same way. Raises WorkerCallFailed."""
    return _call(deployment, link, "GET", f"{name}?{_query(link, values)}")


def _query(link: str, values: Mapping[str, object]) -> str:
    given = {name: str(value) for name, value in values.items() if value is not None}
    return urllib.parse.urlencode({"link": link, **given})


def deleted_topics(deployment: Deployment, link: str) -> list[JsonObject]:
    """Return the copies whose source topics were deleted, as the worker of the link reports them.

    Each has `topic`, `copy`, `fate` and `reason`. The list is empty if no worker runs, because then
    nothing is done about them. Raises WorkerCallFailed if a worker runs and does not respond.
    """
    try:
        status = _call(deployment, link, "GET", "status")
    except NoWorker:
        return []
    found: JsonObject = next((each for each in status["links"] if each["name"] == link), {})
    gone: list[JsonObject] = found.get("deletions", {}).get("gone", [])
    return gone


def _call(deployment: Deployment, link: str, method: str, path: str) -> JsonObject:
    """Send one request. Raises WorkerCallFailed."""
    url = _worker_url(deployment, link)
    credentials = HttpCredentials(deployment.http)
    try:
        response = request(credentials, method, f"{url}/{path}", timeout_s=RESPONSE_TIMEOUT_S)
    except TimeoutError as error:
        late = "; it may still do it: check, or repeat the command" if method == "POST" else ""
        raise WorkerCallFailed(
            f"the worker of link {link} ({url}) does not answer within"
            f" {RESPONSE_TIMEOUT_S:g} s{late}"
        ) from error
    except ConnectionRefusedError as error:
        raise NoWorker(f"the worker of link {link} does not run") from error  # it was killed
    except HttpFailure as error:
        raise WorkerCallFailed(
            f"the worker of link {link} ({url}) does not answer: {error}"
        ) from error
    except SecurityError as error:
        raise WorkerCallFailed(f"link {link}: {error}") from error
    if response.status in (401, 403):
        raise WorkerCallFailed(
            f"the worker of link {link} ({url}) refuses the token of `http_security`: repeat the"
            " command after a change of the token, or run `heliograph up` after one of the file"
        )
    if response.status != 200:
        raise WorkerCallFailed(f"link {link}: {response.body.decode(errors='replace')}")
    try:
        document = json.loads(response.body)
    except ValueError:
        document = None
    if not isinstance(document, dict):
        raise WorkerCallFailed(f"the response of the worker of link {link} is no JSON object")
    return document


def _worker_url(deployment: Deployment, link: str) -> str:
    view = next((each for each in deployment.links if each.name == link), None)
    if view is None:
        raise WorkerCallFailed(unknown_name("link", link, [each.name for each in deployment.links]))
    daemon = deployment.daemon(view.daemon)
    if daemon in deployment.elsewhere:
        raise WorkerCallFailed(f"the worker of link {link} runs on {daemon.host}; ask there")
    ready_file = daemon.ready_file
    assert ready_file is not None, "a mirror worker has a ready file"
    try:
        url = http_url(json.loads(Path(ready_file).read_bytes()))
    except (OSError, ValueError) as error:
        raise NoWorker(f"the worker of link {link} does not run") from error
    if url is None:
        raise WorkerCallFailed(f"the worker of link {link} does not say where it listens")
    return url
