"""The calls that commands make to the supervisor's control API: blocking, with timeouts."""

from __future__ import annotations

import http.client
import json
import socket
from pathlib import Path
from typing import Any

from topology.deployment.deployment import Deployment, encode_deployment

CALL_TIMEOUT_S = 10.0


class SupervisorUnreachable(Exception):
    """No supervisor responds on the socket."""


class SupervisorRefused(Exception):
    """The supervisor refused a request; the message says why."""


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=CALL_TIMEOUT_S)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(CALL_TIMEOUT_S)
        self.sock.connect(str(self._path))


def supervisor_status(socket_path: Path) -> dict[str, Any]:
    """Return the supervisor's table of daemons. Raises SupervisorUnreachable."""
    return _call(socket_path, "GET", "/status")


def supervisor_apply(socket_path: Path, deployment: Deployment) -> list[dict[str, Any]]:
    """Hand the wanted deployment over; return the steps that follow.

    Raises SupervisorUnreachable, or SupervisorRefused if the supervisor changed nothing.
    """
    answer = _call(socket_path, "POST", "/apply", encode_deployment(deployment))
    steps: list[dict[str, Any]] = answer["steps"]
    return steps


def supervisor_stop(socket_path: Path) -> None:
    """Request that every daemon stops. Raises SupervisorUnreachable."""
    _call(socket_path, "POST", "/stop")


def _call(socket_path: Path, method: str, path: str, body: str | None = None) -> dict[str, Any]:
    connection = _UnixConnection(socket_path)
    try:
        connection.request(method, path, body=body)
        response = connection.getresponse()
        answer = json.loads(response.read())
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise SupervisorUnreachable(str(error) or type(error).__name__) from error
    finally:
        connection.close()
    if not isinstance(answer, dict):
        raise SupervisorUnreachable(f"{path}: the response is no JSON object")
    if response.status != http.client.OK:
        raise SupervisorRefused(str(answer.get("error", response.status)))
    return answer
