"""ACLs as the protocol names them: numbers of Kafka's enumerations, and one binding. Pure."""

from __future__ import annotations

from enum import IntEnum
from typing import Final, NamedTuple

from local_cluster.wire.constants import AclOperation

WILDCARD: Final = "*"
"""The resource name of a literal ACL, or the host, that stands for every one."""
WILDCARD_PRINCIPAL: Final = "User:*"
CLUSTER_NAME: Final = "kafka-cluster"
"""The only name of a CLUSTER resource."""


class ResourceType(IntEnum):
    """The kind of resource that an ACL protects."""

    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(IntEnum):
    """How an ACL names the resource."""

    ANY = 1
    MATCH = 2
    """Only in filters: every pattern that covers the name."""
    LITERAL = 3
    PREFIXED = 4


class Permission(IntEnum):
    """Whether an ACL allows or denies."""

    ANY = 1
    DENY = 2
    ALLOW = 3


class Acl(NamedTuple):
    """One ACL binding. Its numbers may be newer than the enumerations here."""

    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission: int

    def __str__(self) -> str:
        named = (
            _name(Permission, self.permission),
            self.principal,
            f"from {self.host}",
            _name(AclOperation, self.operation),
            _name(ResourceType, self.resource_type),
            f"{self.resource_name!r}",
            _name(PatternType, self.pattern_type),
        )
        return " ".join(named)


def _name(kind: type[IntEnum], value: int) -> str:
    return kind(value).name if value in {int(known) for known in kind} else str(value)
