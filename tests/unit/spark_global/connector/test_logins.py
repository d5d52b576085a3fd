"""The connector's options name where a secret is, or the connector is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from local_cluster.client.auth.oauth.settings import OauthLogin
from local_cluster.client.auth.security import PLAINTEXT, ClientSecurity, Secret
from spark_global.connector.jars import ConnectorRefusedError
from spark_global.connector.logins import security_options

PASSWORD = "of the user, with=signs"


def scram(password: Secret) -> ClientSecurity:
    return ClientSecurity(
        protocol="SASL_SSL",
        mechanism="SCRAM-SHA-512",
        username='an "analyst"',
        password=password,
        ca_file="/ca.pem",
    )


def test_a_password_in_a_file_is_named_and_not_shown(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text(PASSWORD)
    options = security_options(scram(Secret(file=str(file))))
    assert options["kafka.sasl.jaas.config"] == (
        "org.apache.kafka.common.security.scram.ScramLoginModule required "
        f'username="an \\"analyst\\"" password="${{directory:{tmp_path}:password}}";'
    )
    assert options["kafka.security.protocol"] == "SASL_SSL"
    assert options["kafka.sasl.mechanism"] == "SCRAM-SHA-512"
    assert options["kafka.ssl.truststore.type"] == "PEM"
    assert options["kafka.ssl.truststore.location"] == "/ca.pem"
    assert PASSWORD not in str(options)


def test_a_password_in_a_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANALYST", PASSWORD)
    options = security_options(scram(Secret(env="ANALYST")))
    assert 'password="${env:ANALYST}";' in options["kafka.sasl.jaas.config"]
    assert PASSWORD not in str(options)


def test_certificates_and_keys_are_named(tmp_path: Path) -> None:
    certificate, key, password = (tmp_path / name for name in ("cert.pem", "key.pem", "password"))
    password.write_text(PASSWORD)
    security = ClientSecurity(
        protocol="SSL",
        certificate_file=str(certificate),
        key_file=str(key),
        key_password=Secret(file=str(password)),
        check_hostname=False,
    )
    options = security_options(security)
    assert options["kafka.ssl.keystore.certificate.chain"] == f"${{directory:{tmp_path}:cert.pem}}"
    assert options["kafka.ssl.keystore.key"] == f"${{directory:{tmp_path}:key.pem}}"
    assert options["kafka.ssl.key.password"] == f"${{directory:{tmp_path}:password}}"
    assert options["kafka.ssl.endpoint.identification.algorithm"] == ""
    both = ClientSecurity(protocol="SSL", certificate_file=str(certificate))
    assert security_options(both)["kafka.ssl.keystore.location"] == str(certificate)
    assert security_options(PLAINTEXT) == {}


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("secret\n", "line end after it"),
        ('se"cret', "has a quotation mark"),
        ("se\\cret", "a backslash"),
        ("${env:HOME}", "a dollar"),
    ],
)
def test_what_the_connector_would_change_is_refused(tmp_path: Path, content: str, why: str) -> None:
    file = tmp_path / "password"
    file.write_text(content)
    with pytest.raises(ConnectorRefusedError, match=why) as refused:
        security_options(scram(Secret(file=str(file))))
    assert content.strip() not in str(refused.value)


def test_what_the_connector_cannot_do_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConnectorRefusedError, match="NO_SUCH is not set"):
        security_options(scram(Secret(env="NO_SUCH")))
    colon = tmp_path / "a:b"
    colon.write_text("secret")
    with pytest.raises(ConnectorRefusedError, match="rename the path"):
        security_options(scram(Secret(file=str(colon))))
    tokens = ClientSecurity(
        protocol="SASL_SSL",
        mechanism="OAUTHBEARER",
        oauth=OauthLogin(
            token_url="https://tokens", client_id="me", client_secret=Secret(env="TOKEN")
        ),
    )
    with pytest.raises(ConnectorRefusedError, match="not by OAUTHBEARER"):
        security_options(tokens)
