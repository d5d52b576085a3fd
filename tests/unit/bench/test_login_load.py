"""The load client of the bench of logins speaks SCRAM as the broker's side does."""

from __future__ import annotations

import pytest

from local_cluster.security.authentication.exchanges import AuthenticationError, ScramExchange
from local_cluster.security.authentication.scram_credentials import credential_of
from tests.bench.login_load import MECHANISM, CachedScram
from tests.bench.raw_frames import sasl_message


def test_a_client_that_keeps_its_keys_logs_in_again_and_again() -> None:
    credential = credential_of(MECHANISM, "of-the-user", b"salt")
    scram = CachedScram("storm", "of-the-user")
    for number in range(3):
        exchange = ScramExchange(MECHANISM, f"nonce-{number}", lambda _: credential)
        bare, message = scram.first()
        final, expected = scram.final(bare, exchange.respond(message))
        assert exchange.respond(final) == expected
        assert exchange.username == "storm"


def test_another_password_is_refused() -> None:
    credential = credential_of(MECHANISM, "of-the-user", b"salt")
    scram = CachedScram("storm", "another")
    exchange = ScramExchange(MECHANISM, "nonce", lambda _: credential)
    bare, message = scram.first()
    with pytest.raises(AuthenticationError):
        exchange.respond(scram.final(bare, exchange.respond(message))[0])


def test_messages_are_read_behind_their_error() -> None:
    without = bytes(4) + b"\x00\x00" + b"\xff\xff" + b"\x00\x00\x00\x02v=" + bytes(8)
    assert sasl_message(memoryview(without)) == b"v="
    refused = bytes(4) + b"\x00\x3a" + b"\x00\x02no" + bytes(4)
    with pytest.raises(RuntimeError, match="sasl_authentication_failed"):
        sasl_message(memoryview(refused))
