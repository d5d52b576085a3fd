"""SHELL: one HTTP request of a command, with limits of bytes and time.

The standard library suffices for a command, and starts faster than an event loop with aiohttp.
"""

from __future__ import annotations

import http.client
import time
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from local_cluster.client.auth.security import SecurityError
from local_cluster.http_security.credentials import HttpCredentials

RESPONSE_BYTES_MAX: Final = 16 * 1024 * 1024
CHUNK_BYTES: Final = 64 * 1024


class HttpResponse(NamedTuple):
    """A response of any status."""

    status: int
    body: bytes


class HttpFailure(Exception):
    """There is no usable response. The message says why."""


class NoHttpResponse(HttpFailure):
    """The peer sends something that is no HTTP response."""


def get_or_none(
    credentials: HttpCredentials,
    url: str,
    *,
    timeout_s: float,
    bytes_max: int = RESPONSE_BYTES_MAX,
) -> bytes | None:
    """Return the body of a GET; None without a usable response, or with another status than 200."""
    try:
        response = request(credentials, "GET", url, timeout_s=timeout_s, bytes_max=bytes_max)
    except (OSError, HttpFailure, SecurityError, ValueError):
        return None
    return response.body if response.status == 200 else None


def request(
    credentials: HttpCredentials,
    method: str,
    url: str,
    *,
    timeout_s: float,
    bytes_max: int = RESPONSE_BYTES_MAX,
    body: bytes | None = None,
) -> HttpResponse:
    """Send one request, with a JSON body if there is one, and return the response.

    Redirects are not followed. Raises TimeoutError, ConnectionRefusedError, SecurityError, and
    HttpFailure for what else goes wrong.
    """
    deadline_s = time.monotonic() + timeout_s
    headers = credentials.headers(url)
    if body is not None:
        headers = {**headers, "Content-Type": "application/json"}
    context = credentials.tls_context()
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port
    connection: http.client.HTTPConnection
    if parts.scheme == "https":
        connection = http.client.HTTPSConnection(host, port, timeout=timeout_s, context=context)
    else:
        connection = http.client.HTTPConnection(host, port, timeout=timeout_s)
    target = f"{parts.path or '/'}{'?' if parts.query else ''}{parts.query}"
    try:
        connection.request(method, target, body, headers)
        response = connection.getresponse()
        received = bytearray()
        while chunk := response.read1(CHUNK_BYTES):
            received += chunk
            if len(received) > bytes_max:
                raise HttpFailure(f"{url} sends more than {bytes_max} bytes")
            if time.monotonic() > deadline_s:
                raise TimeoutError
        return HttpResponse(response.status, bytes(received))
    except (TimeoutError, ConnectionRefusedError):
        raise
    except http.client.BadStatusLine as error:
        raise NoHttpResponse(f"{url} does not answer with HTTP") from error
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise HttpFailure(str(error) or type(error).__name__) from error
    finally:
        connection.close()
