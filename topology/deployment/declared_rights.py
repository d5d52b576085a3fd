"""The users, ACLs and quotas that the file declares for one cluster, without a secret. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from local_cluster.client.auth.security import Secret
from local_cluster.client.auth.zookeeper_security import NO_ZOOKEEPER_USER, ZooKeeperSecurity
from local_cluster.wire.constants import Acl
from topology.deployment.zookeeper_access import decode_zookeeper_security, zookeeper_client
from topology.model import Cluster
from topology.model.quotas import QuotaKey


@dataclass(frozen=True, slots=True, kw_only=True)
class ScramUser:
    """A user that ZooKeeper keeps, with one credential per mechanism."""

    name: str
    mechanisms: tuple[str, ...]
    password: Secret


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredRights:
    """What `up` compares with the cluster."""

    zookeeper: str
    """Connect string with the chroot of the cluster."""
    zookeeper_security: ZooKeeperSecurity = NO_ZOOKEEPER_USER
    sets_znode_acls: bool = False
    """Whether new znodes get Kafka's ACLs."""
    has_authorizer: bool
    """Whether brokers keep ACLs; without an authorizer they refuse every question about them."""
    users: tuple[ScramUser, ...] = ()
    acls: tuple[Acl, ...] = ()
    quotas: tuple[tuple[QuotaKey, float], ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether the file declares nothing; what `up` created before is compared even so."""
        return not (self.users or self.acls or self.quotas)

    @property
    def counted(self) -> str:
        """How many there are of what, for people."""
        users, acls = f"{len(self.users)} users", f"{len(self.acls)} ACLs"
        if not self.quotas:
            return f"{users} and {acls}"
        quotas = f"{len(self.quotas)} quotas"
        return f"{users}, {acls} and {quotas}" if self.users or self.acls else quotas


def declared_rights(
    cluster: Cluster, zookeeper_connect: str, directory: Path
) -> DeclaredRights | None:
    """Return the rights of one of our own clusters; None if it has none and can have no users.

    Relative paths of secrets start at `directory`.
    """
    mechanisms = tuple(cluster.scram_mechanisms)
    security = cluster.zookeeper_security
    has_authorizer = cluster.authorizer is not None
    if not (mechanisms or has_authorizer or cluster.quotas):
        return None
    return DeclaredRights(
        zookeeper=zookeeper_connect,
        zookeeper_security=zookeeper_client(cluster, directory),
        sets_znode_acls=security is not None and security.set_acl,
        has_authorizer=has_authorizer,
        users=tuple(
            ScramUser(name=name, mechanisms=mechanisms, password=place.secret(directory))
            for name, place in cluster.users.items()
        ),
        acls=tuple(dict.fromkeys(acl for rule in cluster.acls for acl in rule.acls())),
        quotas=tuple(each for rule in cluster.quotas for each in rule.quotas()),
    )


def decode_rights(document: Mapping[str, Any] | None) -> DeclaredRights | None:
    """Read the result of `asdict` of declared rights. Raises KeyError or TypeError."""
    if document is None:
        return None
    return DeclaredRights(
        zookeeper=document["zookeeper"],
        zookeeper_security=decode_zookeeper_security(document.get("zookeeper_security")),
        sets_znode_acls=document.get("sets_znode_acls", False),
        has_authorizer=document["has_authorizer"],
        users=tuple(
            ScramUser(
                name=each["name"],
                mechanisms=tuple(each["mechanisms"]),
                password=Secret(**each["password"]),
            )
            for each in document["users"]
        ),
        acls=tuple(Acl(*each) for each in document["acls"]),
        quotas=tuple(
            (QuotaKey(tuple((kind, name) for kind, name in entity), quota), float(value))
            for (entity, quota), value in document.get("quotas", ())
        ),
    )
