"""What a secured cluster and its clients prove themselves by, in files that are replaced.

Every file is replaced as docs/operations/security.md says, by a rename. The authorities that
brokers and clients trust are one file, with one authority or two.
"""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Final, Literal

from local_cluster.client.auth.security import ClientSecurity, Secret
from tests.support.authority import Authority, Certificate

Mechanism = Literal["SCRAM-SHA-256", "SCRAM-SHA-512"]
MECHANISMS: Final[tuple[Mechanism, ...]] = ("SCRAM-SHA-256", "SCRAM-SHA-512")


def replace_file(path: Path, content: bytes) -> None:
    """Replace a file in one step, so that nobody reads half of it."""
    fresh = path.with_name(f"{path.name}.new")
    fresh.write_bytes(content)
    fresh.replace(path)


class SecretFiles:
    """The files of one cluster, by the names of their owners."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True)
        self._directory = directory
        self._authorities = 0
        self.authority = self._new_authority()
        self.trusted = directory / "trusted.pem"
        """The authorities that everybody trusts."""
        self.trust(self.authority)

    def _new_authority(self) -> Authority:
        self._authorities += 1
        name = f"authority-{self._authorities}"
        return Authority(self._directory / name, name)

    def trust(self, *authorities: Authority) -> None:
        replace_file(self.trusted, b"".join(each.ca_file.read_bytes() for each in authorities))

    def change_authority(self) -> Authority:
        """Trust a new authority beside the present one, which is returned; issue by the new one."""
        before = self.authority
        self.authority = self._new_authority()
        self.trust(before, self.authority)
        return before

    def certificate_of(self, name: str) -> Path:
        """Where the certificate and the key of somebody lie."""
        return self._directory / f"{name}.pem"

    def issue(self, name: str) -> Certificate:
        """Give somebody a new certificate of the present authority."""
        made = self.authority.issue(name)
        replace_file(self.certificate_of(name), made.pem.read_bytes())
        return made

    def password_file(self, name: str) -> Path:
        return self._directory / f"{name}.password"

    def change_password(self, name: str) -> str:
        """Give somebody a new password, and return it."""
        password = secrets.token_urlsafe(12)
        replace_file(self.password_file(name), password.encode() + b"\n")
        return password

    def user(self, name: str, mechanism: Mechanism = "SCRAM-SHA-512") -> ClientSecurity:
        """How somebody connects by the password in the file."""
        return ClientSecurity(
            protocol="SASL_SSL",
            mechanism=mechanism,
            username=name,
            password=Secret(file=str(self.password_file(name))),
            ca_file=str(self.trusted),
        )

    def with_password(
        self, name: str, password: str, mechanism: Mechanism = "SCRAM-SHA-512"
    ) -> ClientSecurity:
        """How somebody connects by a password that stays, whatever the file has later."""
        place = self._directory / f"kept-{secrets.token_hex(8)}"
        place.write_text(password)
        return ClientSecurity(
            protocol="SASL_SSL",
            mechanism=mechanism,
            username=name,
            password=Secret(file=str(place)),
            ca_file=str(self.trusted),
        )

    def by_certificate(self, pem: Path) -> ClientSecurity:
        return ClientSecurity(protocol="SSL", ca_file=str(self.trusted), certificate_file=str(pem))
