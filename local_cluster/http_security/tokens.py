"""SHELL: the valid tokens of an HTTP port, read again when one of their files changes.

Files that cannot be used are logged, and the last usable tokens stay: a half-written file must not
lock anybody out. Messages name the file and never a token.
"""

from __future__ import annotations

import logging
import re
from typing import Final

from local_cluster.client.auth.credentials import read_secret
from local_cluster.client.auth.file_states import file_states
from local_cluster.client.auth.security import Secret, SecurityError
from local_cluster.http_security.decision import Tokens, digest
from local_cluster.http_security.settings import HttpSecurity

TOKEN_CHARACTERS_MIN: Final = 16
TOKEN_CHARACTERS_MAX: Final = 1024
ACCEPTED_TOKENS_MAX: Final = 8
_TOKEN: Final = re.compile(rf"[\x21-\x7e]{{{TOKEN_CHARACTERS_MIN},{TOKEN_CHARACTERS_MAX}}}")

log = logging.getLogger(__name__)


class ValidTokens:
    """The tokens of one port."""

    def __init__(self, security: HttpSecurity) -> None:
        """Read the tokens. Raises SecurityError that names the file."""
        self._security = security
        places = (security.token, security.accepted_tokens, security.metrics_token)
        self._files = [each.file for each in places if each is not None and each.file is not None]
        self._states = file_states(self._files)
        self._tokens = _load(security)

    def newest(self) -> Tokens:
        """Return the tokens for a request."""
        states = file_states(self._files)
        if states != self._states:
            self._states = states
            try:
                self._tokens = _load(self._security)
                log.info("the tokens of the HTTP port were loaded again")
            except SecurityError as error:
                log.error("the HTTP port keeps its tokens: %s", error)
        return self._tokens


def read_token(place: Secret) -> str:
    """Return a token. Raises SecurityError that names its place."""
    return _checked(read_secret(place), place)


def _load(security: HttpSecurity) -> Tokens:
    """Read all tokens. Raises SecurityError."""
    if security.token is None:
        return Tokens()
    full = [read_token(security.token)]
    if security.accepted_tokens is not None:
        full += accepted_tokens(security.accepted_tokens)
    metrics = [] if security.metrics_token is None else [read_token(security.metrics_token)]
    return Tokens(tuple(map(digest, full)), tuple(map(digest, metrics)))


def accepted_tokens(place: Secret) -> list[str]:
    """Return the tokens of a file with one per line; none if it is absent. Raises SecurityError."""
    if place.file is not None and file_states([place.file])[place.file] is None:
        return []
    lines = [line for line in read_secret(place).splitlines() if line.strip()]
    if len(lines) > ACCEPTED_TOKENS_MAX:
        raise SecurityError(f"{_name(place)} has more than {ACCEPTED_TOKENS_MAX} tokens")
    return [_checked(line, place) for line in lines]


def _checked(token: str, place: Secret) -> str:
    if _TOKEN.fullmatch(token):
        return token
    raise SecurityError(
        f"{_name(place)} needs a token of {TOKEN_CHARACTERS_MIN} to {TOKEN_CHARACTERS_MAX}"
        " letters, digits and signs without spaces"
    )


def _name(place: Secret) -> str:
    return place.file or f"environment variable {place.env}"
