"""The broker's side of SASL: messages in, messages out, and the user at the end. Pure.

Each mechanism is one class with `respond`, which takes the client's next message. It returns the
broker's message, and sets `username` when the client has proved who it is. It raises
AuthenticationError for anything else; the text of the error may be shown to the client.

An unknown user takes the same path as a wrong password, with a decoy (scram_credentials.py).
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from collections.abc import Callable
from typing import Final, Protocol

from local_cluster.client.auth.scram import HASHES
from local_cluster.security.authentication.scram_credentials import ScramCredential

MESSAGE_BYTES_MAX: Final = 64 * 1024
NAME_CHARS_MAX: Final = 1024

FindPassword = Callable[[str], str | None]
FindCredential = Callable[[str], ScramCredential]
"""Return the credential of a user, a decoy if there is none."""

_CLIENT_FIRST: Final = re.compile(
    r"(?P<header>n,(?:a=(?P<authzid>[^,]*))?,)"
    r"(?P<bare>n=(?P<name>[^,]+),r=(?P<nonce>[\x21-\x2b\x2d-\x7e]+))"
)
"""Neither channel binding (`p=`) nor extensions: a broker must refuse what it does not know."""
_CLIENT_FINAL: Final = re.compile(
    r"(?P<without_proof>c=(?P<channel>[^,]*),r=(?P<nonce>[^,]*)),p=(?P<proof>[^,]*)"
)


class AuthenticationError(Exception):
    """The client has not proved who it is."""

    def __init__(self, text: str, detail: str = "") -> None:
        """`detail` is for the broker's log, and not for the client."""
        super().__init__(text)
        self.detail = detail


class Exchange(Protocol):
    """One authentication by one mechanism."""

    @property
    def username(self) -> str | None:
        """The user, once the client has proved to be it."""
        ...

    @property
    def ends_ms(self) -> int | None:
        """When the proof ends, in milliseconds since 1970; None if it does not."""
        ...

    def respond(self, message: bytes) -> bytes:
        """Take the client's next message. Raises AuthenticationError."""
        ...


class PlainExchange:
    """PLAIN (RFC 4616): one message, `authzid NUL name NUL password`."""

    ends_ms = None

    def __init__(self, find_password: FindPassword) -> None:
        self._find_password = find_password
        self.username: str | None = None

    def respond(self, message: bytes) -> bytes:
        parts = message_text(message).split("\0")
        if len(parts) != 3 or not parts[1] or not parts[2]:
            raise AuthenticationError("Authentication failed: not a message of SASL PLAIN")
        authzid, name, password = parts
        if authzid not in ("", name):
            raise AuthenticationError("Authentication failed: the authorization id is another user")
        known = self._find_password(name)
        # Digests have one size, so the time shows nothing of the password.
        expected = hashlib.sha256((known or "").encode()).digest()
        is_right = hmac.compare_digest(hashlib.sha256(password.encode()).digest(), expected)
        if known is None or not is_right:
            raise AuthenticationError("Authentication failed: Invalid username or password")
        self.username = name
        return b""


class ScramExchange:
    """SCRAM (RFC 5802): two messages of the client, each with a response."""

    ends_ms = None

    def __init__(self, mechanism: str, nonce: str, find_credential: FindCredential) -> None:
        """`nonce` is random printable text without a comma, new for every authentication."""
        self._mechanism = mechanism
        self._hash = HASHES[mechanism]
        self._server_nonce = nonce
        self._find_credential = find_credential
        self._name: str | None = None
        self._credential: ScramCredential | None = None
        self._channel = ""
        self._nonce = ""
        self._first_messages = ""
        self.username: str | None = None

    def respond(self, message: bytes) -> bytes:
        text = message_text(message)
        if self._credential is None:
            return self._first(text)
        return self._final(text, self._credential)

    def _first(self, text: str) -> bytes:
        found = _CLIENT_FIRST.fullmatch(text)
        if found is None:
            raise AuthenticationError(f"not a first message of {self._mechanism}")
        name = unescape_name(found["name"])
        if found["authzid"] and unescape_name(found["authzid"]) != name:
            raise AuthenticationError("the authorization id is another user")
        self._name = name
        self._credential = self._find_credential(name)
        self._channel = base64.b64encode(found["header"].encode()).decode()
        self._nonce = found["nonce"] + self._server_nonce
        salt = base64.b64encode(self._credential.salt).decode()
        response = f"r={self._nonce},s={salt},i={self._credential.iterations}"
        self._first_messages = f"{found['bare']},{response}"
        return response.encode()

    def _final(self, text: str, credential: ScramCredential) -> bytes:
        found = _CLIENT_FINAL.fullmatch(text)
        if found is None or self.username is not None:
            raise AuthenticationError(f"not a final message of {self._mechanism}")
        # The nonce binds the message to this exchange, so that it cannot be replayed.
        if found["channel"] != self._channel or found["nonce"] != self._nonce:
            raise AuthenticationError("nonce or channel of another exchange")
        signed = f"{self._first_messages},{found['without_proof']}".encode()
        try:
            proof = base64.b64decode(found["proof"], validate=True)
        except ValueError:  # binascii.Error, or text that is not ASCII
            raise AuthenticationError("the proof is not base64") from None
        signature = hmac.digest(credential.stored_key, signed, self._hash)
        if len(proof) != len(signature):
            raise self._wrong()
        # As one number each: byte by byte this would cost more than the two HMACs.
        xor = int.from_bytes(proof, "big") ^ int.from_bytes(signature, "big")
        client_key = xor.to_bytes(len(signature), "big")
        stored_key = hashlib.new(self._hash, client_key).digest()
        if not hmac.compare_digest(stored_key, credential.stored_key):
            raise self._wrong()
        self.username = self._name
        server_signature = hmac.digest(credential.server_key, signed, self._hash)
        return b"v=" + base64.b64encode(server_signature)

    def _wrong(self) -> AuthenticationError:
        """Kafka's own text."""
        return AuthenticationError(
            "Authentication failed during authentication due to invalid credentials with SASL "
            f"mechanism {self._mechanism}"
        )


def message_text(message: bytes) -> str:
    """Return a message as text. Raises AuthenticationError."""
    if len(message) > MESSAGE_BYTES_MAX:
        raise AuthenticationError(f"a message of more than {MESSAGE_BYTES_MAX} bytes")
    try:
        return message.decode()
    except UnicodeDecodeError:
        raise AuthenticationError("a message that is not UTF-8") from None


def unescape_name(name: str) -> str:
    """Read RFC 5801's saslname. Raises AuthenticationError."""
    if len(name) > NAME_CHARS_MAX or re.search(r"=(?!2C|3D)", name):
        raise AuthenticationError("not the name of a user")
    return name.replace("=2C", ",").replace("=3D", "=")
