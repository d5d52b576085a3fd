"""SHELL: logins by token on one listener, with the keys of its issuer (OAUTHBEARER)."""

from __future__ import annotations

from typing import Final

from local_cluster.clock import Clock
from local_cluster.security.authentication.oauth.bearer_exchange import BearerExchange
from local_cluster.security.authentication.oauth.settings import OauthSettings
from local_cluster.security.authentication.oauth.signing_keys import SigningKeys
from local_cluster.security.authentication.oauth.token_rules import (
    Bearer,
    TokenError,
    UnknownKeyError,
    verify_token,
)


class TokenAcceptor:
    """Whoever has a valid token is who it says."""

    def __init__(self, listener: str, settings: OauthSettings) -> None:
        """Load the keys of a file. Raises SecurityError that names the listener and the file."""
        self._settings = settings
        self.keys: Final = SigningKeys(listener, settings)

    def exchange(self, clock: Clock) -> BearerExchange:
        """Begin an authentication."""
        return BearerExchange(lambda token: self._verify(token, clock.now_ms()))

    def _verify(self, token: str, now_ms: int) -> Bearer:
        """Return whose token it is. Raises TokenError."""
        keys = self.keys.newest()
        if keys is None:
            raise TokenError("the broker has no keys of the issuer yet")
        try:
            return verify_token(token, keys, self._settings, now_ms)
        except UnknownKeyError:
            self.keys.ask()
            raise
