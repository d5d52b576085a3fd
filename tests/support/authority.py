"""A certificate authority of one test: certificates for brokers and clients on 127.0.0.1."""

from __future__ import annotations

import datetime
import ipaddress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
    pkcs12,
)
from cryptography.x509.oid import NameOID

STORE_PASSWORD: Final = "of-the-store"
LIFETIME: Final = datetime.timedelta(days=2)


@dataclass(frozen=True, slots=True)
class Certificate:
    """Files of one key and its certificate."""

    pem: Path
    """The key, the certificate, and the authority that signed it."""
    key_pem: Path
    certificate_pem: Path
    store: Path
    """PKCS12 with STORE_PASSWORD."""


class Authority:
    """Signs certificates into a directory."""

    def __init__(self, directory: Path, name: str = "authority") -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self.certificate = (
            _builder(self._name, self._name, self._key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .sign(self._key, hashes.SHA256())
        )
        self.ca_file = directory / f"{name}.pem"
        self.ca_file.write_bytes(self.certificate.public_bytes(Encoding.PEM))
        self.truststore = directory / f"{name}.p12"
        self.truststore.write_bytes(
            pkcs12.serialize_java_truststore(
                [pkcs12.PKCS12Certificate(self.certificate, b"ca")], _store_encryption()
            )
        )

    def issue(
        self, name: str, *, subject: str | None = None, age: datetime.timedelta | None = None
    ) -> Certificate:
        """Sign a certificate for 127.0.0.1, `age` ago if that is given. `subject` is RFC 4514."""
        key = ec.generate_private_key(ec.SECP256R1())
        full_name = x509.Name.from_rfc4514_string(subject or f"CN={name}")
        alternatives = x509.SubjectAlternativeName(
            [x509.IPAddress(ipaddress.ip_address("127.0.0.1")), x509.DNSName("localhost")]
        )
        certificate = (
            _builder(full_name, self._name, key.public_key(), age or datetime.timedelta())
            .add_extension(alternatives, critical=False)
            .sign(self._key, hashes.SHA256())
        )
        made = Certificate(
            *(self._directory / f"{name}{end}" for end in (".pem", ".key", ".crt", ".p12"))
        )
        key_pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        chain = certificate.public_bytes(Encoding.PEM) + self.ca_file.read_bytes()
        made.store.write_bytes(
            pkcs12.serialize_key_and_certificates(
                name.encode(), key, certificate, [self.certificate], _store_encryption()
            )
        )
        made.key_pem.write_bytes(key_pem)
        made.certificate_pem.write_bytes(chain)
        made.pem.write_bytes(key_pem + chain)
        return made


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    age: datetime.timedelta = datetime.timedelta(),
) -> x509.CertificateBuilder:
    start = datetime.datetime.now(datetime.UTC) - datetime.timedelta(minutes=5) - age
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(start + LIFETIME)
    )


def _store_encryption() -> KeySerializationEncryption:
    return BestAvailableEncryption(STORE_PASSWORD.encode())
