"""SHELL: what the users of one listener prove themselves by.

A listener's own users (settings) come first, then those in ZooKeeper. At each login it is checked
whether the file with the password of an own user has changed, so a new one needs no restart.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import secrets
from itertools import islice
from typing import TYPE_CHECKING, Final, Protocol

from local_cluster.client.auth.credentials import read_secret
from local_cluster.client.auth.file_states import FileState, file_states
from local_cluster.client.auth.scram import HASHES
from local_cluster.client.auth.security import Secret, SecurityError
from local_cluster.clock import Clock
from local_cluster.security.authentication.exchanges import Exchange, PlainExchange, ScramExchange
from local_cluster.security.authentication.listener_security import (
    GSSAPI,
    OAUTHBEARER,
    SaslSettings,
)
from local_cluster.security.authentication.scram_credentials import (
    SALT_BYTES,
    ScramCredential,
    credential_of,
    decoy,
)
from local_cluster.server.secure.gss_acceptor import GssAcceptor

if TYPE_CHECKING:
    from local_cluster.server.secure.token_acceptor import TokenAcceptor

_PROCESS_SECRET: Final = secrets.token_bytes(32)
"""Decoys of one process stay the same, so that asking twice does not show that a user is absent."""

log = logging.getLogger(__name__)


class ScramUsers(Protocol):
    """The users in ZooKeeper."""

    def find(self, mechanism: str, username: str) -> ScramCredential | None: ...


class Credentials:
    """The users of one listener."""

    def __init__(
        self,
        sasl: SaslSettings,
        shared: ScramUsers,
        clock: Clock,
        tokens: TokenAcceptor | None = None,
        kerberos: GssAcceptor | None = None,
    ) -> None:
        """`tokens` is for OAUTHBEARER, `kerberos` for GSSAPI."""
        self._own = sasl.users
        self._shared = shared
        self._clock = clock
        self._tokens = tokens
        self._kerberos = kerberos
        self._derived: dict[tuple[str, str], tuple[FileState | bytes, ScramCredential]] = {}
        """By mechanism and own user: what the password was read from, and what was derived of it.
        The password itself is not kept."""
        for mechanism in HASHES.keys() & set(sasl.mechanisms):
            for username in self._own:
                # Otherwise the slow first login would show that the user is in the settings.
                self._credential(mechanism, username)

    def exchange(self, mechanism: str) -> Exchange:
        """Begin an authentication."""
        if mechanism == "PLAIN":
            return PlainExchange(self._password)
        if mechanism == OAUTHBEARER:
            assert self._tokens is not None
            return self._tokens.exchange(self._clock)
        if mechanism == GSSAPI:
            assert self._kerberos is not None
            return self._kerberos.exchange()
        return ScramExchange(
            mechanism, secrets.token_urlsafe(24), lambda name: self._credential(mechanism, name)
        )

    def _password(self, username: str) -> str | None:
        secret = self._own.get(username)
        if secret is None:
            # A file is read for an unknown user too, so that the time tells nothing.
            for each in islice(self._own.values(), 1):
                with contextlib.suppress(SecurityError):
                    read_secret(each)
            return None
        try:
            return read_secret(secret)
        except SecurityError as error:
            log.error("nobody can log in as %r: %s", username, error)
            return None

    def _credential(self, mechanism: str, username: str) -> ScramCredential:
        secret = self._own.get(username)
        if secret is None:
            # The same is asked for an unknown user, so that the time tells nothing.
            for each in islice(self._own.values(), 1):
                _state(each)
        else:
            state = _state(secret)
            known = self._derived.get((mechanism, username))
            if known is not None and known[0] == state:
                return known[1]
            # A file that changes in between has another state at the next login.
            password = self._password(username)
            if password is not None:
                derived = credential_of(mechanism, password, secrets.token_bytes(SALT_BYTES))
                if state is not None:
                    self._derived[mechanism, username] = (state, derived)
                return derived
        found = self._shared.find(mechanism, username)
        return decoy(mechanism, username, _PROCESS_SECRET) if found is None else found


def _state(secret: Secret) -> FileState | bytes | None:
    """Return what is another one after a change; None if there is no secret."""
    if secret.file is not None:
        return file_states((secret.file,))[secret.file]
    with contextlib.suppress(SecurityError):
        return hashlib.sha256(_PROCESS_SECRET + read_secret(secret).encode()).digest()
    return None
