"""Which tokens are valid, and whose they are."""

from __future__ import annotations

import base64
import hmac
import json
import time
from typing import Any

import pytest
from joserfc.jwk import ECKey, KeySet, OctKey

from local_cluster.security.authentication.oauth.settings import OauthSettings
from local_cluster.security.authentication.oauth.token_rules import (
    TokenError,
    UnknownKeyError,
    verify_token,
)
from tests.support.issuer import Issuer

SETTINGS = OauthSettings(keys_file="keys", expected_issuer="me", expected_audiences=("a", "b"))
ANY = OauthSettings(keys_file="keys")


@pytest.fixture(scope="module")
def issuer() -> Issuer:
    return Issuer()


def verified(
    token: str, issuer: Issuer, settings: OauthSettings = ANY, *, now_ms: int | None = None
) -> tuple[str, int]:
    now = round(time.time() * 1_000) if now_ms is None else now_ms
    return verify_token(token, issuer.key_set(), settings, now)


def test_a_token_names_its_user_and_its_end(issuer: Issuer) -> None:
    token = issuer.token("alice", exp=4_000_000_000, iss="me", aud=["x", "b"])
    assert verified(token, issuer, SETTINGS) == ("alice", 4_000_000_000_000)
    assert verified(issuer.token("alice", iss="me", aud="a"), issuer, SETTINGS)[0] == "alice"
    other = OauthSettings(keys_file="keys", principal_claim="client_id")
    assert verified(issuer.token(None, client_id="c"), issuer, other)[0] == "c"


def test_rsa_keys_count_too() -> None:
    issuer = Issuer()
    issuer.rotate(curve=None)
    assert verified(issuer.token("alice"), issuer)[0] == "alice"


@pytest.mark.parametrize(
    ("claims", "why"),
    [
        ({"exp": None}, "no time in its claim exp"),
        ({"exp": True}, "no time in its claim exp"),
        ({"exp": "4000000000"}, "no time in its claim exp"),
        ({"exp": 1e300}, "no time in its claim exp"),
        ({"exp": float("nan")}, "no time in its claim exp"),
        ({"exp": -1}, "no time in its claim exp"),
        ({"iat": None}, "no time in its claim iat"),
        ({"exp": 1_000_000_000}, "expired"),
        ({"nbf": 4_000_000_000}, "not valid yet"),
        ({"nbf": "soon"}, "no time in its claim nbf"),
        ({"iss": "you"}, "another issuer"),
        ({"iss": None}, "another issuer"),
        ({"iss": ["me"]}, "another issuer"),
        ({"aud": None}, "another audience"),
        ({"aud": ["c", 1]}, "another audience"),
        ({"sub": None}, "no name in its claim sub"),
        ({"sub": " "}, "no name in its claim sub"),
        ({"sub": ["alice"]}, "no name in its claim sub"),
        ({"sub": "a" * 1_025}, "no name in its claim sub"),
    ],
)
def test_claims_that_do_not_count(issuer: Issuer, claims: dict[str, Any], why: str) -> None:
    token = issuer.token(**{"name": "alice", "iss": "me", "aud": "a"} | _renamed(claims))
    with pytest.raises(TokenError, match=why):
        verified(token, issuer, SETTINGS)


def _renamed(claims: dict[str, Any]) -> dict[str, Any]:
    return {"name" if claim == "sub" else claim: value for claim, value in claims.items()}


def test_the_clocks_may_differ_by_the_skew(issuer: Issuer) -> None:
    token = issuer.token("alice", exp=4_000_000_000, nbf=3_000_000_000)
    for now_s, is_valid in (
        (2_999_999_969, False),
        (2_999_999_970, True),
        (4_000_000_029, True),
        (4_000_000_030, False),
    ):
        try:
            verified(token, issuer, now_ms=now_s * 1_000)
        except TokenError:
            assert not is_valid, now_s
        else:
            assert is_valid, now_s


def test_only_a_key_of_the_issuer_signs(issuer: Issuer) -> None:
    stranger = Issuer()
    with pytest.raises(TokenError, match="no valid signature"):
        verified(stranger.token("alice"), issuer)
    stranger.rotate()
    with pytest.raises(UnknownKeyError):
        verified(stranger.token("alice"), issuer)


def test_keys_that_a_token_brings_do_not_count(issuer: Issuer) -> None:
    stranger = Issuer()
    (own,) = json.loads(stranger.key_set_json())["keys"]
    for header in ({"jwk": own}, {"jku": "https://stranger"}, {"x5u": "https://stranger"}):
        with pytest.raises(TokenError):
            verified(stranger.token("alice", header=header), issuer)


def test_a_public_key_is_no_password(issuer: Issuer) -> None:
    (public,) = issuer.key_set().keys
    assert isinstance(public, ECKey)
    assert public.kid is not None
    claims = {"sub": "alice", "iat": 0, "exp": 4_000_000_000}
    signed = f"{_part({'alg': 'HS256', 'kid': public.kid})}.{_part(claims)}"
    for secret in (public.as_pem(private=False), b"weak" * 8):
        proof = hmac.digest(secret, signed.encode(), "sha256")
        forged = f"{signed}.{base64.urlsafe_b64encode(proof).decode().rstrip('=')}"
        with pytest.raises(TokenError):
            verified(forged, issuer)
        with pytest.raises(TokenError):
            known = OctKey.import_key(b"weak" * 8, {"kid": public.kid})
            verify_token(forged, KeySet([known]), ANY, 0)


@pytest.mark.parametrize("algorithm", ["none", "None", "NONE", "HS256", "foo", "", 7, None])
def test_an_algorithm_that_proves_nothing(issuer: Issuer, algorithm: object) -> None:
    header, _, rest = issuer.token("alice").partition(".")
    fields = json.loads(base64.urlsafe_b64decode(header + "=="))
    changed = _part(fields | {"alg": algorithm})
    for token in (f"{changed}.{rest}", f"{changed}.{rest.partition('.')[0]}."):
        with pytest.raises(TokenError):
            verified(token, issuer)


def test_a_changed_claim_breaks_the_signature(issuer: Issuer) -> None:
    header, claims, signature = issuer.token("alice").split(".")
    fields = json.loads(base64.urlsafe_b64decode(claims + "=="))
    with pytest.raises(TokenError, match="no valid signature"):
        verified(".".join((header, _part(fields | {"sub": "admin"}), signature)), issuer)


@pytest.mark.parametrize(
    "token",
    [
        *("", ".", "..", "...", "a.b.c", "e30.e30.", "e30.e30.e30", "bnVsbA.bnVsbA.x"),
        *("a.b.c.d.e", "eyJhbGciOiJFUzI1NiJ9..", "é.é.é"),
        base64.urlsafe_b64encode(b"[" * 40_000).decode() + ".e30.e30",
        base64.urlsafe_b64encode(b'{"alg":"ES256","kid":' + b"1" * 20_000 + b"}").decode() + ".a.b",
    ],
)
def test_what_is_no_token(issuer: Issuer, token: str) -> None:
    with pytest.raises(TokenError):
        verified(token, issuer)


def test_an_error_shows_nothing_of_the_token(issuer: Issuer) -> None:
    token = issuer.token("secret-name", exp=1, aud="secret-audience", iss="secret-issuer")
    for settings in (ANY, SETTINGS):
        with pytest.raises(TokenError) as caught:
            verified(token, issuer, settings)
        assert "secret" not in str(caught.value)
        assert caught.value.__cause__ is None


def _part(fields: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(fields).encode()).decode().rstrip("=")
