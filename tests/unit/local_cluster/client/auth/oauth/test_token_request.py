"""Token endpoints: settings, request, answers, and refusals that repeat no secret."""

from __future__ import annotations

import base64
import json
from typing import Any
from urllib.parse import parse_qs

import pytest

from local_cluster.client.auth.oauth.settings import OauthLogin, is_token_url
from local_cluster.client.auth.oauth.token_request import (
    ANSWER_BYTES_MAX,
    TokenRefusedError,
    TokenUnavailableError,
    parse_answer,
    parse_token_file,
    token_request,
)
from local_cluster.client.auth.oauth.token_times import renewal_ms
from local_cluster.client.auth.security import ClientSecurity, Secret
from tests.support.issuer import Issuer

SECRET = "hunter2 & co"
URL = "https://issuer.example/token"
NOW_MS = 1_800_000_000_000


def login(**changes: Any) -> OauthLogin:
    given: dict[str, Any] = {
        "token_url": URL,
        "client_id": "mirror",
        "client_secret": Secret(env="X"),
    }
    return OauthLogin(**(given | changes))


def by_assertion(**changes: Any) -> OauthLogin:
    return OauthLogin(token_url=URL, assertion_file="/a.jwt", **changes)


def jwt(**claims: Any) -> str:
    body = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    return f"eyJhbGciOiJub25lIn0.{body}.c2ln"


def answer(**fields: Any) -> bytes:
    return json.dumps({"access_token": "opaque", "token_type": "Bearer", **fields}).encode()


def test_the_client_credentials_grant() -> None:
    request = token_request(login(scope="kafka read"), SECRET)
    assert parse_qs(request.body) == {
        "grant_type": ["client_credentials"],
        "scope": ["kafka read"],
    }
    scheme, _, pair = request.headers["Authorization"].partition(" ")
    assert (scheme, base64.b64decode(pair).decode()) == ("Basic", f"mirror:{SECRET}")
    encoded = token_request(login(client_id="a:b", header_urlencode=True), SECRET)
    pair = encoded.headers["Authorization"].partition(" ")[2]
    assert base64.b64decode(pair) == b"a%3Ab:hunter2+%26+co"
    assert SECRET not in repr(request) + repr(login())


def test_the_grant_for_an_assertion() -> None:
    request = token_request(by_assertion(), "a.b.c=")
    assert parse_qs(request.body) == {
        "grant_type": ["urn:ietf:params:oauth:grant-type:jwt-bearer"],
        "assertion": ["a.b.c="],
    }
    assert "Authorization" not in request.headers
    assert request.headers["Accept-Encoding"] == "identity", "an answer is not decompressed"


@pytest.mark.parametrize(
    ("fields", "ends_ms"),
    [
        ({"expires_in": 60}, NOW_MS + 60_000),
        ({"expires_in": "60"}, NOW_MS + 60_000),
        ({"access_token": jwt(exp=NOW_MS // 1000 + 30), "expires_in": 60}, NOW_MS + 30_000),
        ({"access_token": jwt(exp=NOW_MS // 1000 + 30)}, NOW_MS + 30_000),
    ],
)
def test_an_answer_says_when_its_token_ends(fields: dict[str, Any], ends_ms: int) -> None:
    token = parse_answer(login(), 200, answer(**fields), NOW_MS)
    assert (token.starts_ms, token.ends_ms) == (NOW_MS, ends_ms)
    assert token.value not in repr(token)


@pytest.mark.parametrize(
    ("status", "content", "text"),
    [
        (401, b'{"error":"invalid_client"}', "refuses client mirror or its secret (invalid_client"),
        (400, b'{"error":"invalid_client"}', "refuses client mirror or its secret (invalid_client"),
        (401, b"<html>", "refuses client mirror or its secret (HTTP status 401)"),
        (400, b'{"error":"invalid_scope"}', "refuses scope of its default (invalid_scope"),
        (400, b'{"error":"unauthorized_client"}', "gives client mirror no token (unauthorized_cl"),
        (400, json.dumps({"error": SECRET}).encode(), "no token (HTTP status 400)"),
        (404, b"[" * 100_000, "no token (HTTP status 404)"),
        (307, b"", "redirects elsewhere (HTTP status 307), which no secret follows"),
        (200, b"[]", "without an `access_token`"),
        (200, answer(access_token=7), "without an `access_token`"),
        (200, answer(), "does not say when its token expires"),
        (200, answer(expires_in=True), "`expires_in` that is no time"),
        (200, answer(expires_in=1e300), "`expires_in` that is no time"),
        (200, answer(expires_in=0), "has expired, by the clock of this host"),
        (200, answer(access_token=jwt(exp=[])), "claim `exp` is no time"),
        (200, answer(access_token=jwt(exp=1), expires_in=60), "has expired, by the clock"),
        (200, answer(access_token="a\x01b", expires_in=60), "characters that no bearer token has"),
        (200, answer(token_type="mac", expires_in=60), "gives no bearer token"),
        (200, b" " * (ANSWER_BYTES_MAX + 1), f"more than {ANSWER_BYTES_MAX} bytes"),
    ],
)
def test_an_answer_without_a_token_is_named(status: int, content: bytes, text: str) -> None:
    with pytest.raises(TokenRefusedError) as caught:
        parse_answer(login(), status, content, NOW_MS)
    assert str(caught.value).startswith(f"token endpoint {URL}")
    assert text in str(caught.value)
    assert SECRET not in str(caught.value), "an endpoint may repeat the secret"


@pytest.mark.parametrize("status", [408, 429, 500, 503])
def test_an_endpoint_that_cannot_answer_now_is_asked_again(status: int) -> None:
    with pytest.raises(TokenUnavailableError, match=f"HTTP status {status}"):
        parse_answer(login(), status, b"", NOW_MS)


def test_the_refusal_of_an_assertion_names_its_file() -> None:
    with pytest.raises(TokenRefusedError, match=r"the holder of /a\.jwt or its assertion"):
        parse_answer(by_assertion(), 401, b"", NOW_MS)


def test_a_token_in_a_file() -> None:
    of_file = OauthLogin(token_file="/t")
    real = Issuer().token("alice", seconds=60)
    token = parse_token_file(of_file, f"{real}\n", 0)
    assert token.value == real
    assert token.ends_ms is not None and token.ends_ms > 60_000
    assert parse_token_file(of_file, "opaque", NOW_MS).ends_ms is None
    for text, why in ((jwt(exp=1), "expired"), (" \n", "empty"), ("two words", "characters")):
        with pytest.raises(TokenRefusedError, match=f"token in /t: .*{why}"):
            parse_token_file(of_file, text, NOW_MS)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"token_url": None}, "either from `token_url` or from `token_file`"),
        ({"token_file": "t"}, "either from `token_url` or from `token_file`"),
        ({"token_url": None, "token_file": "t"}, "`token_file` holds the token"),
        ({"token_url": "http://issuer.example/token"}, "https:// address, or http:// on the loop"),
        ({"client_secret": None}, "needs `client_id` and `client_secret`, or an `assertion_file`"),
        ({"assertion_file": "a"}, "`assertion_file` stands for `client_id`"),
        ({"client_id": "a:b"}, "with a colon needs `header_urlencode`"),
        ({"scope": "two  spaces"}, "one space between two"),
        ({"token_url": "http://localhost/t", "token_ca_file": "c"}, "no use for an http://"),
        ({"refresh_window_factor": 0.4}, "0.5..1.0"),
        ({"refresh_min_period_seconds": 901}, "0..900"),
        ({"refresh_buffer_seconds": -1}, "0..3600"),
        ({"extensions": (("auth", "a"),)}, "`auth` is taken"),
        ({"extensions": (("a-b", "a"),)}, "are letters"),
        ({"extensions": (("a", "\x01"),)}, "printable ASCII"),
    ],
)
def test_what_does_not_go_together_is_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        login(**settings)


@pytest.mark.parametrize(
    ("url", "is_one"),
    [
        ("https://issuer.example:8443/realms/a/token", True),
        ("http://127.0.0.1:8080/token", True),
        ("http://[::1]/token", True),
        ("http://localhost", True),
        ("http://10.0.0.1/token", False),
        ("http://localhost.issuer.example/token", False),
        ("https://user:secret@issuer.example/token", False),
        ("https://issuer.example/token?secret=1", False),
        ("https://issuer.example/token#a", False),
        ("file:///token", False),
    ],
)
def test_secrets_go_to_https_or_the_loopback_only(url: str, is_one: bool) -> None:
    assert is_token_url(url) is is_one


@pytest.mark.parametrize(
    ("lifetime_s", "settings", "due_s"),
    [
        (3_600, {}, 2_880),
        (1_000, {}, 700),  # the buffer of 300 s
        (361, {}, 61),
        (360, {}, 288),  # too short for buffer and period
        (400, {"refresh_min_period_seconds": 90}, 100),
        (450, {"refresh_min_period_seconds": 140, "refresh_buffer_seconds": 305}, 145),
        (10, {"refresh_window_factor": 0.5}, 5),
    ],
)
def test_a_token_is_renewed_as_by_kafka(
    lifetime_s: int, settings: dict[str, Any], due_s: int
) -> None:
    found = renewal_ms(NOW_MS, NOW_MS + lifetime_s * 1_000, login(**settings))
    assert found == NOW_MS + due_s * 1_000


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"mechanism": "OAUTHBEARER"}, "OAUTHBEARER needs `oauth`"),
        ({"mechanism": "PLAIN", "oauth": login()}, "`oauth` is for `mechanism: OAUTHBEARER`"),
        (
            {"mechanism": "OAUTHBEARER", "oauth": login(), "username": "u"},
            "no use for `username`",
        ),
        (
            {"mechanism": "OAUTHBEARER", "oauth": login(), "protocol": "SSL"},
            "SSL has no use for a name and a password",
        ),
    ],
)
def test_tokens_stand_for_a_user(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ClientSecurity(**({"protocol": "SASL_SSL"} | settings))
