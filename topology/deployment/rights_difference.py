"""The steps from the users, ACLs and quotas of a cluster to those that the file declares. Pure.

Guarantees:

- What the file did not create is not deleted. `OwnedRights` lists what it created.
- While the steps are applied, nobody may do what neither the old nor the new ACLs allow.
  Denials are created first and deleted last.
- A quota is removed last, so no client is without a limit that old and new files have.
- No text here holds a password.

| in the file | in the cluster | created by the file | step |
|---|---|---|---|
| yes | no | any | create, and own it |
| yes | yes, with another password or value | any | change it; the plan shows a former value |
| yes | yes | any | none |
| no | yes | yes | delete |
| no | yes | no | none |
| no | no | yes | own it no more |
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple

from local_cluster.foreign_json import integer, parse_object, string
from local_cluster.security.authentication.scram_credentials import ScramCredential, credential_of
from local_cluster.wire.constants import Acl, Permission
from topology.model.quotas import QuotaKey, entity_text, number_text

OWNED_VERSION: Final = 1
"""Version of the list of owned rights; any other version is refused."""


class UserKey(NamedTuple):
    """One credential: a user has one per mechanism."""

    name: str
    mechanism: str


class QuotaStep(NamedTuple):
    """One quota of an entity."""

    key: QuotaKey
    value: float | None
    """The wanted value; None removes the quota."""
    before: float | None
    """The value that the cluster has."""
    is_foreign: bool = False
    """Whether somebody else had set the value before."""

    def sentence(self, action: str) -> str:
        """Return the step for people."""
        value = "" if self.value is None else f" {number_text(self.value)}"
        whose = ", which `up` had not set and will not remove" if self.is_foreign else ""
        had = "" if self.before is None else f", before {number_text(self.before)}"
        entity = entity_text(self.key.entity)
        return f"{action} quota {self.key.quota}{value} of {entity}{had}{whose}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RightsChange:
    """One step on a user, an ACL or a quota."""

    action: Literal["create", "change", "delete"]
    user: UserKey | None = None
    acl: Acl | None = None
    quota: QuotaStep | None = None

    def sentence(self) -> str:
        """Return the step for people, without a password."""
        if self.quota is not None:
            return self.quota.sentence(self.action)
        if self.user is None:
            return f"{self.action} ACL {self.acl}"
        if self.action == "change":
            return f"change the password of user {self.user.name} ({self.user.mechanism})"
        return f"{self.action} user {self.user.name} ({self.user.mechanism})"

    def as_json(self) -> dict[str, Any]:
        if self.quota is not None:
            value = {"value": self.quota.value, "before": self.quota.before}
            return self._json("quota", str(self.quota.key), None) | value
        if self.user is None:
            return self._json("acl", str(self.acl), None)
        return self._json("user", self.user.name, self.user.mechanism)

    def _json(self, kind: str, name: str, mechanism: str | None) -> dict[str, Any]:
        return {"action": self.action, "kind": kind, "name": name, "mechanism": mechanism}


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedRights:
    """The steps of one cluster, as `plan` shows them."""

    cluster: str
    changes: tuple[RightsChange, ...] = ()
    unknown: str | None = None
    """Why not everything could be compared yet."""

    def lines(self) -> list[str]:
        """Return one line per step, and one for what is not known."""
        found = [f"{self.cluster}: {each.sentence()}" for each in self.changes]
        if self.unknown is not None:
            found.append(f"{self.cluster}: {self.unknown}")
        return found

    def as_json(self) -> dict[str, Any]:
        changes = [each.as_json() for each in self.changes]
        return {"cluster": self.cluster, "changes": changes, "unknown": self.unknown}


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnedRights:
    """What the file created in a cluster."""

    users: frozenset[UserKey] = frozenset()
    acls: frozenset[Acl] = frozenset()
    quotas: frozenset[QuotaKey] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownRights:
    """What a cluster has."""

    users: Mapping[UserKey, ScramCredential]
    """At least those that are wanted or owned."""
    acls: Collection[Acl] | None
    """None if brokers have no authorizer, and so tell no ACLs."""
    owned: OwnedRights
    quotas: Mapping[QuotaKey, float] = field(default_factory=dict)
    """Every quota, or none if none is wanted or owned."""


def differences(
    passwords: Mapping[UserKey, str],
    acls: Collection[Acl],
    known: KnownRights,
    quotas: Mapping[QuotaKey, float] = MappingProxyType({}),
) -> list[RightsChange]:
    """Return the steps in the order in which they are applied."""
    changes = [*_new_users(passwords, known)]
    if known.acls is not None:
        created = sorted(set(acls) - set(known.acls), key=_denials_first)
        owned_there = known.owned.acls & set(known.acls)
        deleted = sorted(owned_there - set(acls), key=_denials_first, reverse=True)
        changes += [RightsChange(action="create", acl=acl) for acl in created]
        changes += [RightsChange(action="delete", acl=acl) for acl in deleted]
    gone = sorted(known.owned.users & known.users.keys() - passwords.keys())
    changes += [RightsChange(action="delete", user=user) for user in gone]
    return [*changes, *_quota_changes(quotas, known)]


def owned_while_applying(owned: OwnedRights, changes: Sequence[RightsChange]) -> OwnedRights:
    """Return what is owned or about to be created: written before the first step.

    So whatever a crash leaves behind is known as created by the file.
    """
    created = [each for each in changes if each.action == "create"]
    return OwnedRights(
        users=owned.users | {each.user for each in created if each.user is not None},
        acls=owned.acls | {each.acl for each in created if each.acl is not None},
        quotas=owned.quotas | _quotas_of(created),
    )


def owned_afterwards(known: KnownRights, done: Sequence[RightsChange]) -> OwnedRights:
    """Return what is owned after the steps `done`. What vanished from the cluster is forgotten."""
    created = owned_while_applying(OwnedRights(), done)
    deleted = [each for each in done if each.action == "delete"]
    users = known.owned.users & known.users.keys()
    acls = known.owned.acls if known.acls is None else known.owned.acls & set(known.acls)
    return OwnedRights(
        users=(users | created.users) - {each.user for each in deleted if each.user is not None},
        acls=(acls | created.acls) - {each.acl for each in deleted if each.acl is not None},
        quotas=(known.owned.quotas & known.quotas.keys() | created.quotas) - _quotas_of(deleted),
    )


def encode_owned(owned: OwnedRights) -> bytes:
    """Return the JSON that `decode_owned` reads."""
    document = {
        "version": OWNED_VERSION,
        "users": sorted(owned.users),
        "acls": sorted(owned.acls),
    }
    if owned.quotas:  # An older version reads the list without them.
        document["quotas"] = sorted(owned.quotas, key=lambda each: each.order)
    return json.dumps(document, separators=(",", ":")).encode()


def decode_owned(payload: bytes) -> OwnedRights:
    """Read the list of owned rights. Raises ValueError for any other bytes."""
    document = parse_object(payload)
    version = integer(document.get("version"))
    if version != OWNED_VERSION:
        raise ValueError(f"version {version}, not {OWNED_VERSION}")
    try:
        users = frozenset(UserKey(*map(string, each)) for each in document["users"])
        acls = frozenset(_owned_acl(*each) for each in document["acls"])
        quotas = frozenset(_owned_quota(*each) for each in document.get("quotas", ()))
    except (KeyError, TypeError) as error:
        raise ValueError(f"not a list of owned rights: {type(error).__name__}") from error
    return OwnedRights(users=users, acls=acls, quotas=quotas)


def _owned_acl(kind: Any, name: Any, pattern: Any, principal: Any, *rest: Any) -> Acl:
    """Return an ACL of the list. Raises ValueError, TypeError."""
    host, operation, permission = rest
    return Acl(
        integer(kind),
        string(name),
        integer(pattern),
        string(principal),
        string(host),
        integer(operation),
        integer(permission),
    )


def _owned_quota(entity: Any, quota: Any) -> QuotaKey:
    """Return a quota of the list. Raises ValueError, TypeError."""
    parts = tuple((string(kind), None if name is None else string(name)) for kind, name in entity)
    return QuotaKey(parts, string(quota))


def _quotas_of(changes: Sequence[RightsChange]) -> frozenset[QuotaKey]:
    return frozenset(each.quota.key for each in changes if each.quota is not None)


def _quota_changes(wanted: Mapping[QuotaKey, float], known: KnownRights) -> Iterator[RightsChange]:
    for key, value in wanted.items():
        before = known.quotas.get(key)
        if before is None:
            yield RightsChange(action="create", quota=QuotaStep(key, value, None))
        elif before != value:
            is_foreign = key not in known.owned.quotas
            yield RightsChange(action="change", quota=QuotaStep(key, value, before, is_foreign))
    gone = known.owned.quotas & known.quotas.keys() - wanted.keys()
    for key in sorted(gone, key=lambda each: each.order):
        yield RightsChange(action="delete", quota=QuotaStep(key, None, known.quotas[key]))


def _new_users(passwords: Mapping[UserKey, str], known: KnownRights) -> Iterator[RightsChange]:
    for user, password in passwords.items():
        credential = known.users.get(user)
        if credential is None:
            yield RightsChange(action="create", user=user)
        elif not _fits(user.mechanism, password, credential):
            yield RightsChange(action="change", user=user)


def _fits(mechanism: str, password: str, credential: ScramCredential) -> bool:
    mine = credential_of(mechanism, password, credential.salt, credential.iterations)
    same_key = hmac.compare_digest(mine.stored_key, credential.stored_key)
    return same_key and hmac.compare_digest(mine.server_key, credential.server_key)


def _denials_first(acl: Acl) -> tuple[bool, Acl]:
    return acl.permission != Permission.DENY, acl
