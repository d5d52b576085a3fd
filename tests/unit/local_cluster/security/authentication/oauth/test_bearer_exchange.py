"""The messages of OAUTHBEARER."""

from __future__ import annotations

import pytest

from local_cluster.security.authentication.exchanges import AuthenticationError
from local_cluster.security.authentication.oauth.bearer_exchange import (
    INVALID_TOKEN,
    BearerExchange,
)
from local_cluster.security.authentication.oauth.token_rules import Bearer, TokenError


def verify(token: str) -> Bearer:
    if token != "good.token":
        raise TokenError("the token has expired")
    return Bearer("alice,b", 77)


@pytest.mark.parametrize(
    "message",
    [
        b"n,,\x01auth=Bearer good.token\x01\x01",
        b"n,a=alice=2Cb,\x01auth=bearer  good.token\x01\x01",
        b"n,,\x01logicalCluster=lkc-1\x01auth=Bearer good.token\x01more=a b\x01\x01",
    ],
)
def test_a_token_names_the_user(message: bytes) -> None:
    exchange = BearerExchange(verify)
    assert exchange.respond(message) == b""
    assert (exchange.username, exchange.ends_ms) == ("alice,b", 77)
    with pytest.raises(AuthenticationError):
        exchange.respond(message)


def test_an_invalid_token_is_answered_before_the_end() -> None:
    exchange = BearerExchange(verify)
    assert exchange.respond(b"n,,\x01auth=Bearer bad\x01\x01") == INVALID_TOKEN
    assert exchange.username is None
    with pytest.raises(AuthenticationError, match="the token has expired"):
        exchange.respond(b"\x01")
    with pytest.raises(AuthenticationError, match="not a message"):
        exchange.respond(b"n,,\x01auth=Bearer good.token\x01\x01")
    assert exchange.username is None


@pytest.mark.parametrize(
    "message",
    [
        *(b"", b"\x01", b"n,,", b"n,,\x01\x01", b"n,,\x01auth=Bearer good.token\x01"),
        b"y,,\x01auth=Bearer good.token\x01\x01",
        b"p=tls-unique,,\x01auth=Bearer good.token\x01\x01",
        b"n,,\x01auth=Basic good.token\x01\x01",
        b"n,,\x01auth=Bearer \x01\x01",
        b"n,,\x01auth=Bearer good token\x01\x01",
        b"n,,\x01auth=Bearer good.token\x01auth=Bearer good.token\x01\x01",
        b"n,,\x01auth=Bearer good.token\x01\x01\x01",
        b"n,,\x01auth=Bearer good.token\n\x01\x01",
        b"n,,\x011=2\x01auth=Bearer good.token\x01\x01",
        b"n,a=bob,\x01auth=Bearer good.token\x01\x01",
        b"n,a=alice,b,\x01auth=Bearer good.token\x01\x01",
        b"n,a=\xff,\x01auth=Bearer good.token\x01\x01",
        b"n,,\x01auth=Bearer " + b"a" * 70_000 + b"\x01\x01",
    ],
)
def test_what_is_no_first_message(message: bytes) -> None:
    exchange = BearerExchange(verify)
    with pytest.raises(AuthenticationError):
        exchange.respond(message)
    assert exchange.username is None
