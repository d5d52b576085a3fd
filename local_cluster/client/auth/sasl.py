"""SASL on a connection: SaslHandshake, then SaslAuthenticate (KIP-43, KIP-152, KIP-368).

The proof is read first, because reading a token may take a while, and the connection serves other
requests meanwhile. A broker that limits sessions says for how long one lasts.
"""

from __future__ import annotations

import asyncio
import json
import secrets
from typing import Any, Final, Protocol

from local_cluster.client.auth.credentials import read_secret
from local_cluster.client.auth.kerberos.security_context import GssError
from local_cluster.client.auth.scram import ScramClient, ScramError
from local_cluster.client.auth.secret import ProofUnavailableError, SecurityError
from local_cluster.client.auth.security import ClientSecurity, KerberosLogin, OauthLogin
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, KafkaError
from local_cluster.wire.messages import Fields, get

_DISMISSAL: Final = b"\x01"
"""A client's answer to the broker's refusal of its token; the error follows (RFC 7628)."""
_STATUS_CHARS_MAX: Final = 80


class SaslConnection(Protocol):
    """A connection whose versions are negotiated."""

    async def call(self, api: ApiKey, fields: Fields, version_max: int | None) -> Any: ...


async def read_proof(security: ClientSecurity, host: str, wait_seconds: float) -> str:
    """Return the password, or a valid token, for which this waits so long.

    Tickets stay where the library has them: the proof is empty then. Raises SecurityError, and
    ProofUnavailableError.
    """
    if security.kerberos is not None:
        return await _fetch_ticket(security.kerberos, host, wait_seconds)
    if security.oauth is not None:
        from local_cluster.client.auth.oauth.token_source import token_source  # few need it

        return (await token_source(security.oauth).token_soon(wait_seconds)).value
    assert security.password is not None
    return read_secret(security.password)


async def authenticate(
    connection: SaslConnection, security: ClientSecurity, proof: str, host: str = ""
) -> int:
    """Authenticate by what `read_proof` returned; return the lifetime of the session.

    It is in milliseconds, 0 without an end. Raises KafkaError.
    """
    mechanism = security.mechanism
    assert mechanism is not None
    answer = await connection.call(ApiKey.SASL_HANDSHAKE, {"mechanism": mechanism}, version_max=1)
    if answer.error_code:
        offered = ", ".join(answer.mechanisms)
        raise KafkaError(answer.error_code, f"{mechanism} is refused; the broker has {offered}")
    if security.oauth is not None:
        return await _by_token(connection, security.oauth, proof)
    if security.kerberos is not None:
        return await _by_ticket(connection, security.kerberos, host)
    assert security.username is not None
    if mechanism == "PLAIN":
        answer = await _send(connection, f"\0{security.username}\0{proof}".encode())
        return _lifetime_ms(answer)
    scram = ScramClient(mechanism, security.username, proof, secrets.token_urlsafe(24))
    try:
        first = await _send(connection, scram.first())
        last = await _send(connection, scram.final(bytes(first.auth_bytes)))
        scram.verify(bytes(last.auth_bytes))
    except ScramError as error:
        raise KafkaError(
            ErrorCode.sasl_authentication_failed, f"as {security.username}: {error}"
        ) from error
    return _lifetime_ms(last)


async def _by_token(connection: SaslConnection, login: OauthLogin, token: str) -> int:
    pairs = [("auth", f"Bearer {token}"), *login.extensions]
    message = "n,,\x01" + "".join(f"{name}={value}\x01" for name, value in pairs) + "\x01"
    answer = await _send(connection, message.encode())
    if not answer.auth_bytes:
        return _lifetime_ms(answer)
    status = _status(bytes(answer.auth_bytes))
    await _send(connection, _DISMISSAL)
    raise KafkaError(
        ErrorCode.sasl_authentication_failed, f"the broker refuses the token: {status}"
    )


async def _fetch_ticket(login: KerberosLogin, host: str, wait_seconds: float) -> str:
    from local_cluster.client.auth.kerberos import ticket_login  # few need it

    service = f"{login.service_name}@{host}"
    why = f"no ticket as {login.principal} by {login.keytab_file} for {service}"
    try:
        async with asyncio.timeout(wait_seconds):
            await ticket_login.run_beside(ticket_login.fetch_ticket, login, host)
    except TimeoutError as error:
        raise ProofUnavailableError(f"{why} within {wait_seconds:g} s") from error
    except GssError as error:
        if error.is_without_centre:
            raise ProofUnavailableError(f"{why}: {error}") from error
        raise SecurityError(f"{why}: {error}") from error
    return ""


async def _by_ticket(connection: SaslConnection, login: KerberosLogin, host: str) -> int:
    from local_cluster.client.auth.kerberos import ticket_login

    try:
        begun = await ticket_login.run_beside(ticket_login.begin_login, login, host)
        message = await ticket_login.run_beside(begun.first)
        while True:
            answer = await _send(connection, message)
            challenge = bytes(answer.auth_bytes)
            message = await ticket_login.run_beside(begun.respond, challenge)
            if begun.is_done:
                return _lifetime_ms(answer)
    except GssError as error:
        raise KafkaError(
            ErrorCode.sasl_authentication_failed, f"as {login.principal}: {error}"
        ) from error


def _status(refusal: bytes) -> str:
    try:
        return ascii(json.loads(refusal)["status"])[:_STATUS_CHARS_MAX]
    except (ValueError, TypeError, KeyError, RecursionError):
        return "no status"


async def _send(connection: SaslConnection, message: bytes) -> Any:
    answer = await connection.call(ApiKey.SASL_AUTHENTICATE, {"auth_bytes": message}, version_max=2)
    if answer.error_code:
        raise KafkaError(answer.error_code, answer.error_message or "not authenticated")
    return answer


def _lifetime_ms(answer: Any) -> int:
    lifetime = get(answer, "session_lifetime", None)
    return 0 if lifetime is None else int(lifetime.total_seconds() * 1_000)
