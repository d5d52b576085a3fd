"""How a client authenticates itself and its brokers: TLS, and the mechanisms of SASL.

Settings name a file or an environment variable that holds a secret, and never hold it themselves.
So settings can lie on disk, be compared and be shown. Pure; credentials.py reads the files.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final, Literal

from pydantic import ConfigDict

from local_cluster.client.auth.kerberos.settings import KerberosLogin
from local_cluster.client.auth.oauth.settings import OauthLogin
from local_cluster.client.auth.secret import Secret, SecurityError

__all__ = [
    "PLAINTEXT",
    "ClientSecurity",
    "KerberosLogin",
    "Mechanism",
    "OauthLogin",
    "Secret",
    "SecurityError",
]

_STRICT: Final = ConfigDict(extra="forbid")


Mechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI"]
"""SASL mechanisms of clients and listeners."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSecurity:
    """How to connect to one cluster. The default is plain text without a user."""

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = "PLAINTEXT"
    mechanism: Mechanism | None = None
    username: str | None = None
    password: Secret | None = None
    oauth: OauthLogin | None = None
    """For OAUTHBEARER, in place of a user and a password: where tokens come from."""
    kerberos: KerberosLogin | None = None
    """For GSSAPI, in place of a user and a password: the principal and its key."""
    ca_file: str | None = None
    """PEM of the authorities that may sign the brokers' certificates; default: the system's."""
    certificate_file: str | None = None
    """PEM of this side's certificate, for brokers that demand one."""
    key_file: str | None = None
    """PEM of its private key; default: it is in `certificate_file` too."""
    key_password: Secret | None = None
    check_hostname: bool = True
    """Whether the broker's certificate must name the host of the connection."""

    def __post_init__(self) -> None:
        if self.uses_tokens or self.oauth is not None:
            self._check_tokens()
            credential: tuple[object, ...] = (self.mechanism, self.oauth)
        elif self.uses_tickets or self.kerberos is not None:
            self._check_tickets()
            credential = (self.mechanism, self.kerberos)
        else:
            credential = (self.mechanism, self.username, self.password)
        if self.uses_sasl and None in credential:
            raise ValueError(f"{self.protocol} needs `mechanism`, `username` and `password`")
        if not self.uses_sasl and any(each is not None for each in credential):
            raise ValueError(f"{self.protocol} has no use for a name and a password")
        files = (self.ca_file, self.certificate_file, self.key_file, self.key_password)
        if not self.uses_tls and files != (None, None, None, None):
            raise ValueError(f"{self.protocol} has no use for certificates and keys")
        if self.certificate_file is None and (self.key_file or self.key_password):
            raise ValueError("a key needs its `certificate_file`")

    def _check_tokens(self) -> None:
        if not self.uses_tokens:
            raise ValueError("`oauth` is for `mechanism: OAUTHBEARER`")
        if self.oauth is None:
            raise ValueError("OAUTHBEARER needs `oauth`, which says where tokens come from")
        if (self.username, self.password) != (None, None):
            raise ValueError("OAUTHBEARER has no use for `username` and `password`: see `oauth`")
        if self.kerberos is not None:
            raise ValueError("`kerberos` is for `mechanism: GSSAPI`")

    def _check_tickets(self) -> None:
        if not self.uses_tickets:
            raise ValueError("`kerberos` is for `mechanism: GSSAPI`")
        if self.kerberos is None:
            raise ValueError("GSSAPI needs `kerberos`, which names a principal and its keytab")
        if (self.username, self.password) != (None, None):
            raise ValueError("GSSAPI has no use for `username` and `password`: see `kerberos`")

    @property
    def uses_tickets(self) -> bool:
        return self.mechanism == "GSSAPI"

    @property
    def uses_tokens(self) -> bool:
        return self.mechanism == "OAUTHBEARER"

    @property
    def uses_sasl(self) -> bool:
        return self.protocol in ("SASL_PLAINTEXT", "SASL_SSL")

    @property
    def uses_tls(self) -> bool:
        return self.protocol in ("SSL", "SASL_SSL")


PLAINTEXT: Final = ClientSecurity()
