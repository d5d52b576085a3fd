"""A certificate for brokers of tests on 127.0.0.1, made with the JDK's keytool."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from local_cluster.client.auth.secret import Secret
from local_cluster.security.authentication.listener_security import TlsSettings

STORE_PASSWORD: Final = "of-the-store"
VALID_DAYS: Final = 30


@dataclass(frozen=True, slots=True)
class KeyStore:
    """A broker's key, and what its clients trust."""

    store_file: Path
    """PKCS12."""
    ca_file: Path
    """PEM; the certificate signs itself."""
    password_file: Path

    @property
    def listener_tls(self) -> TlsSettings:
        """What one of our brokers is told for a listener with TLS."""
        return TlsSettings(
            keystore_file=str(self.store_file),
            keystore_type="PKCS12",
            keystore_password=Secret(file=str(self.password_file)),
        )

    @property
    def client_config(self) -> dict[str, str]:
        """What Java's clients are told."""
        return {
            "security.protocol": "SSL",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.ca_file),
        }

    @property
    def broker_config(self) -> dict[str, str]:
        """What an Apache Kafka broker is told for its listeners with TLS."""
        return {
            "ssl.keystore.location": str(self.store_file),
            "ssl.keystore.type": "PKCS12",
            "ssl.keystore.password": STORE_PASSWORD,
        }


def make_keystore(directory: Path) -> KeyStore:
    """A new key (P-256) and its certificate; skips the test where there is no keytool."""
    directory.mkdir(parents=True, exist_ok=True)
    if shutil.which("keytool") is None:
        pytest.skip("no keytool on this machine")
    made = KeyStore(directory / "store.p12", directory / "ca.pem", directory / "store-password")
    made.password_file.write_text(STORE_PASSWORD)
    made.password_file.chmod(0o600)
    store = ["-keystore", str(made.store_file), "-storetype", "PKCS12"]
    store += ["-storepass", STORE_PASSWORD, "-alias", "broker"]
    for command in (
        ["-genkeypair", "-keyalg", "EC", "-groupname", "secp256r1", "-dname", "CN=broker",
         "-ext", "SAN=IP:127.0.0.1", "-validity", str(VALID_DAYS), *store],
        ["-exportcert", "-rfc", "-file", str(made.ca_file), *store],
    ):  # fmt: skip
        done = subprocess.run(["keytool", *command], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    return made
