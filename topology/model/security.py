"""Security settings of connections to a cluster; they hold no secrets."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import Field

from local_cluster.client.auth.kerberos.settings import SERVICE_NAME, KerberosLogin
from local_cluster.client.auth.oauth.settings import (
    BUFFER_SECONDS_MAX,
    EXTENSION_PATTERN,
    FACTOR_MAX,
    FACTOR_MIN,
    MIN_PERIOD_SECONDS_MAX,
    SCOPE_PATTERN,
    TOKEN_URL_PATTERN,
    OauthLogin,
)
from local_cluster.client.auth.security import ClientSecurity, Mechanism, Secret
from topology.model.scalars import Entry

HOST_MARK: Final = "_HOST"
"""Stands for the host of a process in a principal, as in Hadoop and ZooKeeper."""
_PER_HOST: Final = re.compile(rf"/{HOST_MARK}(?=@|$)")


def is_per_host(principal: str) -> bool:
    """Return whether each host has a principal of its own, such as mirror/_HOST@EXAMPLE.COM."""
    return _PER_HOST.search(principal) is not None


def principal_at(principal: str, host: str) -> str:
    """Return the principal of a process on a host, in lower case as Hadoop's."""
    return _PER_HOST.sub(lambda _: f"/{host.lower()}", principal)


def at_host(security: ClientSecurity, host: str) -> ClientSecurity:
    """Return how a process on a host connects."""
    login = security.kerberos
    if login is None:
        return security
    return replace(security, kerberos=replace(login, principal=principal_at(login.principal, host)))


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


class TokenLogin(Entry):
    """Where the tokens of OAUTHBEARER come from: a token endpoint, or a file."""

    token_url: Annotated[str, Field(pattern=TOKEN_URL_PATTERN)] | None = None
    """Token endpoint: https, or http on the loopback, without query."""
    token_ca_file: Annotated[str, Field(min_length=1)] | None = None
    """PEM file of the authorities that sign its certificate; default: the system's."""
    client_id: Annotated[str, Field(min_length=1)] | None = None
    """Client ID for the endpoint."""
    client_secret: SecretPlace | None = None
    """Where the secret of the client ID is."""
    assertion_file: Annotated[str, Field(min_length=1)] | None = None
    """File with a signed JWT that the endpoint exchanges for a token, in place of a client ID and
    its secret."""
    scope: Annotated[str, Field(pattern=SCOPE_PATTERN)] | None = None
    """Scopes of the token, with a space between two."""
    header_urlencode: bool = False
    """Encode client ID and secret, as Kafka's sasl.oauthbearer.header.urlencode does."""
    token_file: Annotated[str, Field(min_length=1)] | None = None
    """File with the token itself, which another process keeps up to date."""
    extensions: dict[
        Annotated[str, Field(pattern=EXTENSION_PATTERN)], Annotated[str, Field(min_length=1)]
    ] = {}
    """SASL extensions, which go to the brokers beside the token, such as logicalCluster."""
    refresh_window_factor: Annotated[float, Field(ge=FACTOR_MIN, le=FACTOR_MAX)] = 0.8
    """Share of a token's lifetime after which it is renewed."""
    refresh_min_period_seconds: Annotated[
        int, Field(strict=True, ge=0, le=MIN_PERIOD_SECONDS_MAX)
    ] = 60
    """Shortest time between two renewals."""
    refresh_buffer_seconds: Annotated[int, Field(strict=True, ge=0, le=BUFFER_SECONDS_MAX)] = 300
    """Time before a token's end in which it should be renewed already."""

    def login(self, directory: Path) -> OauthLogin:
        """Return the settings for a client. Raises ValueError for keys that do not go together."""
        return OauthLogin(
            token_url=self.token_url,
            token_ca_file=path_at(directory, self.token_ca_file),
            client_id=self.client_id,
            client_secret=secret_at(directory, self.client_secret),
            assertion_file=path_at(directory, self.assertion_file),
            scope=self.scope,
            header_urlencode=self.header_urlencode,
            token_file=path_at(directory, self.token_file),
            extensions=tuple(self.extensions.items()),
            refresh_window_factor=self.refresh_window_factor,
            refresh_min_period_seconds=self.refresh_min_period_seconds,
            refresh_buffer_seconds=self.refresh_buffer_seconds,
        )


class TicketLogin(Entry):
    """The principal of a client, and its key."""

    principal: Annotated[str, Field(min_length=1)]
    """Principal, such as mirror@EXAMPLE.COM; without a realm the default one is meant. A service
    or a broker may have one per host: mirror/_HOST@EXAMPLE.COM."""
    keytab_file: Annotated[str, Field(min_length=1)]
    """Keytab with its key; a relative path starts at the directory of the topology file."""
    service_name: Annotated[str, Field(min_length=1)] = SERVICE_NAME
    """The first part of the brokers' principals, as in Kafka's sasl.kerberos.service.name."""

    def login(self, directory: Path) -> KerberosLogin:
        """Return the settings for a client. Raises ValueError for a wrong name."""
        return KerberosLogin(
            principal=self.principal,
            keytab_file=str(directory / self.keytab_file),
            service_name=self.service_name,
        )


class Security(Entry):
    """Security settings of connections to a cluster."""

    protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = "PLAINTEXT"
    """Security protocol, by Kafka's name."""
    mechanism: Mechanism | None = None
    """SASL mechanism."""
    username: Annotated[str, Field(min_length=1)] | None = None
    """SASL user name."""
    password: SecretPlace | None = None
    """Where the SASL password is."""
    oauth: TokenLogin | None = None
    """For OAUTHBEARER, in place of a user and a password: where tokens come from."""
    kerberos: TicketLogin | None = None
    """For GSSAPI, in place of a user and a password: a principal and its keytab."""
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
            oauth=None if self.oauth is None else self.oauth.login(directory),
            kerberos=None if self.kerberos is None else self.kerberos.login(directory),
            ca_file=path_at(directory, self.ca_file),
            certificate_file=path_at(directory, self.certificate_file),
            key_file=path_at(directory, self.key_file),
            key_password=secret_at(directory, self.key_password),
            check_hostname=self.check_hostname,
        )
