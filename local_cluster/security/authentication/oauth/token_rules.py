"""Whether a token is valid, and whose it is (RFC 7519, KIP-768's BrokerJwtValidator). Pure.

A token is a JWT with a signature of one of the issuer's public keys. Keys or addresses that the
token itself brings (`jwk`, `jku`, `x5u`) never count. `none` and symmetric algorithms are refused:
a public key must not become a password.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from joserfc import jwt
from joserfc.errors import InvalidKeyIdError, JoseError
from joserfc.jwk import KeySet

from local_cluster.security.authentication.oauth.settings import OauthSettings

ALGORITHMS: Final = (
    *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    *("ES256", "ES384", "ES512", "Ed25519", "EdDSA"),
)
NAME_CHARS_MAX: Final = 1_024
SECONDS_MAX: Final = 2**40
"""Of times in a token; later ones do not fit into milliseconds of 64 bits."""


class TokenError(ValueError):
    """The token is not valid. The text may be shown to the client, and holds nothing of it."""


class UnknownKeyError(TokenError):
    """The key set has no key of this token's."""


class Bearer(NamedTuple):
    """What a valid token says."""

    username: str
    ends_ms: int
    """End of the token, in milliseconds since 1970."""


def verify_token(token: str, keys: KeySet, settings: OauthSettings, now_ms: int) -> Bearer:
    """Return whose token it is. Raises TokenError."""
    try:
        claims = jwt.decode(token, keys, algorithms=ALGORITHMS).claims
    except InvalidKeyIdError:
        raise UnknownKeyError("no key of the issuer fits the token") from None
    except (JoseError, ValueError, TypeError, KeyError, RecursionError, OverflowError):
        # Text of libraries may hold parts of the token.
        raise TokenError("the token has no valid signature of the issuer") from None
    ends_s = _seconds(claims, "exp")
    _seconds(claims, "iat")
    skew_s = settings.clock_skew_seconds
    if ends_s + skew_s <= now_ms / 1_000:
        raise TokenError("the token has expired")
    if "nbf" in claims and _seconds(claims, "nbf") - skew_s > now_ms / 1_000:
        raise TokenError("the token is not valid yet")
    if settings.expected_issuer is not None and claims.get("iss") != settings.expected_issuer:
        raise TokenError("the token is of another issuer")
    if settings.expected_audiences and not _audiences(claims) & set(settings.expected_audiences):
        raise TokenError("the token is for another audience")
    name = claims.get(settings.principal_claim)
    if not isinstance(name, str) or not name.strip() or len(name) > NAME_CHARS_MAX:
        raise TokenError(f"the token has no name in its claim {settings.principal_claim}")
    return Bearer(name, int(ends_s * 1_000))


def _seconds(claims: Mapping[str, Any], name: str) -> float:
    """Return a time in seconds since 1970. Raises TokenError."""
    value: Any = claims.get(name)
    # Comparisons are false for NaN.
    if type(value) in (int, float) and 0 <= value < SECONDS_MAX:
        return float(value)
    raise TokenError(f"the token has no time in its claim {name}")


def _audiences(claims: Mapping[str, Any]) -> set[str]:
    found = claims.get("aud")
    if isinstance(found, str):
        return {found}
    if isinstance(found, list):
        return {each for each in found if isinstance(each, str)}
    return set()
