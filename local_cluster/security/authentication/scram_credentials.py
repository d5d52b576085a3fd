"""SCRAM credentials as brokers keep them (RFC 5802): keys that prove a password, not the password.

The text is Kafka's: `salt=...,stored_key=...,server_key=...,iterations=4096`, in base64.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from typing import Final, NamedTuple

from local_cluster.client.auth.scram import HASHES, ITERATIONS_MIN, salted_password
from local_cluster.client.auth.scram_transfer import generation_of
from local_cluster.controller.model.znode_json import UnreadableZnodeError, decimal_of
from local_cluster.foreign_json import INT32_MAX

ITERATIONS_DEFAULT: Final = 4096
ITERATIONS_ACCEPTED: Final = range(ITERATIONS_MIN, 16_384 + 1)
"""Of new credentials, as in Kafka: with more each login would be expensive."""
ITERATIONS_READ: Final = range(ITERATIONS_MIN, 1_000_000 + 1)
"""Of stored credentials. `heliograph up` computes as many to compare a password."""
SALT_BYTES: Final = 20


class ScramCredential(NamedTuple):
    """What a broker knows of one user and mechanism."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    def __repr__(self) -> str:
        return f"ScramCredential(iterations={self.iterations})"


def credential_of_salted(
    mechanism: str, salt: bytes, salted: bytes, iterations: int
) -> ScramCredential:
    """Return the credential of a salted password, as AlterUserScramCredentials sends it."""
    name = HASHES[mechanism]
    client_key = hmac.digest(salted, b"Client Key", name)
    return ScramCredential(
        salt,
        hashlib.new(name, client_key).digest(),
        hmac.digest(salted, b"Server Key", name),
        iterations,
    )


def credential_of(
    mechanism: str, password: str, salt: bytes, iterations: int = ITERATIONS_DEFAULT
) -> ScramCredential:
    """Return the credential of a password. It takes a few milliseconds, by design."""
    salted = salted_password(HASHES[mechanism], password, salt, iterations)
    return credential_of_salted(mechanism, salt, salted, iterations)


def decoy(mechanism: str, username: str, secret: bytes) -> ScramCredential:
    """Return a credential that no password fits, always the same for a name.

    An exchange with it looks like that of a user with another password.
    """
    name = HASHES[mechanism]
    seed = hmac.digest(secret, username.encode(), name)
    keys = hmac.digest(secret, seed, name)
    return ScramCredential(seed[:SALT_BYTES], keys, keys, ITERATIONS_DEFAULT)


def credential_generation(mechanism: str, credential: ScramCredential) -> str:
    """Return what tells a credential from the one before it; nothing of it is secret."""
    return generation_of(mechanism, credential.salt, credential.iterations)


def encode_credential(credential: ScramCredential) -> str:
    texts = (base64.b64encode(part).decode() for part in credential[:3])
    salt, stored_key, server_key = texts
    return (
        f"salt={salt},stored_key={stored_key},server_key={server_key},"
        f"iterations={credential.iterations}"
    )


def decode_credential(text: str) -> ScramCredential:
    """Read the text of `encode_credential`. Raises UnreadableZnodeError, which never repeats it."""
    fields = dict(part.partition("=")[::2] for part in text.split(","))
    try:
        if fields.keys() != {"salt", "stored_key", "server_key", "iterations"}:
            raise ValueError
        salt, stored_key, server_key = (
            base64.b64decode(fields[name], validate=True)
            for name in ("salt", "stored_key", "server_key")
        )
        iterations = decimal_of(fields["iterations"], INT32_MAX)
        if iterations not in ITERATIONS_READ:
            raise ValueError
    except (ValueError, binascii.Error):
        raise UnreadableZnodeError("not a SCRAM credential") from None
    return ScramCredential(salt, stored_key, server_key, iterations)
