"""One request to a mirror worker or an aggregator of a deployment, over its HTTP API."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from local_cluster.client.auth.security import SecurityError
from local_cluster.http_security.addresses import url_of
from local_cluster.http_security.credentials import HttpCredentials
from local_cluster.http_security.request import HttpFailure, HttpResponse, request
from topology.deployment.deployment import Daemon, Deployment
from topology.supervisor.readiness import http_url

RESPONSE_TIMEOUT_S: Final = 15.0
"""More than a worker waits for its target (`mirror_maker.worker.service.CONTROL_MS_MAX`), so that
the worker can report what it waited for."""
JsonObject = dict[str, Any]


class CallFailed(Exception):
    """The process did not respond, or refused the request; the message says why."""


class NotRunning(CallFailed):
    """The process does not run."""


class Refused(CallFailed):
    """The process responded with an error of this HTTP status."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


def url_here(daemon: Daemon, named: str) -> str:
    """Return the URL of a daemon of this host from its ready file. Raises CallFailed.

    `named` names the daemon in the message, also in those of `call`.
    """
    assert daemon.ready_file is not None, "a mirror worker and an aggregator have a ready file"
    try:
        url = http_url(json.loads(Path(daemon.ready_file).read_bytes()))
    except (OSError, ValueError) as error:
        raise NotRunning(f"{named} does not run") from error
    if url is None:
        raise CallFailed(f"{named} does not say where it listens")
    return url


def url_of_daemon(deployment: Deployment, daemon: Daemon, named: str) -> str:
    """Return the URL of a daemon of this host or of another one. Raises CallFailed.

    `named` names the daemon in the message.
    """
    if daemon not in deployment.elsewhere:
        return url_here(daemon, named)
    if daemon.address is None:
        raise CallFailed(
            f"{named} runs on {daemon.host}, and other hosts cannot reach its HTTP; ask there"
        )
    return url_of(deployment.http.scheme, *daemon.address)


def call(
    deployment: Deployment,
    url: str,
    named: str,
    method: str,
    path: str,
    body: JsonObject | None = None,
) -> JsonObject:
    """Send one request, and return the JSON object of the response. Raises CallFailed."""
    sent = None if body is None else json.dumps(body).encode()
    try:
        response = request(
            HttpCredentials(deployment.http),
            method,
            f"{url}/{path}",
            timeout_s=RESPONSE_TIMEOUT_S,
            body=sent,
        )
    except TimeoutError as error:
        late = "" if method == "GET" else "; it may still do it: check, or repeat the command"
        raise CallFailed(
            f"{named} ({url}) does not answer within {RESPONSE_TIMEOUT_S:g} s{late}"
        ) from error
    except ConnectionRefusedError as error:
        raise NotRunning(f"{named} does not run") from error  # it was killed
    except HttpFailure as error:
        raise CallFailed(f"{named} ({url}) does not answer: {error}") from error
    except SecurityError as error:
        raise CallFailed(f"{named}: {error}") from error
    if response.status in (401, 403):
        raise CallFailed(
            f"{named} ({url}) refuses the token of `http_security`: repeat the command after a"
            " change of the token, or run `heliograph up` after one of the file"
        )
    document = _document(response)
    if response.status != 200:
        said = document.get("message") if isinstance(document, dict) else None
        text = response.body.decode(errors="replace")
        raise Refused(f"{named}: {said or text}", response.status)
    if not isinstance(document, dict):
        raise CallFailed(f"the response of {named} is no JSON object")
    return document


def _document(response: HttpResponse) -> Any:
    try:
        return json.loads(response.body)
    except ValueError:
        return None
