"""Whether an HTTP request is allowed. Pure."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

METRICS_PATH: Final = "/metrics"
OPEN_PATHS: Final = frozenset({"/livez", "/healthz", "/readyz"})
"""What probes ask, without a token. Details (`?verbose`) need one."""
CHALLENGE: Final = 'Bearer realm="heliograph", Basic realm="heliograph"'
"""The second scheme makes browsers ask for the token, as a password."""
READING: Final = frozenset({"GET", "HEAD"})


class Tokens(NamedTuple):
    """Digests of the valid tokens, so that comparing takes the same time for every length."""

    full: tuple[bytes, ...] = ()
    """They allow everything."""
    metrics: tuple[bytes, ...] = ()
    """They allow the metrics alone."""


class Request(NamedTuple):
    """What decides about a request."""

    method: str
    path: str
    query: Mapping[str, str]
    authorization: str | None
    """The header of this name."""
    has_certificate: bool
    """Whether the client has a certificate that an authority of ours signed."""


class Refusal(NamedTuple):
    """Why a request is refused."""

    status: int
    kind: str
    message: str


NO_TOKEN: Final = Refusal(
    401, "unauthenticated", "this address needs a token: Authorization: Bearer TOKEN"
)
WRONG_TOKEN: Final = Refusal(401, "unauthenticated", "the token is not valid here")
ONLY_METRICS: Final = Refusal(403, "forbidden", f"this token allows only GET {METRICS_PATH}")


def digest(token: str) -> bytes:
    """Return what is compared. aiohttp reads bytes of a header that are not UTF-8 as surrogates."""
    return hashlib.sha256(token.encode(errors="surrogateescape")).digest()


def decide(request: Request, tokens: Tokens) -> Refusal | None:
    """Return why a request is refused; None if it is allowed."""
    is_open = request.path in OPEN_PATHS and "verbose" not in request.query
    if request.has_certificate or (request.method in READING and is_open):
        return None
    if request.authorization is None:
        return NO_TOKEN
    presented = _token(request.authorization, request.method)
    if presented is None:
        return WRONG_TOKEN
    found = digest(presented)
    # Both are always compared, with every token, in constant time.
    is_full, is_metrics = _is_among(found, tokens.full), _is_among(found, tokens.metrics)
    if is_full or (is_metrics and request.method in READING and request.path == METRICS_PATH):
        return None
    return ONLY_METRICS if is_metrics else WRONG_TOKEN


def _is_among(found: bytes, known: Collection[bytes]) -> bool:
    is_known = False
    for each in known:
        is_known |= hmac.compare_digest(found, each)
    return is_known


def _token(authorization: str, method: str) -> str | None:
    """Return the token of the header; None if it has none that counts.

    Browsers add Basic authentication to requests that other sites start, so it may only read.
    """
    scheme, _, value = authorization.partition(" ")
    if scheme.lower() == "bearer":
        return value.strip()
    if scheme.lower() != "basic" or method not in READING:
        return None
    try:
        return base64.b64decode(value.strip(), validate=True).decode().partition(":")[2]
    except ValueError:  # binascii.Error, or text that is not ASCII or UTF-8
        return None
