"""Decides what a principal may do, as Kafka 4.4's StandardAuthorizer does. Pure.

| what holds for the request, first match first | decision |
|---|---|
| the principal is a super user | allowed |
| an ACL that covers the resource denies it | denied |
| an ACL that covers the resource allows it | allowed |
| it changes what is reserved, and no allowing ACL names that (`reserved_names`) | denied |
| no ACL at all covers the resource, whoever it names | `allow_if_no_acl` |
| otherwise | denied |

An ACL that allows READ, WRITE, DELETE or ALTER also allows DESCRIBE; one that allows ALTER_CONFIGS
also allows DESCRIBE_CONFIGS. An ACL that denies these denies nothing else.

Deviations from Kafka, whose search for ACLs goes wrong for names that are rare and legal for groups
and transactional ids. The table above holds for these names as well:

- A name that begins with "*" is not covered by wildcard ACLs in Kafka, not even by denying ones.
- A name that sorts before "*" can make Kafka's search fail or never end ("$b" if "$a" has an ACL).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

from local_cluster.security.authorization.acl_image import AclImage, Entry, Resource
from local_cluster.security.authorization.hosts import matches_host
from local_cluster.security.authorization.reserved_names import PREFIX, ReservedNames
from local_cluster.wire.constants import (
    WILDCARD,
    WILDCARD_PRINCIPAL,
    Acl,
    AclOperation,
    PatternType,
    Permission,
    ResourceType,
)

_IMPLY: Final = {
    AclOperation.DESCRIBE: frozenset(
        {
            AclOperation.DESCRIBE,
            AclOperation.READ,
            AclOperation.WRITE,
            AclOperation.DELETE,
            AclOperation.ALTER,
        }
    ),
    AclOperation.DESCRIBE_CONFIGS: frozenset(
        {AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS}
    ),
}
"""The operations whose permission implies another one."""
_ANY_NAME: Final = "hardcode"
"""The name that Kafka asks for first when any resource of a type will do."""


class Rule(Enum):
    """Why a request was decided, if not by an ACL. The values are Kafka's words."""

    SUPER_USER = "SuperUser"
    DEFAULT_ALLOW = "DefaultAllow"
    DEFAULT_DENY = "DefaultDeny"
    NO_IMAGE = "no complete image of the ACLs"
    CREDENTIAL_READERS = "heliograph.scram.credential.readers, which does not name the principal"
    GUARDED_USER = "the rule that links touch no user of brokers, services and administrators"
    NO_TLS = "the rule that stored credentials need a connection with TLS"
    MIRROR_PRODUCER = "the rule that only mirrors write with producer ids of mirrors"
    RESERVED_TOPIC = f"the rule that only an ACL on {PREFIX}... allows changes of topics of mirrors"
    RESERVED_GROUP = f"the rule that only an ACL on {PREFIX}... allows changes of groups of mirrors"
    RESERVED_TRANSACTION = f"the rule that only an ACL on {PREFIX}... allows such transactions"


class Decision(NamedTuple):
    """Whether a request is allowed, and by which rule."""

    is_allowed: bool
    rule: Rule | Acl


@dataclass(frozen=True, slots=True)
class Policy:
    """What the broker's configs say about rights."""

    super_users: frozenset[str] = frozenset()
    """Principals that may do anything (super.users)."""
    allow_if_no_acl: bool = False
    """The decision on a resource that no ACL covers (allow.everyone.if.no.acl.found)."""
    reserved: ReservedNames | None = None
    """Names that no general ACL allows to change; None if there are none."""

    def guards(
        self, principal: str, operation: AclOperation, resource_type: int, name: str
    ) -> bool:
        """Return whether only an ACL that names what is reserved can allow this."""
        return (
            self.reserved is not None
            and principal not in self.super_users
            and self.reserved.guards(principal, operation, resource_type, name)
        )


class Asking(NamedTuple):
    """Who asks, and from where."""

    principal: str
    """Type and name, such as "User:alice"."""
    host: str
    """The address as Java prints it, see `hosts.java_host`."""


_SUPER_USER: Final = Decision(True, Rule.SUPER_USER)
_RESERVED: Final[Mapping[int, Decision]] = {
    ResourceType.TOPIC: Decision(False, Rule.RESERVED_TOPIC),
    ResourceType.GROUP: Decision(False, Rule.RESERVED_GROUP),
    ResourceType.TRANSACTIONAL_ID: Decision(False, Rule.RESERVED_TRANSACTION),
}
_DEFAULT_DENY: Final = Decision(False, Rule.DEFAULT_DENY)
_DEFAULT_ALLOW: Final = Decision(True, Rule.DEFAULT_ALLOW)


def decide(
    policy: Policy,
    image: AclImage | None,
    asking: Asking,
    operation: AclOperation,
    resource_type: int,
    name: str,
) -> Decision:
    """Decide on one resource. Without an image only super users may do anything."""
    if asking.principal in policy.super_users:
        return _SUPER_USER
    if image is None:
        return Decision(False, Rule.NO_IMAGE)
    allowing: Acl | None = None
    is_covered = False
    is_guarded = policy.guards(asking.principal, operation, resource_type, name)
    for resource, entries in image.covering(resource_type, name):
        is_covered = True
        for entry in entries:
            if not _names(entry, asking):
                continue
            if entry.permission != Permission.ALLOW:
                if entry.operation in (AclOperation.ALL, operation):
                    return Decision(False, entry.bind(resource))
            elif is_guarded and not resource.name.startswith(PREFIX):
                continue
            elif allowing is None and _allows(entry.operation, operation):
                allowing = entry.bind(resource)
    if allowing is not None:
        return Decision(True, allowing)
    if is_guarded:
        return _RESERVED[resource_type]
    if not is_covered and policy.allow_if_no_acl:
        return _DEFAULT_ALLOW
    return _DEFAULT_DENY


def decide_by_resource_type(
    policy: Policy,
    image: AclImage | None,
    asking: Asking,
    operation: AclOperation,
    resource_type: int,
) -> Decision:
    """Decide whether the principal may do an operation on at least one resource of a type.

    A wildcard ACL that denies it decides. An allowing ACL counts unless denying ones cover all of
    its names: the same literal, or a prefix of it. Nothing is implied here, as in Kafka
    (Authorizer.authorizeByResourceType), except for what the first question below implies.
    """
    first = decide(policy, image, asking, operation, resource_type, _ANY_NAME)
    if first.is_allowed or image is None:
        return first
    allowing: list[tuple[Resource, Entry]] = []
    denied: dict[Resource, Entry] = {}
    for resource, entry in _concerning(image, asking, operation, resource_type):
        if entry.permission == Permission.ALLOW:
            allowing.append((resource, entry))
        elif _is_wildcard(resource):
            return Decision(False, entry.bind(resource))
        else:
            denied[resource] = entry
    # A wildcard first: no prefix and no literal denies all of its names.
    allowing.sort(key=lambda each: not _is_wildcard(each[0]))
    denying: Acl | None = None
    for resource, entry in allowing:
        found = None if _is_wildcard(resource) else _denying(resource, denied)
        if found is None:
            return Decision(True, entry.bind(resource))
        denying = denied[found].bind(found)
    return _DEFAULT_DENY if denying is None else Decision(False, denying)


def _concerning(
    image: AclImage, asking: Asking, operation: AclOperation, resource_type: int
) -> Iterator[tuple[Resource, Entry]]:
    """Return every ACL on resources of a type that names the principal and the operation."""
    for resource, entries in image.of_type(resource_type):
        for entry in entries:
            if entry.operation in (AclOperation.ALL, operation) and _names(entry, asking):
                yield resource, entry


def _denying(resource: Resource, denied: dict[Resource, Entry]) -> Resource | None:
    """Return the denied resource that covers every name of an allowed one, if any."""
    kind, pattern_type, name = resource
    if pattern_type == PatternType.LITERAL and resource in denied:
        return resource
    prefixes = (Resource(kind, PatternType.PREFIXED, name[:n]) for n in range(1, len(name) + 1))
    return next((prefix for prefix in prefixes if prefix in denied), None)


def _is_wildcard(resource: Resource) -> bool:
    return resource.pattern_type == PatternType.LITERAL and resource.name == WILDCARD


def _names(entry: Entry, asking: Asking) -> bool:
    return entry.principal in (asking.principal, WILDCARD_PRINCIPAL) and matches_host(
        entry.host, asking.host
    )


def _allows(granted: int, operation: AclOperation) -> bool:
    if granted in (AclOperation.ALL, operation):
        return True
    implying = _IMPLY.get(operation)
    return implying is not None and granted in implying
