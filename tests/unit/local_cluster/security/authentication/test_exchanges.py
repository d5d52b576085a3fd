"""The broker's side of PLAIN and SCRAM: RFC 7677's example, our client, and hostile messages."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from local_cluster.client.auth.scram import HASHES, ScramClient, ScramError
from local_cluster.security.authentication.exchanges import (
    AuthenticationError,
    PlainExchange,
    ScramExchange,
)
from local_cluster.security.authentication.scram_credentials import (
    ScramCredential,
    credential_of,
    decode_credential,
    decoy,
    encode_credential,
)

SALT = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
NONCE = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
CLIENT_NONCE = "rOprNGfwEbeRWgbNEkqO"
FINAL = (
    b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
    b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
)


def find(mechanism: str, password: str = "pencil", salt: bytes = SALT) -> ScramExchange:
    def credential(name: str) -> ScramCredential:
        if name in ("user", "a=b,c"):
            return credential_of(mechanism, password, salt)
        return decoy(mechanism, name, b"secret")

    return ScramExchange(mechanism, NONCE, credential)


def test_the_example_of_the_rfc() -> None:
    exchange = find("SCRAM-SHA-256")
    first = exchange.respond(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO")
    assert first == (
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    )
    assert exchange.respond(FINAL) == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    assert exchange.username == "user"
    with pytest.raises(AuthenticationError, match="not a final message"):
        exchange.respond(FINAL)


@pytest.mark.parametrize("mechanism", HASHES)
@pytest.mark.parametrize("name", ["user", "a=b,c"])
def test_a_client_proves_a_password_and_an_unknown_name_looks_like_a_wrong_one(
    mechanism: str, name: str
) -> None:
    def log_in(username: str, password: str) -> tuple[bytes, str | None, str]:
        exchange = find(mechanism)
        client = ScramClient(mechanism, username, password, CLIENT_NONCE)
        first = exchange.respond(client.first())
        try:
            client.verify(exchange.respond(client.final(first)))
        except AuthenticationError as error:
            return first, exchange.username, str(error)
        return first, exchange.username, ""

    assert log_in(name, "pencil")[1:] == (name, "")
    _, nobody, wrong = log_in(name, "pencils")
    assert nobody is None
    first, nobody, unknown = log_in("mallory", "pencil")
    assert nobody is None
    assert wrong == unknown != ""
    assert log_in("mallory", "x")[0] == first, "the salt of an absent user stays the same"
    assert len(first) == len(find_first_of_a_user(mechanism)), "and is as long as others"


def find_first_of_a_user(mechanism: str) -> bytes:
    return find(mechanism, salt=bytes(20)).respond(
        ScramClient(mechanism, "user", "", CLIENT_NONCE).first()
    )


def test_a_final_message_of_another_exchange_is_refused() -> None:
    """CVE-2024-56128: the nonce and the channel of the final message count."""
    for final in (
        FINAL.replace(b"%hv", b"%hw"),
        FINAL.replace(b"c=biws", b"c=eSws"),
        FINAL[:-5] + b"AAA=",
        FINAL[:-44] + b"AA==",
        FINAL.replace(b"p=dH", b"p=!!"),
        FINAL.replace(b"p=dH", "p=\u00e9".encode()),
    ):
        exchange = find("SCRAM-SHA-256")
        exchange.respond(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO")
        with pytest.raises(AuthenticationError):
            exchange.respond(final)
        assert exchange.username is None


@pytest.mark.parametrize(
    "first",
    [
        b"n,a=admin,n=user,r=abc",
        b"y,,n=user,r=abc",
        b"p=tls-unique,,n=user,r=abc",
        b"n,,m=x,n=user,r=abc",
        b"n,,n=user,r=abc,tokenauth=true",
        b"n,,n=us=er,r=abc",
        b"n,,n=,r=abc",
        b"n,,n=user,r=",
        b"n,,n=user\xff,r=abc",
        b"n,,n=" + b"u" * 2_000 + b",r=abc",
        bytes(100_000),
        b"",
    ],
)
def test_other_first_messages_are_refused(first: bytes) -> None:
    """CVE-2017-12610: an authorization id is empty or the name itself."""
    with pytest.raises(AuthenticationError):
        find("SCRAM-SHA-512").respond(first)
    assert find("SCRAM-SHA-512").respond(b"n,a=user,n=user,r=abc").startswith(b"r=abc")


@given(st.lists(st.one_of(st.binary(max_size=60), st.sampled_from([FINAL, b"n,,n=user,r=a"]))))
def test_any_messages_end_in_a_refusal_and_never_in_a_user(messages: list[bytes]) -> None:
    for exchange in (find("SCRAM-SHA-256", "another"), PlainExchange(lambda name: None)):
        for message in messages:
            try:
                exchange.respond(message)
            except AuthenticationError:
                break
        assert exchange.username is None


@pytest.mark.parametrize(
    ("message", "username"),
    [
        (b"\0alice\0right", "alice"),
        (b"alice\0alice\0right", "alice"),
        (b"admin\0alice\0right", None),
        (b"\0alice\0wrong", None),
        (b"\0mallory\0right", None),
        (b"\0mallory\0", None),
        (b"\0\0right", None),
        (b"alice\0right", None),
        (b"\0alice\0right\0", None),
        (b"\xff\0alice\0right", None),
    ],
)
def test_plain(message: bytes, username: str | None) -> None:
    exchange = PlainExchange({"alice": "right"}.get)
    if username is None:
        with pytest.raises(AuthenticationError):
            exchange.respond(message)
    else:
        assert exchange.respond(message) == b""
    assert exchange.username == username


def test_a_credential_is_kafkas_text_and_shows_nothing() -> None:
    credential = credential_of("SCRAM-SHA-512", "pencil", SALT, 8192)
    text = encode_credential(credential)
    assert text.startswith("salt=W22ZaJ0SNY7soEsUEjb6gQ==,stored_key=")
    assert text.endswith(",iterations=8192")
    assert decode_credential(text) == credential
    assert repr(credential) == "ScramCredential(iterations=8192)"
    for broken in (
        "",
        "salt=AA==",
        text.replace("8192", "100"),
        text.replace("8192", "2147483647"),
        text.replace("salt=W", "salt=!"),
    ):
        with pytest.raises(ValueError, match=r"^not a SCRAM credential$"):
            decode_credential(broken)


def test_a_client_refuses_a_decoy() -> None:
    client = ScramClient("SCRAM-SHA-256", "mallory", "x", CLIENT_NONCE)
    client.final(find("SCRAM-SHA-256").respond(client.first()))
    for signature in ("v=AAAA", "v=!", "v=\u00e9"):
        with pytest.raises(ScramError):
            client.verify(signature.encode())
