"""SHELL: requests to mirror workers, with limits of bytes and time.

A worker's answer is as untrusted as its address. So redirects are not followed, and nothing is
decompressed.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Iterable
from typing import Any, Final

from aiohttp import ClientError, ClientSession, ClientTimeout, DummyCookieJar

from local_cluster.client.auth.security import SecurityError
from local_cluster.foreign_json import parse_json
from local_cluster.http_security.credentials import HttpCredentials
from local_cluster.http_security.settings import HttpClientSecurity

RESPONSE_SECONDS_MAX: Final = 2.0
"""Seconds that a worker may take to respond."""
RESPONSE_BYTES_MAX: Final = 16 * 1024 * 1024
CHUNK_BYTES: Final = 64 * 1024
REQUESTS_MAX: Final = 16
"""Requests that run at the same time."""
LOOKUP_SECONDS_MAX: Final = 2.0
"""Seconds that the addresses of one host name may take."""

log = logging.getLogger(__name__)


def open_session() -> ClientSession:
    """Return a session for `WorkerRequests`."""
    return ClientSession(
        timeout=ClientTimeout(total=RESPONSE_SECONDS_MAX),
        auto_decompress=False,
        cookie_jar=DummyCookieJar(),
    )


class WorkerRequests:
    """Asks mirror workers as one client."""

    def __init__(self, security: HttpClientSecurity) -> None:
        self._credentials = HttpCredentials(security)
        self._slots = asyncio.Semaphore(REQUESTS_MAX)

    @property
    def scheme(self) -> str:
        return self._credentials.scheme

    async def status(self, session: ClientSession, url: str) -> Any:
        """Return the status document of a worker; None without a usable response."""
        try:
            async with (
                self._slots,
                session.get(
                    f"{url}/status",
                    headers=self._credentials.headers(url),
                    ssl=self._credentials.tls_context() or True,
                    allow_redirects=False,
                ) as response,
            ):
                if response.status != 200:
                    log.debug("%s responds with status %d", url, response.status)
                    return None
                body = bytearray()
                async for chunk in response.content.iter_chunked(CHUNK_BYTES):
                    body += chunk
                    if len(body) > RESPONSE_BYTES_MAX:
                        raise ValueError(f"more than {RESPONSE_BYTES_MAX} bytes")
                return parse_json(bytes(body))
        except (OSError, ValueError, TimeoutError, ClientError, SecurityError) as error:
            log.debug("%s: %r", url, error)
            return None


async def addresses_of(names: Iterable[str]) -> dict[str, frozenset[str]]:
    """Return the addresses of host names; a name without any is left out."""
    listed = list(names)
    found = await asyncio.gather(*map(_addresses, listed))
    return {name: each for name, each in zip(listed, found, strict=True) if each}


async def _addresses(name: str) -> frozenset[str]:
    try:
        async with asyncio.timeout(LOOKUP_SECONDS_MAX):
            rows = await asyncio.get_running_loop().getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except (OSError, TimeoutError, UnicodeError) as error:
        log.debug("no address of %s: %s", name, error)
        return frozenset()
    return frozenset(str(row[4][0]) for row in rows)
