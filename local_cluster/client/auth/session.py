"""The SASL session of a connection: it begins, and is renewed before it ends (KIP-368).

A session by a token ends with the token; another one after the broker's
`connections.max.reauth.ms`. A token is requested while the connection serves other requests.
During the exchange itself requests wait, because a broker takes none then. If a session cannot be
renewed, the connection closes, and its requests fail as after any other loss.
"""

from __future__ import annotations

import asyncio
import logging
import random
from typing import Any, Final, Protocol

from local_cluster.client.auth.sasl import authenticate, read_proof
from local_cluster.client.auth.secret import ProofUnavailableError, SecurityError
from local_cluster.client.auth.security import ClientSecurity
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, KafkaError, PeerError
from local_cluster.wire.messages import Fields

SHARE_MIN: Final = 0.85
SHARE_MAX: Final = 0.95
"""Of a session's lifetime, after which it is renewed, as Java's clients do."""
INTERVAL_MS_MIN: Final = 1_100
"""Brokers refuse an authentication within a second of the last one."""
RETRY_SECONDS_MIN: Final = 1.0
RETRY_SECONDS_MAX: Final = 60.0
"""Between two attempts to get a token or a password for an open connection."""

log = logging.getLogger(__name__)


class NoProofError(KafkaError):
    """The broker answers, but the endpoint of tokens or the key distribution centre does not."""


class SessionConnection(Protocol):
    """A connection whose versions are negotiated."""

    @property
    def peer(self) -> str: ...

    async def call(self, api: ApiKey, fields: Fields, version_max: int | None) -> Any: ...

    def hold(self) -> None: ...

    def release(self) -> None: ...

    def abort(self, reason: str) -> None: ...


class Session:
    """The session of one connection."""

    def __init__(self, security: ClientSecurity, timeout_ms: int, host: str = "") -> None:
        """`timeout_ms` bounds each exchange with the broker, and each wait for a proof.

        `host` is the broker's; tickets are for it.
        """
        self._security = security
        self._host = host
        self._timeout_s = timeout_ms / 1_000
        self.lifetime_ms = 0
        """Of the last authentication; 0 without an end."""

    async def begin(self, connection: SessionConnection) -> None:
        """Authenticate. Raises KafkaError, SecurityError, TimeoutError."""
        await self._exchange(connection, await self._proof())

    async def keep(self, connection: SessionConnection) -> None:
        """Authenticate again whenever the session is about to end. Closes if that fails."""
        while (delay_ms := reauthentication_ms(self.lifetime_ms, _share())) is not None:
            await asyncio.sleep(delay_ms / 1_000)
            proof = await self._patient_proof(connection.peer)
            connection.hold()
            try:
                await self._exchange(connection, proof)
            except (KafkaError, PeerError, TimeoutError) as error:
                why = str(error) or "no answer"
                log.warning("the session with %s is not renewed: %s", connection.peer, why)
                connection.abort(f"not authenticated again: {why}")
                return
            connection.release()

    async def _proof(self) -> str:
        try:
            return await read_proof(self._security, self._host, self._timeout_s)
        except ProofUnavailableError as error:
            raise NoProofError(ErrorCode.network_exception, str(error)) from error

    async def _patient_proof(self, peer: str) -> str:
        """Return the proof as soon as there is one. Meanwhile the broker may end the session."""
        pause_s = RETRY_SECONDS_MIN
        while True:
            try:
                return await self._proof()
            except (KafkaError, SecurityError) as error:
                log.warning("the session with %s cannot be renewed yet: %s", peer, error)
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, RETRY_SECONDS_MAX)

    async def _exchange(self, connection: SessionConnection, proof: str) -> None:
        try:
            async with asyncio.timeout(self._timeout_s):
                self.lifetime_ms = await authenticate(connection, self._security, proof, self._host)
        except KafkaError as error:
            is_refused = error.code == ErrorCode.sasl_authentication_failed
            if self._security.oauth is not None and is_refused:
                from local_cluster.client.auth.oauth.token_source import token_source

                token_source(self._security.oauth).drop(proof)
            raise


def reauthentication_ms(lifetime_ms: int, share: float) -> int | None:
    """Return after which time to renew a session; None without an end, or if it is too short."""
    if lifetime_ms <= INTERVAL_MS_MIN:
        return None
    return max(int(lifetime_ms * share), INTERVAL_MS_MIN)


def _share() -> float:
    return random.uniform(SHARE_MIN, SHARE_MAX)
