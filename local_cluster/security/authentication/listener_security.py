"""How a listener secures its connections: TLS (KIP-651, KIP-371) and SASL. Settings, no I/O.

Settings name the file or the environment variable of a secret, and never hold it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Final, Literal

from pydantic import ConfigDict

from local_cluster.client.auth.security import Mechanism, Secret
from local_cluster.security.authentication.kerberos.settings import KerberosSettings
from local_cluster.security.authentication.oauth.settings import OauthSettings
from local_cluster.security.authentication.principal_rules import DEFAULT_RULES, PrincipalRules

SecurityProtocol = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
OAUTHBEARER: Final = "OAUTHBEARER"
GSSAPI: Final = "GSSAPI"
StoreType = Literal["PEM", "PKCS12"]
TlsVersion = Literal["TLSv1.2", "TLSv1.3"]
_STRICT = ConfigDict(extra="forbid")


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsSettings:
    """The certificate of a listener, and which client certificates it takes.

    Every file is read again when it changes; connections that are open keep what they have.
    """

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    keystore_file: str
    """PEM: the certificate chain, and the private key unless `key_file` has it. PKCS12: both."""
    keystore_type: StoreType = "PEM"
    keystore_password: Secret | None = None
    """Password of the private key (PEM) or of the store (PKCS12), if it has one."""
    key_file: str | None = None
    """PEM only: the private key."""
    truststore_file: str | None = None
    """The authorities that may sign client certificates: PEM or PKCS12."""
    truststore_type: StoreType = "PEM"
    truststore_password: Secret | None = None
    client_auth: Literal["none", "requested", "required"] = "none"
    """Kafka's ssl.client.auth."""
    principal_mapping_rules: str = DEFAULT_RULES
    """Kafka's ssl.principal.mapping.rules."""
    enabled_protocols: tuple[TlsVersion, ...] = ("TLSv1.2", "TLSv1.3")

    def __post_init__(self) -> None:
        PrincipalRules(self.principal_mapping_rules)
        if not self.enabled_protocols:
            raise ValueError("`enabled_protocols` needs TLSv1.2, TLSv1.3 or both")
        if self.client_auth != "none" and self.truststore_file is None:
            raise ValueError(f"client_auth {self.client_auth} needs a `truststore_file`")
        if self.keystore_type == "PKCS12" and self.key_file is not None:
            raise ValueError("a PKCS12 store holds its key, so `key_file` has no use")


@dataclass(frozen=True, slots=True, kw_only=True)
class SaslSettings:
    """The mechanisms of a listener, and its users that need no ZooKeeper."""

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    mechanisms: tuple[Mechanism, ...] = ("SCRAM-SHA-512",)
    """Kafka's sasl.enabled.mechanisms."""
    users: dict[str, Secret] = field(default_factory=dict)
    """Passwords by user name. PLAIN knows only these. SCRAM asks them before ZooKeeper, so that
    brokers can log in to each other before any user is in ZooKeeper."""
    oauth: OauthSettings | None = None
    """For OAUTHBEARER: whose tokens are taken."""
    kerberos: KerberosSettings | None = None
    """For GSSAPI: the keys of the service, and which user a principal is."""

    def __post_init__(self) -> None:
        if not self.mechanisms:
            raise ValueError("`mechanisms` needs at least one mechanism")
        if self.mechanisms == ("PLAIN",) and not self.users:
            raise ValueError("PLAIN needs `users`, otherwise nobody can log in")
        if (OAUTHBEARER in self.mechanisms) != (self.oauth is not None):
            raise ValueError("OAUTHBEARER needs `oauth`, and no other mechanism has use for it")
        if (GSSAPI in self.mechanisms) != (self.kerberos is not None):
            raise ValueError("GSSAPI needs `kerberos`, and no other mechanism has use for it")


def uses_tls(protocol: SecurityProtocol) -> bool:
    return protocol in ("SSL", "SASL_SSL")


def uses_sasl(protocol: SecurityProtocol) -> bool:
    return protocol in ("SASL_PLAINTEXT", "SASL_SSL")


def check_listener(
    protocol: SecurityProtocol, tls: TlsSettings | None, sasl: SaslSettings | None
) -> None:
    """Raise ValueError unless a listener has exactly the settings that its protocol needs."""
    for name, settings, needed in (
        ("tls", tls, uses_tls(protocol)),
        ("sasl", sasl, uses_sasl(protocol)),
    ):
        if needed and settings is None:
            raise ValueError(f"a listener of {protocol} needs `{name}`")
        if settings is not None and not needed:
            raise ValueError(f"a listener of {protocol} has no use for `{name}`")
