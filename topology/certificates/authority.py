"""A certificate authority for trying out: its key lies beside its certificate.

The keys are on the curve P-256. Certificates are valid for a year.
"""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

LIFETIME_DAYS: Final = 365
BACKDATED_MINUTES: Final = 5
"""How long before now a certificate starts to be valid, for hosts whose clocks differ."""
_SIGNING: Final = x509.KeyUsage(
    digital_signature=True,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    key_cert_sign=True,
    crl_sign=True,
    encipher_only=False,
    decipher_only=False,
)


class AuthorityError(Exception):
    """A certificate and a key are not those of an authority."""


@dataclass(frozen=True, slots=True)
class Authority:
    """A certificate that signs others, and its key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    def __repr__(self) -> str:
        return f"Authority({self.certificate.subject.rfc4514_string()!r})"

    @classmethod
    def create(cls, name: str, now: datetime.datetime) -> Authority:
        """Return a new authority that signs itself."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = _name(name)
        certificate = (
            _builder(subject, subject, key.public_key(), now)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_SIGNING, critical=True)
            .add_extension(
                x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False
            )
            .sign(key, hashes.SHA256())
        )
        return cls(certificate, key)

    @classmethod
    def load(cls, certificate_pem: bytes, key_pem: bytes) -> Authority:
        """Return the authority of two PEM texts. Raises AuthorityError."""
        try:
            certificate = x509.load_pem_x509_certificate(certificate_pem)
            key = load_pem_private_key(key_pem, None)
        except (ValueError, TypeError) as error:
            raise AuthorityError("no certificate with an unencrypted key in PEM") from error
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise AuthorityError("the key is not on an elliptic curve")
        if key.public_key() != certificate.public_key():
            raise AuthorityError("the key is not that of the certificate")
        return cls(certificate, key)

    def certificate_pem(self) -> bytes:
        return self.certificate.public_bytes(Encoding.PEM)

    def key_pem(self) -> bytes:
        return _key_pem(self.key)

    def issue(self, name: str, hosts: Sequence[str], now: datetime.datetime) -> bytes:
        """Return key, certificate and authority in one PEM text, for a server at `hosts`."""
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = (
            _builder(_name(name), self.certificate.subject, key.public_key(), now)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            # Python 3.13 refuses a chain without key identifiers.
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key()),
                critical=False,
            )
            .add_extension(
                x509.SubjectAlternativeName([_host(each) for each in hosts]), critical=False
            )
            .add_extension(
                x509.ExtendedKeyUsage(
                    [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
                ),
                critical=False,
            )
            .sign(self.key, hashes.SHA256())
        )
        chain = certificate.public_bytes(Encoding.PEM) + self.certificate_pem()
        return _key_pem(key) + chain


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, now: datetime.datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=BACKDATED_MINUTES))
        .not_valid_after(now + datetime.timedelta(days=LIFETIME_DAYS))
    )


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
