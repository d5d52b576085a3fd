"""Certificates of a listener from files: what can be loaded, and what an error names."""

from __future__ import annotations

import os
import ssl
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Literal

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509 import load_pem_x509_certificates

from local_cluster.client.auth.security import Secret, SecurityError
from local_cluster.security.authentication.listener_security import TlsSettings
from local_cluster.security.authentication.tls_contexts import TlsContexts, load_context
from tests.support.authority import STORE_PASSWORD, Authority


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def password(tmp_path: Path) -> Secret:
    (tmp_path / "password").write_text(STORE_PASSWORD + "\n")
    return Secret(file=str(tmp_path / "password"))


def test_a_key_with_a_password_apart_from_its_certificate(
    authority: Authority, password: Secret
) -> None:
    made = authority.issue("broker")
    key = load_pem_private_key(made.key_pem.read_bytes(), None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    encryption = BestAvailableEncryption(STORE_PASSWORD.encode())
    made.key_pem.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption))
    settings = TlsSettings(
        keystore_file=str(made.certificate_pem),
        key_file=str(made.key_pem),
        keystore_password=password,
        truststore_file=str(authority.ca_file),
        client_auth="requested",
        enabled_protocols=("TLSv1.2",),
    )
    context = load_context(settings)
    assert context.verify_mode is ssl.CERT_OPTIONAL
    assert context.maximum_version is ssl.TLSVersion.TLSv1_2
    assert len(context.get_ca_certs()) == 1
    with pytest.raises(SecurityError, match=r"broker.crt"):
        load_context(replace(settings, keystore_password=None))


@pytest.mark.parametrize("content", [b"", b"no store"])
def test_a_broken_store_is_named(authority: Authority, password: Secret, content: bytes) -> None:
    made = authority.issue("broker")
    settings = TlsSettings(
        keystore_file=str(made.store),
        keystore_type="PKCS12",
        keystore_password=password,
        truststore_file=str(authority.truststore),
        truststore_type="PKCS12",
        truststore_password=password,
        client_auth="required",
    )
    assert len(load_context(settings).get_ca_certs()) == 1
    wrong = replace(settings, keystore_password=Secret(env="ABSENT_IN_TESTS"))
    with pytest.raises(SecurityError, match=r"ABSENT_IN_TESTS"):
        load_context(wrong)
    authority.truststore.write_bytes(content)
    with pytest.raises(SecurityError, match=r"authority.p12"):
        load_context(settings)
    made.store.write_bytes(content)
    with pytest.raises(SecurityError, match=r"listener L: .*broker.p12"):
        TlsContexts("L", settings)


def test_a_changed_file_is_loaded_again_and_a_broken_one_is_not(
    authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    made = authority.issue("broker")
    contexts = TlsContexts("L", TlsSettings(keystore_file=str(made.pem)))
    first = contexts.newest()
    assert contexts.newest() is first
    good = made.pem.read_bytes()
    made.pem.write_bytes(b"half")
    assert contexts.newest() is first
    assert "listener L keeps its certificates" in caplog.text
    made.pem.write_bytes(good)
    second = contexts.newest()
    assert second is not first
    os.utime(made.pem, ns=(1, 1))
    assert contexts.newest() is not second


@pytest.mark.parametrize("kind", ["PEM", "PKCS12"])
def test_the_first_certificate_that_expires_counts_also_after_a_change(
    kind: Literal["PEM", "PKCS12"], authority: Authority, password: Secret
) -> None:
    made = authority.issue("broker", age=timedelta(hours=3))
    file = made.pem if kind == "PEM" else made.store
    is_store = kind == "PKCS12"
    contexts = TlsContexts(
        "L",
        TlsSettings(
            keystore_file=str(file),
            keystore_type=kind,
            keystore_password=password if is_store else None,
        ),
    )
    first = contexts.expires_s
    own = load_pem_x509_certificates(made.certificate_pem.read_bytes())
    assert first == min(each.not_valid_after_utc.timestamp() for each in own)
    authority.issue("broker")
    assert contexts.expires_s > first
