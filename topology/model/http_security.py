"""Security of the HTTP ports of brokers, mirror workers and aggregators; holds no secrets."""

from __future__ import annotations

from pathlib import Path

from local_cluster.client.auth.security import PLAINTEXT, ClientSecurity
from local_cluster.http_security.settings import HttpClientSecurity
from local_cluster.http_security.settings import HttpSecurity as ServerSecurity
from topology.model.listener_security import FileName, Tls
from topology.model.scalars import Entry
from topology.model.security import SecretPlace, path_at, secret_at


class HttpSecurity(Entry):
    """Security of the HTTP ports of brokers, mirror workers and aggregators, and how commands and
    aggregators ask them."""

    token: SecretPlace | None = None
    """Where the token is that every request needs, except /livez and /readyz."""
    accepted_tokens: SecretPlace | None = None
    """Where further valid tokens are, one per line, while the token changes. The file may be
    absent."""
    metrics_token: SecretPlace | None = None
    """Where a token is that allows /metrics alone, for Prometheus."""
    tls: Tls | None = None
    """The certificate of the ports, and the authorities of client certificates, which count as the
    token does."""
    ca_file: FileName | None = None
    """PEM file of the authorities that sign the certificate of the ports; default: the
    system's."""
    certificate_file: FileName | None = None
    """PEM file of the certificate with which commands and aggregators ask."""
    key_file: FileName | None = None
    """PEM file of its private key; default: it is in `certificate_file`."""
    key_password: SecretPlace | None = None
    """Where the password of the private key is, if it has one."""
    check_hostname: bool = True
    """Whether the certificate of a port must name its host."""
    allow_insecure: bool = False
    """Allow a port that other hosts reach without a token, or without TLS."""

    def server(self, directory: Path) -> ServerSecurity:
        """Return the settings of a port; relative paths start at `directory`.

        Raises ValueError for keys that do not go together.
        """
        return ServerSecurity(
            token=secret_at(directory, self.token),
            accepted_tokens=secret_at(directory, self.accepted_tokens),
            metrics_token=secret_at(directory, self.metrics_token),
            tls=None if self.tls is None else self.tls.settings(directory),
            allow_insecure=self.allow_insecure,
        )

    def client(self, directory: Path) -> HttpClientSecurity:
        """Return the settings of a client, in the same way."""
        tls = PLAINTEXT
        files = (self.ca_file, self.certificate_file, self.key_file, self.key_password)
        if self.tls is not None:
            tls = ClientSecurity(
                protocol="SSL",
                ca_file=path_at(directory, self.ca_file),
                certificate_file=path_at(directory, self.certificate_file),
                key_file=path_at(directory, self.key_file),
                key_password=secret_at(directory, self.key_password),
                check_hostname=self.check_hostname,
            )
        elif files != (None, None, None, None):
            raise ValueError("`tls`, without which certificates and keys have no use")
        return HttpClientSecurity(
            token=secret_at(directory, self.token), tls=tls, allow_insecure=self.allow_insecure
        )
