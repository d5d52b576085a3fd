"""Security of our own clusters: certificates and users of listeners, principals, the authorizer.

Certificates and users have the keys of a broker's settings. Nothing here holds a secret, only the
place of one.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from local_cluster.client.auth.kerberos.settings import SERVICE_NAME
from local_cluster.client.auth.security import Mechanism
from local_cluster.security.authentication.kerberos.settings import KerberosSettings
from local_cluster.security.authentication.kerberos.short_names import DEFAULT_RULE
from local_cluster.security.authentication.listener_security import (
    SaslSettings,
    StoreType,
    TlsSettings,
    TlsVersion,
)
from local_cluster.security.authentication.oauth.settings import HTTPS_PATTERN, OauthSettings
from local_cluster.security.authentication.principal_rules import DEFAULT_RULES
from topology.model.scalars import Entry
from topology.model.security import (
    SecretPlace,
    Security,
    TicketLogin,
    TokenLogin,
    path_at,
    principal_at,
    secret_at,
)

PRINCIPAL_PATTERN = r"^[^:;\s]+:[^;]+$"
"""A type and a name. Kafka lists super users with semicolons."""

FileName = Annotated[str, Field(min_length=1)]
UserName = Annotated[str, Field(min_length=1)]
PrincipalName = Annotated[str, Field(pattern=PRINCIPAL_PATTERN)]


class Tls(Entry):
    """The certificate of a listener, and which client certificates it takes."""

    keystore_file: FileName
    """Certificate chain and key of the brokers; a relative path starts at the directory of the
    topology file."""
    keystore_type: StoreType = "PEM"
    """`PEM` or `PKCS12`."""
    keystore_password: SecretPlace | None = None
    """Where the password of the key or of the store is, if it has one."""
    key_file: FileName | None = None
    """PEM only: the private key, if `keystore_file` does not hold it."""
    truststore_file: FileName | None = None
    """The authorities that may sign client certificates."""
    truststore_type: StoreType = "PEM"
    """`PEM` or `PKCS12`."""
    truststore_password: SecretPlace | None = None
    """Where the password of the truststore is, if it has one."""
    client_auth: Literal["none", "requested", "required"] = "none"
    """Whether clients need a certificate, as in Kafka's ssl.client.auth."""
    principal_mapping_rules: str = DEFAULT_RULES
    """Principals of client certificates, as in Kafka's ssl.principal.mapping.rules."""
    enabled_protocols: Annotated[list[TlsVersion], Field(min_length=1)] = ["TLSv1.2", "TLSv1.3"]
    """Versions of TLS."""

    def settings(self, directory: Path) -> TlsSettings:
        """Return a broker's settings. Raises ValueError for keys that do not go together."""
        return TlsSettings(
            keystore_file=str(directory / self.keystore_file),
            keystore_type=self.keystore_type,
            keystore_password=secret_at(directory, self.keystore_password),
            key_file=path_at(directory, self.key_file),
            truststore_file=path_at(directory, self.truststore_file),
            truststore_type=self.truststore_type,
            truststore_password=secret_at(directory, self.truststore_password),
            client_auth=self.client_auth,
            principal_mapping_rules=self.principal_mapping_rules,
            enabled_protocols=tuple(self.enabled_protocols),
        )


class Oauth(Entry):
    """Whose tokens OAUTHBEARER takes: one issuer, and what its tokens must say."""

    keys_file: FileName | None = None
    """JSON Web Key Set of the issuer; a relative path starts at the directory of the topology
    file."""
    keys_url: Annotated[str, Field(pattern=HTTPS_PATTERN)] | None = None
    """Where the issuer serves its key set; `oauth_allowed_urls` of the cluster must list it."""
    keys_ca_file: FileName | None = None
    """PEM file of the authorities that sign the certificate of `keys_url`; default: the
    system's."""
    keys_refresh_seconds: Annotated[int, Field(strict=True, ge=1, le=86_400)] = 3_600
    """Time between two requests to `keys_url`."""
    expected_issuer: Annotated[str, Field(min_length=1)] | None = None
    """The claim `iss` that every token must have."""
    expected_audiences: Annotated[list[str], Field(min_length=1)] | None = None
    """The claim `aud` of a token must have one of these."""
    principal_claim: Annotated[str, Field(min_length=1)] = "sub"
    """The claim with the user's name."""
    clock_skew_seconds: Annotated[int, Field(strict=True, ge=0, le=3_600)] = 30
    """Tolerance for the issuer's clock."""

    def settings(self, directory: Path) -> OauthSettings:
        """Return a broker's settings. Raises ValueError for keys that do not go together."""
        return OauthSettings(
            keys_file=path_at(directory, self.keys_file),
            keys_url=self.keys_url,
            keys_ca_file=path_at(directory, self.keys_ca_file),
            keys_refresh_seconds=self.keys_refresh_seconds,
            expected_issuer=self.expected_issuer,
            expected_audiences=tuple(self.expected_audiences or ()),
            principal_claim=self.principal_claim,
            clock_skew_seconds=self.clock_skew_seconds,
        )


class Kerberos(Entry):
    """The keys of a listener's service, and which user a principal is."""

    keytab_file: FileName
    """Keytab of the brokers' service; a relative path starts at the directory of the topology
    file."""
    service_name: Annotated[str, Field(min_length=1)] = SERVICE_NAME
    """The first part of the brokers' principals, as in Kafka's sasl.kerberos.service.name."""
    principal: FileName | None = None
    """The only key that is taken, such as kafka/_HOST@EXAMPLE.COM, with each broker's host for
    _HOST; default: any key of the service."""
    principal_to_local_rules: Annotated[list[str], Field(min_length=1)] = [DEFAULT_RULE]
    """Names of principals, as in Kafka's sasl.kerberos.principal.to.local.rules."""

    def settings(self, directory: Path, host: str = "") -> KerberosSettings:
        """Return the settings of a broker on a host.

        Raises ValueError for keys that do not go together.
        """
        return KerberosSettings(
            principal=None if self.principal is None else principal_at(self.principal, host),
            keytab_file=str(directory / self.keytab_file),
            service_name=self.service_name,
            principal_to_local_rules=tuple(self.principal_to_local_rules),
        )


class Sasl(Entry):
    """The mechanisms of a listener, and its users that need no ZooKeeper."""

    mechanisms: Annotated[list[Mechanism], Field(min_length=1)] = ["SCRAM-SHA-512"]
    """SASL mechanisms, as in Kafka's sasl.enabled.mechanisms."""
    users: dict[UserName, SecretPlace] = {}
    """Where the password of each user is. PLAIN knows only these users; SCRAM also those that
    `kafka-configs` creates."""
    oauth: Oauth | None = None
    """For OAUTHBEARER: whose tokens are taken."""
    kerberos: Kerberos | None = None
    """For GSSAPI: the keys of the brokers' service, and the names of principals."""

    def settings(self, directory: Path, host: str = "") -> SaslSettings:
        """Return the settings of a broker on a host.

        Raises ValueError for keys that do not go together.
        """
        users = {name: place.secret(directory) for name, place in self.users.items()}
        return SaslSettings(
            mechanisms=tuple(self.mechanisms),
            users=users,
            oauth=self.oauth.settings(directory) if self.oauth is not None else None,
            kerberos=None if self.kerberos is None else self.kerberos.settings(directory, host),
        )


class Credentials(Entry):
    """Who connects, in place of the user or the certificate of the cluster's `security`."""

    mechanism: Mechanism | None = None
    """SASL mechanism, if it is another one than that of `security`."""
    username: UserName | None = None
    """SASL user name."""
    password: SecretPlace | None = None
    """Where the SASL password is."""
    oauth: TokenLogin | None = None
    """For OAUTHBEARER: where the tokens of this principal come from."""
    kerberos: TicketLogin | None = None
    """For GSSAPI: the Kerberos principal of this service, and its keytab."""
    certificate_file: FileName | None = None
    """PEM file of the client certificate, if the brokers require one."""
    key_file: FileName | None = None
    """PEM file of the client's private key; default: it is in `certificate_file`."""
    key_password: SecretPlace | None = None
    """Where the password of the private key is, if it has one."""

    def replace_in(self, security: Security) -> Security:
        """Return `security` with this user, this certificate, or both."""
        changes: dict[str, object] = {}
        if self.username is not None or self.password is not None:
            changes |= {"username": self.username, "password": self.password}
            changes |= {"oauth": None, "kerberos": None}
        if self.mechanism is not None:
            changes["mechanism"] = self.mechanism
        if self.oauth is not None:
            nobody = {"username": self.username, "password": self.password}
            changes |= {**nobody, "mechanism": "OAUTHBEARER", "oauth": self.oauth}
            changes["kerberos"] = None
        if self.kerberos is not None:
            nobody = {"username": self.username, "password": self.password}
            changes |= {**nobody, "oauth": self.oauth}
            changes |= {"mechanism": "GSSAPI", "kerberos": self.kerberos}
        if any((self.certificate_file, self.key_file, self.key_password)):
            changes |= {
                "certificate_file": self.certificate_file,
                "key_file": self.key_file,
                "key_password": self.key_password,
            }
        return security.model_copy(update=changes)


class Principals(Entry):
    """Principals of single services; a service without one connects as `security` says."""

    mirror: Credentials = Credentials()
    """Mirror workers that read from the cluster or write into it."""
    aggregator: Credentials = Credentials()
    """Aggregators, with their probes and audits."""
    spark: Credentials = Credentials()
    """Spark's readers of an aggregate."""


class Authorizer(Entry):
    """Decide by ACLs what a principal may do."""

    super_users: list[PrincipalName] = []
    """Principals that may do anything, such as User:admin; the one of `security` must be among
    them. The brokers are super users anyway."""
    dry_run: bool = False
    """Allow everything; log and count what would be denied."""
    allow_if_no_acl: bool = False
    """Allow what no ACL covers, as Kafka's allow.everyone.if.no.acl.found does."""
    credential_readers: list[PrincipalName] = []
    """Principals that get the keys of SCRAM users: mirrors of links from this cluster with `users`.
    No ACL stands for this right."""

    def configs(self) -> dict[str, str]:
        """Return the broker configs."""
        configs = {
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": ";".join(self.super_users),
            "heliograph.authorizer.dry.run": str(self.dry_run).lower(),
            "allow.everyone.if.no.acl.found": str(self.allow_if_no_acl).lower(),
        }
        if self.credential_readers:
            configs["heliograph.scram.credential.readers"] = ";".join(self.credential_readers)
        return configs
