"""Authentication: SCRAM against the RFC's example, secrets, and valid combinations."""

from __future__ import annotations

from pathlib import Path

import pytest

from local_cluster.client.auth.credentials import read_secret, tls_context
from local_cluster.client.auth.scram import ITERATIONS_MAX, ScramClient, ScramError
from local_cluster.client.auth.security import (
    ClientSecurity,
    KerberosLogin,
    OauthLogin,
    Secret,
    SecurityError,
)

# RFC 7677, section 3.
NONCE = "rOprNGfwEbeRWgbNEkqO"
ITS_NONCE = NONCE + "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
SERVER_FIRST = f"r={ITS_NONCE},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
CLIENT_FINAL = f"c=biws,r={ITS_NONCE},p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
SERVER_FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def scram(username: str = "user") -> ScramClient:
    return ScramClient("SCRAM-SHA-256", username, "pencil", NONCE)


def test_the_example_of_the_rfc() -> None:
    client = scram()
    assert client.first() == f"n,,n=user,r={NONCE}".encode()
    assert client.final(SERVER_FIRST.encode()) == CLIENT_FINAL.encode()
    client.verify(SERVER_FINAL)


def test_a_server_that_does_not_know_the_credential_is_found_out() -> None:
    client = scram()
    client.final(SERVER_FIRST.encode())
    for wrong in (b"v=" + b"A" * 43 + b"=", b"v=", b"", b"e=other-error", b"v=%", b"\xff"):
        with pytest.raises(ScramError):
            client.verify(wrong)
    with pytest.raises(ScramError):
        scram().verify(SERVER_FINAL)  # before any message of the server


@pytest.mark.parametrize(
    "message",
    [
        "",
        "r=other,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
        f"r={NONCE},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
        f"r={ITS_NONCE},s=%,i=4096",
        f"r={ITS_NONCE},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=many",
        f"r={ITS_NONCE},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=1",
        f"r={ITS_NONCE},s=W22ZaJ0SNY7soEsUEjb6gQ==,i={ITERATIONS_MAX + 1}",
    ],
)
def test_a_malformed_first_message_is_refused(message: str) -> None:
    with pytest.raises(ScramError):
        scram().final(message.encode())


def test_special_characters_of_user_names_are_escaped() -> None:
    assert scram("a=b,c").first() == f"n,,n=a=3Db=2Cc,r={NONCE}".encode()


def test_a_secret_is_read_from_its_file_or_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "secret"
    file.write_text(" with spaces \n")
    assert read_secret(Secret(file=str(file))) == " with spaces "
    file.write_text("another\n")
    assert read_secret(Secret(file=str(file))) == "another"
    monkeypatch.setenv("A_SECRET", "from the environment")
    assert read_secret(Secret(env="A_SECRET")) == "from the environment"
    monkeypatch.delenv("A_SECRET")
    for missing in (Secret(env="A_SECRET"), Secret(file=str(tmp_path / "none"))):
        with pytest.raises(SecurityError):
            read_secret(missing)
    with pytest.raises(ValueError, match="either in `file` or in `env`"):
        Secret(file="a", env="b")


SECRET = Secret(env="X")
TICKETS = KerberosLogin(principal="alice", keytab_file="/k")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"protocol": "SASL_SSL"}, "needs `mechanism`"),
        ({"username": "u"}, "no use for a name"),
        ({"protocol": "SSL", "password": SECRET}, "no use for a name"),
        ({"ca_file": "x"}, "no use for certificates"),
        ({"protocol": "SSL", "key_file": "x"}, "needs its `certificate_file`"),
        ({"protocol": "SASL_SSL", "mechanism": "GSSAPI"}, "GSSAPI needs `kerberos`"),
        ({"protocol": "SSL", "mechanism": "GSSAPI", "kerberos": TICKETS}, "no use for a name"),
        (
            {"protocol": "SASL_SSL", "mechanism": "PLAIN", "kerberos": TICKETS},
            "`kerberos` is for `mechanism: GSSAPI`",
        ),
        (
            {"protocol": "SASL_SSL", "mechanism": "GSSAPI", "kerberos": TICKETS, "username": "u"},
            "see `kerberos`",
        ),
        (
            {
                "protocol": "SASL_SSL",
                "mechanism": "OAUTHBEARER",
                "kerberos": TICKETS,
                "oauth": OauthLogin(token_file="/t"),
            },
            "`kerberos` is for `mechanism: GSSAPI`",
        ),
    ],
)
def test_invalid_combinations_are_refused(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ClientSecurity(**settings)  # type: ignore[arg-type]


def test_unreadable_certificates_raise_a_security_error(tmp_path: Path) -> None:
    broken = tmp_path / "broken.pem"
    broken.write_text("no certificate")
    for name in (str(broken), str(tmp_path / "none")):
        with pytest.raises(SecurityError):
            tls_context(ClientSecurity(protocol="SSL", ca_file=name))
    assert tls_context(ClientSecurity()) is None
