"""The messages of OAUTHBEARER (RFC 7628, KIP-255). Pure.

client                                         broker
n,a=name,^Aauth=Bearer TOKEN^A^A   -->
                                   <--         empty: it is who the token says
                                   <--         {"status":"invalid_token"}
^A                                 -->
                                   <--         the error
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from local_cluster.security.authentication.exchanges import (
    AuthenticationError,
    message_text,
    unescape_name,
)
from local_cluster.security.authentication.oauth.token_rules import Bearer, TokenError

INVALID_TOKEN: Final = b'{"status":"invalid_token"}'
"""As Kafka's OAuthBearerValidatorCallbackHandler answers."""
_DISMISSAL: Final = b"\x01"
_FIRST: Final = re.compile(
    r"n,(?:a=(?P<authzid>[^,\0]+))?,\x01(?P<pairs>(?:[A-Za-z]+=[\x21-\x7e \t\r\n]+\x01)*)\x01"
)
_BEARER: Final = re.compile(r"bearer +(?P<token>[-_~+/.a-zA-Z0-9]+=*)", re.IGNORECASE)


class BearerExchange:
    """One authentication by a token."""

    def __init__(self, verify: Callable[[str], Bearer]) -> None:
        """`verify` raises TokenError."""
        self._verify = verify
        self._refusal: str | None = None
        self.username: str | None = None
        self.ends_ms: int | None = None

    def respond(self, message: bytes) -> bytes:
        """Take the client's next message. Raises AuthenticationError."""
        if self._refusal is not None or self.username is not None:
            is_dismissal = message == _DISMISSAL and self._refusal is not None
            why = self._refusal if is_dismissal else "not a message of OAUTHBEARER"
            raise AuthenticationError(f"Authentication failed: {why}")
        found = _FIRST.fullmatch(message_text(message))
        pairs = [] if found is None else found["pairs"].split("\x01")[:-1]
        values = [pair.partition("=")[2] for pair in pairs if pair.startswith("auth=")]
        bearer = _BEARER.fullmatch(values[0]) if len(values) == 1 else None
        if found is None or bearer is None:
            raise AuthenticationError("Authentication failed: not a first message of OAUTHBEARER")
        try:
            token = self._verify(bearer["token"])
        except TokenError as error:
            self._refusal = str(error)
            return INVALID_TOKEN
        if found["authzid"] and unescape_name(found["authzid"]) != token.username:
            raise AuthenticationError("Authentication failed: the authorization id is another user")
        self.username, self.ends_ms = token
        return b""
