"""The connector's options name where a secret is, or the connector is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from local_cluster.client.auth.oauth.settings import OauthLogin
from local_cluster.client.auth.security import (
    PLAINTEXT,
    ClientSecurity,
    KerberosLogin,
    Secret,
)
from spark_global.connector.jars import ConnectorRefusedError
from spark_global.connector.logins import login_properties, security_options
from spark_global.session import with_properties

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
        oauth=OauthLogin(token_url="https://tokens", assertion_file="/run/assertion"),
    )
    with pytest.raises(ConnectorRefusedError, match="no token by `assertion_file`"):
        security_options(tokens)


def test_tokens_come_from_an_endpoint(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text(PASSWORD)
    security = ClientSecurity(
        protocol="SASL_SSL",
        mechanism="OAUTHBEARER",
        oauth=OauthLogin(
            token_url="https://issuer/token",
            token_ca_file="/issuer.pem",
            client_id="me",
            client_secret=Secret(file=str(file)),
            scope="kafka",
        ),
    )
    options = security_options(security)
    module = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
    assert options["kafka.sasl.jaas.config"] == (
        f'{module} required clientId="me" clientSecret="${{directory:{tmp_path}:secret}}" '
        'scope="kafka" ssl.truststore.type="PEM" ssl.truststore.location="/issuer.pem";'
    )
    assert options["kafka.sasl.mechanism"] == "OAUTHBEARER"
    assert options["kafka.sasl.oauthbearer.token.endpoint.url"] == "https://issuer/token"
    allowed = "org.apache.kafka.sasl.oauthbearer.allowed.urls"
    assert login_properties(security) == {allowed: "https://issuer/token"}
    assert login_properties(PLAINTEXT) == {}


def test_tickets_are_those_of_a_keytab(monkeypatch: pytest.MonkeyPatch) -> None:
    security = ClientSecurity(
        protocol="SASL_PLAINTEXT",
        mechanism="GSSAPI",
        kerberos=KerberosLogin(principal="me@R", keytab_file="/me.keytab", service_name="k"),
    )
    options = security_options(security)
    assert options["kafka.sasl.jaas.config"] == (
        "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true "
        'keyTab="/me.keytab" principal="me@R";'
    )
    assert options["kafka.sasl.kerberos.service.name"] == "k"
    monkeypatch.delenv("KRB5_CONFIG", raising=False)
    assert login_properties(security) == {}
    monkeypatch.setenv("KRB5_CONFIG", "/etc/our krb5.conf")
    assert login_properties(security) == {"java.security.krb5.conf": "/etc/our krb5.conf"}
    settings = with_properties({"spark.executor.extraJavaOptions": "-Da=b"}, {"c": "d e"})
    assert settings["spark.executor.extraJavaOptions"] == '-Da=b "-Dc=d e"'
    assert settings["spark.driver.extraJavaOptions"].endswith('"-Dc=d e"')
    assert with_properties({"x": "y"}, {}) == {"x": "y"}
