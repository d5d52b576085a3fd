"""GSSAPI message by message with a library that is played: both sides, and hostile clients."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from local_cluster.client.auth.kerberos.gss_login import GssLogin
from local_cluster.client.auth.kerberos.security_context import GssError
from local_cluster.security.authentication.exchanges import AuthenticationError
from local_cluster.security.authentication.kerberos.gss_exchange import TOKENS_MAX, GssExchange
from local_cluster.security.authentication.kerberos.short_names import ShortNames

NO_LAYER = b"\x01\x00\x00\x00"
KAFKAS_TEXT = "due to invalid credentials with SASL mechanism GSSAPI"


class PlayedContext:
    """Complete after some tokens; a signed message begins with "signed:"."""

    def __init__(self, answers: list[bytes], peer: str = "alice@REALM") -> None:
        """`answers` are the tokens that it returns; with the last one it is complete."""
        self._answers = answers
        self.peer = peer

    @property
    def is_complete(self) -> bool:
        return not self._answers

    def step(self, token: bytes) -> bytes:
        if token == b"bad":
            raise GssError("gss_accept_sec_context: Request is a replay")
        return self._answers.pop(0)

    def wrap(self, message: bytes) -> bytes:
        return b"signed:" + message

    def unwrap(self, message: bytes) -> bytes:
        if not message.startswith(b"signed:"):
            raise GssError("gss_unwrap: A token had an invalid Message Integrity Check")
        return message.removeprefix(b"signed:")


def exchange(answers: list[bytes], peer: str = "alice@REALM") -> GssExchange:
    return GssExchange(PlayedContext(answers, peer), ShortNames(("DEFAULT",), "REALM"))


def test_both_sides_with_mutual_authentication() -> None:
    broker = exchange([b"of-broker"])
    client = GssLogin(PlayedContext([b"of-client", b""], "kafka@host"))
    assert broker.respond(client.first()) == b"of-broker"
    assert client.respond(b"of-broker") == b""
    offer = broker.respond(b"")
    assert offer == b"signed:" + NO_LAYER
    choice = client.respond(offer)
    assert (broker.username, client.is_done) == (None, False)
    assert client.respond(broker.respond(choice)) == b""
    assert (broker.username, broker.ends_ms, client.is_done) == ("alice", None, True)


@pytest.mark.parametrize("authorization", [b"", b"alice@REALM", b"kafka@host", b"\xff"])
def test_the_ticket_decides_who_it_is(authorization: bytes) -> None:
    """Clients put different things into the authorization id: Java its principal."""
    broker = exchange([b""])
    assert broker.respond(b"token") == b"signed:" + NO_LAYER, "without a token the offer comes"
    assert broker.respond(b"signed:" + NO_LAYER + authorization) == b""
    assert broker.username == "alice"


@pytest.mark.parametrize(
    ("messages", "said"),
    [
        ([b""], "expected a token"),
        ([b"bad"], KAFKAS_TEXT),
        ([b"token", b"more"], "expected an empty message"),
        ([b"token", b"", NO_LAYER], KAFKAS_TEXT),
        ([b"token", b"", b"signed:"], "a security layer"),
        ([b"token", b"", b"signed:\x01\x00\x00"], "a security layer"),
        ([b"token", b"", b"signed:\x00\x00\x00\x00"], "a security layer"),
        ([b"token", b"", b"signed:\x02\x00\xff\xff"], "a security layer"),
        ([b"token", b"", b"signed:\x07\x00\xff\xff"], "a security layer"),
        ([b"token", b"", b"signed:" + NO_LAYER, b""], "a message after the last one"),
        ([70_000 * b"x"], "more than 65536 bytes"),
    ],
)
def test_any_other_message_is_refused(messages: list[bytes], said: str) -> None:
    broker = exchange([b"of-broker"])
    for message in messages[:-1]:
        broker.respond(message)
    with pytest.raises(AuthenticationError, match=said):
        broker.respond(messages[-1])


def test_the_librarys_words_are_for_the_log_alone() -> None:
    with pytest.raises(AuthenticationError) as caught:
        exchange([b""]).respond(b"bad")
    assert "replay" not in str(caught.value)
    assert caught.value.detail == "gss_accept_sec_context: Request is a replay"


@pytest.mark.parametrize(
    ("peer", "said"),
    [
        ("alice@OTHER", "no rule"),
        (r"alice\@REALM@OTHER", "a special character"),
        (r"ali\/ce@REALM", "a special character"),
        ("ali\nce@REALM", "a special character"),
        ("ali\u2028ce@REALM", "a special character"),
    ],
)
def test_a_principal_without_a_name_is_nobody(peer: str, said: str) -> None:
    broker = exchange([b""], peer)
    broker.respond(b"token")
    with pytest.raises(AuthenticationError, match=said):
        broker.respond(b"signed:" + NO_LAYER)
    assert broker.username is None


def test_tokens_have_a_limit_on_both_sides() -> None:
    broker = exchange([b"again"] * 100)
    client = GssLogin(PlayedContext([b"again"] * 100))
    client.first()
    for _ in range(TOKENS_MAX - 1):
        broker.respond(b"token")
        client.respond(b"token")
    broker.respond(b"token")
    with pytest.raises(AuthenticationError, match="expected a token"):
        broker.respond(b"token")
    with pytest.raises(GssError, match="no complete context"):
        client.respond(b"token")


@pytest.mark.parametrize(
    ("messages", "said"),
    [
        ([b"signed:\x06\x00\xff\xff"], "demands a security layer"),
        ([b"signed:\x01"], "demands a security layer"),
        ([NO_LAYER], "Integrity"),
        ([b"signed:" + NO_LAYER, b"x"], "a message after"),
        ([b"signed:" + NO_LAYER, b"", b""], "a message after"),
    ],
)
def test_a_client_takes_nothing_else_from_a_broker(messages: list[bytes], said: str) -> None:
    client = GssLogin(PlayedContext([b""]))
    client.first()
    for message in messages[:-1]:
        client.respond(message)
    with pytest.raises(GssError, match=said):
        client.respond(messages[-1])


@given(messages=st.lists(st.binary(max_size=20) | st.just(b"signed:" + NO_LAYER), max_size=6))
def test_nobody_gets_in_but_by_a_token_and_a_choice(messages: list[bytes]) -> None:
    broker = exchange([b"of-broker"])
    try:
        for message in messages:
            broker.respond(message)
    except AuthenticationError:
        pass
    if broker.username is not None:
        assert messages[0]
        assert messages[1] == b""
        assert messages[2].startswith(b"signed:\x01")
