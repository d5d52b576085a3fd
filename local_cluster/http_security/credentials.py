"""SHELL: what a client sends to an HTTP port: its token, and the TLS context of the connection.

Every request to a daemon takes both from here. Files are read again when they change.
"""

from __future__ import annotations

import ssl
from typing import Final
from urllib.parse import urlsplit

from local_cluster.client.auth.credentials import tls_context
from local_cluster.client.auth.file_states import FileStates, file_states
from local_cluster.client.auth.security import SecurityError
from local_cluster.http_security.addresses import is_loopback
from local_cluster.http_security.settings import HttpClientSecurity
from local_cluster.http_security.tokens import read_token

HEADERS: Final = {"Accept-Encoding": "identity"}
"""A compressed answer could be larger in memory than its limit of bytes."""


class HttpCredentials:
    """The credentials of one client."""

    def __init__(self, security: HttpClientSecurity) -> None:
        self._security = security
        self._states: FileStates | None = None
        self._context: ssl.SSLContext | None = None

    @property
    def scheme(self) -> str:
        """The scheme of URLs: http or https."""
        return self._security.scheme

    def headers(self, url: str) -> dict[str, str]:
        """Return the headers of a request to this URL.

        Raises SecurityError if the token cannot be read, or would leave this host in plain text.
        """
        place = self._security.token
        if place is None:
            return HEADERS
        parts = urlsplit(url)
        is_safe = parts.scheme == "https" or is_loopback(parts.hostname or "")
        if not is_safe and not self._security.allow_insecure:
            raise SecurityError(f"the token of HTTP is not sent to {url} without TLS")
        return {**HEADERS, "Authorization": f"Bearer {read_token(place)}"}

    def tls_context(self) -> ssl.SSLContext | None:
        """Return the context of a new connection; None without TLS. Raises SecurityError."""
        tls = self._security.tls
        password = None if tls.key_password is None else tls.key_password.file
        names = (tls.ca_file, tls.certificate_file, tls.key_file, password)
        states = file_states(name for name in names if name is not None)
        if states != self._states:
            self._context = tls_context(tls)
            self._states = states
        return self._context
