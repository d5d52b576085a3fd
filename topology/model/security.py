"""Security settings of connections to a cluster; they hold no secrets."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from local_cluster.client.auth.security import ClientSecurity, Secret
from topology.model.scalars import Entry


class SecretPlace(Entry):
    """Where a secret is: in a file or in an environment variable; never the secret itself."""

    file: Annotated[str, Field(min_length=1)] | None = None
    """File with the secret; a relative path starts at the directory of the topology file."""
    env: Annotated[str, Field(min_length=1)] | None = None
    """Environment variable with the secret, in the environment of `heliograph up`."""

    def secret(self, directory: Path) -> Secret:
        """Return where the secret is. Raises ValueError unless one of both keys says it."""
        return Secret(file=path_at(directory, self.file), env=self.env)


def path_at(directory: Path, name: str | None) -> str | None:
    """Return the path of a file; a relative name starts at `directory`."""
    return None if name is None else str(directory / name)


def secret_at(directory: Path, place: SecretPlace | None) -> Secret | None:
    """Return where a secret is, if there is one. Raises ValueError."""
    return None if place is None else place.secret(directory)


class Security(Entry):
    """Security settings of connections to a cluster."""

    protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = "PLAINTEXT"
    """Security protocol, by Kafka's name."""
    mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] | None = None
    """SASL mechanism."""
    username: Annotated[str, Field(min_length=1)] | None = None
    """SASL user name."""
    password: SecretPlace | None = None
    """Where the SASL password is."""
    ca_file: Annotated[str, Field(min_length=1)] | None = None
    """PEM file of the authorities that sign the brokers' certificates; default: the system's."""
    certificate_file: Annotated[str, Field(min_length=1)] | None = None
    """PEM file of the client certificate, if the brokers require one."""
    key_file: Annotated[str, Field(min_length=1)] | None = None
    """PEM file of the client's private key; default: it is in `certificate_file`."""
    key_password: SecretPlace | None = None
    """Where the password of the private key is, if it has one."""
    check_hostname: bool = True
    """Whether a broker's certificate must name the host of the connection."""

    def client(self, directory: Path) -> ClientSecurity:
        """Return the settings for a client; relative paths start at `directory`.

        Raises ValueError for keys that do not go together.
        """

        return ClientSecurity(
            protocol=self.protocol,
            mechanism=self.mechanism,
            username=self.username,
            password=secret_at(directory, self.password),
            ca_file=path_at(directory, self.ca_file),
            certificate_file=path_at(directory, self.certificate_file),
            key_file=path_at(directory, self.key_file),
            key_password=secret_at(directory, self.key_password),
            check_hostname=self.check_hostname,
        )
