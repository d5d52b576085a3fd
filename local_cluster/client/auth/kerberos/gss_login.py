"""The messages of GSSAPI on the client's side (RFC 4752). Pure; the context is a port.

`gss_exchange` of the broker shows them. The client takes no layer for what follows, and leaves out
an authorization id: the broker knows the principal by the ticket.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from local_cluster.client.auth.kerberos.security_context import GssError, SecurityContext

TOKENS_MAX: Final = 8
"""Of the broker, until the context is complete."""
NO_LAYER: Final = 1
_CHOICE: Final = bytes((NO_LAYER, 0, 0, 0))


class GssLogin:
    """One authentication. Its methods may block, as the context may."""

    def __init__(self, context: SecurityContext) -> None:
        self._context = context
        self._tokens = 0
        self._take: Callable[[bytes], bytes] = self._token
        self.is_done = False

    def first(self) -> bytes:
        """Return the first message."""
        return self._token(b"")

    def respond(self, message: bytes) -> bytes:
        """Take the broker's next message, and return the answer. Raises GssError."""
        return self._take(message)

    def _token(self, token: bytes) -> bytes:
        self._tokens += 1
        if self._tokens > TOKENS_MAX:
            raise GssError(f"no complete context after {TOKENS_MAX} tokens")
        answer = self._context.step(token)
        if self._context.is_complete:
            self._take = self._offer
        elif not answer:
            raise GssError("neither a token nor a complete context")
        return answer

    def _offer(self, message: bytes) -> bytes:
        offered = self._context.unwrap(message)
        if len(offered) != len(_CHOICE) or not offered[0] & NO_LAYER:
            raise GssError("the broker demands a security layer")
        self._take = self._end
        return self._context.wrap(_CHOICE)

    def _end(self, message: bytes) -> bytes:
        if message or self.is_done:
            raise GssError("a message after the last one")
        self.is_done = True
        return b""
