"""The messages of GSSAPI on the broker's side (RFC 4752). Pure; the context is a port.

client                                     broker
token                       -->
                            <--            token; again until the context is complete
empty                       -->
                            <--            signed: the layers that the broker offers
signed: the chosen layer    -->
                            <--            empty: it is who the ticket says

As Kafka does, the broker offers no layer for what follows: privacy is for TLS. The authorization id
of the last message decides nothing, since clients put different things there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from local_cluster.client.auth.kerberos.security_context import GssError, SecurityContext
from local_cluster.security.authentication.exchanges import MESSAGE_BYTES_MAX, AuthenticationError
from local_cluster.security.authentication.kerberos.short_names import NoShortNameError, ShortNames

TOKENS_MAX: Final = 8
"""Of a client, until the context is complete; Kerberos needs one or two."""
NO_LAYER: Final = 1
_OFFER: Final = bytes((NO_LAYER, 0, 0, 0))
"""The layers, and the longest message of a layer: there is none."""


class GssExchange:
    """One authentication by a ticket. `respond` may block, as the context may."""

    ends_ms = None

    def __init__(self, context: SecurityContext, names: ShortNames) -> None:
        self._context = context
        self._names = names
        self._take: Callable[[bytes], bytes] = self._token
        self._tokens = 0
        self.username: str | None = None

    def respond(self, message: bytes) -> bytes:
        """Take the client's next message. Raises AuthenticationError."""
        if len(message) > MESSAGE_BYTES_MAX:
            raise AuthenticationError(f"a message of more than {MESSAGE_BYTES_MAX} bytes")
        if self.username is not None:
            raise AuthenticationError("Authentication failed: a message after the last one")
        try:
            return self._take(message)
        except GssError as error:
            # Kafka's own text; the library's is for the log.
            raise AuthenticationError(
                "Authentication failed during authentication due to invalid credentials with SASL "
                "mechanism GSSAPI",
                str(error),
            ) from error

    def _token(self, message: bytes) -> bytes:
        self._tokens += 1
        if not message or self._tokens > TOKENS_MAX:
            raise AuthenticationError("Authentication failed: expected a token of GSSAPI")
        answer = self._context.step(message)
        if self._context.is_complete:
            self._take = self._acknowledgement
            return answer or self._offer()
        if not answer:
            raise GssError("neither a token nor a complete context")
        return answer

    def _acknowledgement(self, message: bytes) -> bytes:
        if message:
            raise AuthenticationError("Authentication failed: expected an empty message")
        return self._offer()

    def _offer(self) -> bytes:
        self._take = self._choice
        return self._context.wrap(_OFFER)

    def _choice(self, message: bytes) -> bytes:
        chosen = self._context.unwrap(message)
        if len(chosen) < len(_OFFER) or chosen[0] != NO_LAYER:
            raise AuthenticationError(
                "Authentication failed: a security layer that the broker does not offer"
            )
        principal = self._context.peer
        # The library has a backslash before a special character of a name.
        if "\\" in principal or not principal.isprintable():
            raise AuthenticationError("Authentication failed: a special character in the principal")
        try:
            self.username = self._names.name_of(principal)
        except NoShortNameError as error:
            raise AuthenticationError(f"Authentication failed: {error}") from error
        return b""
