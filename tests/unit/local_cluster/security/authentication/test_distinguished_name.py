"""Subjects of certificates; the expected texts are those of Java 17's X500Principal.getName()."""

from __future__ import annotations

import datetime

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from local_cluster.security.authentication.distinguished_name import subject_of

START = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)


def one(oid: x509.ObjectIdentifier, value: str) -> x509.NameAttribute[str | bytes]:
    return x509.NameAttribute(oid, value)


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        (
            [
                [one(NameOID.COUNTRY_NAME, "DE")],
                [one(NameOID.ORGANIZATION_NAME, 'Sun, "Mirror" & Co')],
                [one(NameOID.COMMON_NAME, "alice")],
            ],
            r"CN=alice,O=Sun\, \"Mirror\" & Co,C=DE",
        ),
        (
            [
                [one(NameOID.DOMAIN_COMPONENT, "example")],
                [one(NameOID.DOMAIN_COMPONENT, "host")],
                [one(NameOID.USER_ID, "u1")],
                [one(NameOID.COMMON_NAME, " #a+b=c;<d>\\ ")],
            ],
            r"CN=\ \#a\+b\=c\;\<d\>\\\ ,UID=u1,DC=host,DC=example",
        ),
        (
            [
                [one(NameOID.EMAIL_ADDRESS, "a@b.example")],
                [one(NameOID.STATE_OR_PROVINCE_NAME, "Z\u00fcrich")],
                [one(NameOID.STREET_ADDRESS, "x/y")],
                [one(NameOID.LOCALITY_NAME, "\u6771\u4eac")],
            ],
            "L=\u6771\u4eac,STREET=x/y,ST=Z\u00fcrich,"
            "1.2.840.113549.1.9.1=#160b6140622e6578616d706c65",
        ),
        (
            [
                [one(NameOID.SERIAL_NUMBER, "77")],
                [one(NameOID.COMMON_NAME, "two"), one(NameOID.USER_ID, "parts")],
            ],
            "CN=two+UID=parts,2.5.4.5=#13023737",
        ),
    ],
)
def test_the_subject_is_written_as_java_writes_it(
    parts: list[list[x509.NameAttribute[str | bytes]]], expected: str
) -> None:
    name = x509.Name([x509.RelativeDistinguishedName(part) for part in parts])
    key = ec.generate_private_key(ec.SECP256R1())
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(START)
        .not_valid_after(START + datetime.timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    assert subject_of(certificate.public_bytes(Encoding.DER)) == expected


def test_bytes_that_are_no_certificate_are_refused() -> None:
    with pytest.raises(ValueError, match=r"ASN\.1|DER|parsing"):
        subject_of(b"no certificate")
