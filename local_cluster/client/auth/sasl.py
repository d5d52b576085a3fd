"""SASL on a new connection: SaslHandshake, then SaslAuthenticate (KIP-43, KIP-152).

If a broker limits sessions (`connections.max.reauth.ms`, KIP-368), it closes the connection at the
end of one, and the next connection authenticates again. A session is not extended.
"""

from __future__ import annotations

import secrets
from typing import Any, Protocol

from local_cluster.client.auth.credentials import read_secret
from local_cluster.client.auth.scram import ScramClient, ScramError
from local_cluster.client.auth.security import ClientSecurity
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, KafkaError
from local_cluster.wire.messages import Fields


class SaslConnection(Protocol):
    """A connection whose versions are negotiated."""

    async def call(self, api: ApiKey, fields: Fields, version_max: int | None) -> Any: ...


async def authenticate(connection: SaslConnection, security: ClientSecurity) -> None:
    """Authenticate as the user in `security`. Raises KafkaError, SecurityError."""
    assert security.mechanism is not None
    assert security.username is not None
    assert security.password is not None
    password = read_secret(security.password)
    answer = await connection.call(
        ApiKey.SASL_HANDSHAKE, {"mechanism": security.mechanism}, version_max=1
    )
    if answer.error_code:
        offered = ", ".join(answer.mechanisms)
        raise KafkaError(
            answer.error_code, f"{security.mechanism} is refused; the broker has {offered}"
        )
    if security.mechanism == "PLAIN":
        await _send(connection, f"\0{security.username}\0{password}".encode())
        return
    scram = ScramClient(security.mechanism, security.username, password, secrets.token_urlsafe(24))
    try:
        server_first = await _send(connection, scram.first())
        scram.verify(await _send(connection, scram.final(server_first)))
    except ScramError as error:
        raise KafkaError(
            ErrorCode.sasl_authentication_failed, f"as {security.username}: {error}"
        ) from error


async def _send(connection: SaslConnection, message: bytes) -> bytes:
    answer = await connection.call(ApiKey.SASL_AUTHENTICATE, {"auth_bytes": message}, version_max=2)
    if answer.error_code:
        raise KafkaError(answer.error_code, answer.error_message or "not authenticated")
    return bytes(answer.auth_bytes)
