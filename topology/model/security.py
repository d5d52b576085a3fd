"""How an existing Kafka is talked to; secrets are named by their place."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from local_cluster.client.auth.security import ClientSecurity, Secret
from topology.model.scalars import Entry


class SecretPlace(Entry):
    """Where a secret is: a file or an environment variable, never the secret itself."""

    file: Annotated[str, Field(min_length=1)] | None = None
    """File that holds it; a relative path starts where the topology file is."""
    env: Annotated[str, Field(min_length=1)] | None = None
    """Environment variable that holds it, of the process that `up` starts."""


class Security(Entry):
    """How to talk to an existing Kafka."""

    protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = "PLAINTEXT"
    """Kafka's name of the protocol."""
    mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] | None = None
    """SASL mechanism."""
    username: Annotated[str, Field(min_length=1)] | None = None
    """Name to log in with."""
    password: SecretPlace | None = None
    """Where its password is."""
    ca_file: Annotated[str, Field(min_length=1)] | None = None
    """PEM of the authorities that brokers' certificates may be signed by; default: the system's."""
    certificate_file: Annotated[str, Field(min_length=1)] | None = None
    """PEM of this side's certificate, where brokers ask for one."""
    key_file: Annotated[str, Field(min_length=1)] | None = None
    """PEM of its private key; default: in `certificate_file`."""
    key_password: SecretPlace | None = None
    """Where the password of the key is, if it has one."""
    check_hostname: bool = True
    """Whether a broker's certificate must name the host that was dialled."""

    def client(self, directory: Path) -> ClientSecurity:
        """The same for a client; relative paths start at `directory`. Raises ValueError."""

        def path(name: str | None) -> str | None:
            return None if name is None else str(directory / name)

        def secret(place: SecretPlace | None) -> Secret | None:
            return None if place is None else Secret(file=path(place.file), env=place.env)

        return ClientSecurity(
            protocol=self.protocol,
            mechanism=self.mechanism,
            username=self.username,
            password=secret(self.password),
            ca_file=path(self.ca_file),
            certificate_file=path(self.certificate_file),
            key_file=path(self.key_file),
            key_password=secret(self.key_password),
            check_hostname=self.check_hostname,
        )
