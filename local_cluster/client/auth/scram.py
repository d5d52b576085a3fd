"""The client side of SCRAM (RFC 5802, RFC 7677): challenge and response without the password. Pure.

    client                                     server
    n,,n=user,r=nonce              -->
                                   <--         r=nonce+its,s=salt,i=iterations
    c=biws,r=...,p=proof           -->
                                   <--         v=signature

`verify` must be called with the last message: it proves that the server knows the credential too.
Kafka takes names and passwords as UTF-8 without SASLprep, and so does this client.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from typing import Final

HASHES: Final = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
ITERATIONS_MIN: Final = 4096
"""The minimum of RFC 7677 and of Kafka. With fewer the password could be guessed."""
ITERATIONS_MAX: Final = 1_000_000
"""With more a foreign server could keep the processor of this side busy."""
_NO_CHANNEL_BINDING: Final = "n,,"


class ScramError(Exception):
    """The server's messages are not SCRAM, or do not prove that it knows the credential."""


class ScramClient:
    """One authentication."""

    def __init__(self, mechanism: str, username: str, password: str, nonce: str) -> None:
        """`nonce` is random printable text without a comma, new for every authentication."""
        self._hash = HASHES[mechanism]
        self._password = password
        self._nonce = nonce
        name = username.replace("=", "=3D").replace(",", "=2C")
        self._first_bare = f"n={name},r={nonce}"
        self._signature = b""

    def first(self) -> bytes:
        """Return the client's first message."""
        return (_NO_CHANNEL_BINDING + self._first_bare).encode()

    def final(self, server_first: bytes) -> bytes:
        """Return the client's reply to the server's first message. Raises ScramError."""
        fields = _fields(server_first)
        try:
            nonce, iterations = fields["r"], int(fields["i"])
            salt = base64.b64decode(fields["s"], validate=True)
        except (KeyError, ValueError) as error:
            raise ScramError(f"not the server's first message: {error!r}") from error
        if not nonce.startswith(self._nonce) or nonce == self._nonce:
            raise ScramError("the server's nonce does not continue ours")
        if not ITERATIONS_MIN <= iterations <= ITERATIONS_MAX:
            raise ScramError(f"{iterations} iterations are not {ITERATIONS_MIN}..{ITERATIONS_MAX}")
        salted = salted_password(self._hash, self._password, salt, iterations)
        channel = base64.b64encode(_NO_CHANNEL_BINDING.encode()).decode()
        without_proof = f"c={channel},r={nonce}"
        message = ",".join((self._first_bare, server_first.decode(), without_proof)).encode()
        client_key = self._hmac(salted, b"Client Key")
        stored_key = hashlib.new(self._hash, client_key).digest()
        client_signature = self._hmac(stored_key, message)
        proof = bytes(a ^ b for a, b in zip(client_key, client_signature, strict=True))
        self._signature = self._hmac(self._hmac(salted, b"Server Key"), message)
        return f"{without_proof},p={base64.b64encode(proof).decode()}".encode()

    def verify(self, server_final: bytes) -> None:
        """Check that the server knows the credential too. Raises ScramError."""
        fields = _fields(server_final)
        if "e" in fields:
            raise ScramError(f"refused: {fields['e']}")
        try:
            signature = base64.b64decode(fields.get("v", ""), validate=True)
        except ValueError as error:  # binascii.Error, or text that is not ASCII
            raise ScramError("the server's signature is not base64") from error
        if not self._signature or not hmac.compare_digest(signature, self._signature):
            raise ScramError("the server does not know the credential")

    def _hmac(self, key: bytes, message: bytes) -> bytes:
        return hmac.digest(key, message, self._hash)


def salted_password(hash_name: str, password: str, salt: bytes, iterations: int) -> bytes:
    """Return RFC 5802's SaltedPassword, which Kafka stores of a SCRAM credential."""
    return hashlib.pbkdf2_hmac(hash_name, password.encode(), salt, iterations)


def _fields(message: bytes) -> dict[str, str]:
    """Parse `a=...,b=...` by letter. Raises ScramError."""
    try:
        parts = message.decode().split(",")
    except UnicodeDecodeError as error:
        raise ScramError("the server's message is not UTF-8") from error
    return {part[:1]: part[2:] for part in parts if part[1:2] == "="}
