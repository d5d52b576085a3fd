"""The request to a token endpoint, its answer, and when a token ends (RFC 6749, RFC 7523). Pure.

No text of an error repeats what the endpoint said, except for its error code: the rest may hold a
token or a secret.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from local_cluster.client.auth.oauth.settings import OauthLogin
from local_cluster.client.auth.secret import ProofUnavailableError, SecurityError

ANSWER_BYTES_MAX: Final = 256 * 1024
"""Of an answer; a token that is longer fits into no request of a login."""
SECONDS_MAX: Final = 2**40
"""Of times in a token; later ones do not fit into milliseconds of 64 bits."""
_TOKEN: Final = re.compile(r"[-_~+/.a-zA-Z0-9]+=*")
"""RFC 6750, section 2.1."""
_ERROR_CODE: Final = re.compile(r"[a-z_]{1,40}")
_UNRESERVED: Final = frozenset(
    b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._*"
)
_PASSING: Final = frozenset({408, 425, 429})
_JWT_BEARER: Final = "urn:ietf:params:oauth:grant-type:jwt-bearer"


class TokenRefusedError(SecurityError):
    """There is no token: the settings, the secret or the file are wrong."""


class TokenUnavailableError(ProofUnavailableError):
    """There is no token now: the endpoint does not answer, or says that it cannot."""


@dataclass(frozen=True, slots=True, repr=False)
class Token:
    """A token, and when it is valid, in milliseconds since 1970."""

    value: str
    starts_ms: int
    ends_ms: int | None
    """None if nobody says."""

    def is_valid(self, now_ms: int) -> bool:
        return self.ends_ms is None or now_ms < self.ends_ms


@dataclass(frozen=True, slots=True, repr=False)
class TokenRequest:
    """A POST to a token endpoint."""

    headers: Mapping[str, str]
    body: str


def token_request(login: OauthLogin, secret: str) -> TokenRequest:
    """Return the request for a token. `secret` is the client's secret or the assertion."""
    headers = {
        "Accept": "application/json",
        "Accept-Encoding": "identity",
        "Content-Type": "application/x-www-form-urlencoded",
    }
    if login.assertion_file is not None:
        fields = {"grant_type": _JWT_BEARER, "assertion": secret}
    else:
        fields = {"grant_type": "client_credentials"}
        pair = (login.client_id or "", secret)
        if login.header_urlencode:
            pair = (_form_encoded(pair[0]), _form_encoded(pair[1]))
        encoded = base64.b64encode(":".join(pair).encode()).decode()
        headers["Authorization"] = f"Basic {encoded}"
    if login.scope is not None:
        fields["scope"] = login.scope
    body = "&".join(f"{name}={_form_encoded(value)}" for name, value in fields.items())
    return TokenRequest(headers, body)


def parse_answer(login: OauthLogin, status: int, content: bytes, now_ms: int) -> Token:
    """Return the token of an answer. Raises TokenRefusedError, TokenUnavailableError."""
    if len(content) > ANSWER_BYTES_MAX:
        raise TokenRefusedError(f"{login.source} answers more than {ANSWER_BYTES_MAX} bytes")
    if status in _PASSING or status >= 500:
        raise TokenUnavailableError(f"{login.source} answers with HTTP status {status}")
    document = _json_object(content)
    if status != 200:
        raise TokenRefusedError(f"{login.source} {_refusal(login, status, document)}")
    if document is None or not isinstance(value := document.get("access_token"), str):
        raise TokenRefusedError(f"{login.source} answers without an `access_token`")
    kind = document.get("token_type", "bearer")
    if not isinstance(kind, str) or kind.lower() != "bearer":
        raise TokenRefusedError(f"{login.source} gives no bearer token")
    ends_ms = _end_of(value, login.source)
    if "expires_in" in document:
        lifetime_s = _seconds(document["expires_in"])
        if lifetime_s is None:
            raise TokenRefusedError(f"{login.source} answers with an `expires_in` that is no time")
        by_answer_ms = now_ms + int(lifetime_s * 1_000)
        ends_ms = by_answer_ms if ends_ms is None else min(ends_ms, by_answer_ms)
    if ends_ms is None:
        raise TokenRefusedError(f"{login.source} does not say when its token expires")
    return _checked(Token(value, now_ms, ends_ms), login.source, now_ms)


def parse_token_file(login: OauthLogin, text: str, now_ms: int) -> Token:
    """Return the token in a file. Raises TokenRefusedError that names the file."""
    value = text.strip()
    if not value:
        raise TokenRefusedError(f"{login.source}: the file is empty")
    return _checked(Token(value, now_ms, _end_of(value, login.source)), login.source, now_ms)


def _form_encoded(text: str) -> str:
    """Return a value as application/x-www-form-urlencoded."""
    return "".join(
        chr(byte) if byte in _UNRESERVED else "+" if byte == 0x20 else f"%{byte:02X}"
        for byte in text.encode()
    )


def _checked(token: Token, source: str, now_ms: int) -> Token:
    if not _TOKEN.fullmatch(token.value):
        raise TokenRefusedError(f"{source}: it has characters that no bearer token has")
    if not token.is_valid(now_ms):
        raise TokenRefusedError(f"{source}: it has expired, by the clock of this host")
    return token


def _refusal(login: OauthLogin, status: int, document: Mapping[str, Any] | None) -> str:
    if 300 <= status < 400:
        return f"redirects elsewhere (HTTP status {status}), which no secret follows"
    error = None if document is None else document.get("error")
    code = error if isinstance(error, str) and _ERROR_CODE.fullmatch(error) else None
    why = f"{code}, HTTP status {status}" if code is not None else f"HTTP status {status}"
    if code == "invalid_scope":
        return f"refuses scope {login.scope or 'of its default'} ({why})"
    if code == "invalid_client" or (code is None and status in (401, 403)):
        what = "its assertion" if login.assertion_file is not None else "its secret"
        return f"refuses {login.who} or {what} ({why})"
    return f"gives {login.who} no token ({why})"


def _json_object(content: bytes) -> Mapping[str, Any] | None:
    try:
        document = json.loads(content)
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None


def _end_of(value: str, source: str) -> int | None:
    """Return when a JWT ends, in milliseconds since 1970; None for a token of another kind.

    Its signature is for the brokers to check. Raises TokenRefusedError.
    """
    parts = value.split(".")
    if len(parts) != 3:
        return None
    try:
        claims = _json_object(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (binascii.Error, ValueError):
        return None
    if claims is None or "exp" not in claims:
        return None
    ends_s = _seconds(claims["exp"])
    if ends_s is None:
        raise TokenRefusedError(f"{source}: its claim `exp` is no time")
    return int(ends_s * 1_000)


def _seconds(value: object) -> float | None:
    """Return a time in seconds; some endpoints write it as text."""
    if isinstance(value, str) and re.fullmatch(r"[0-9]{1,12}", value):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if math.isfinite(value) and 0 <= value <= SECONDS_MAX else None
