"""ACLs as rows, and the ACLs that a command line names. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import Any, Final

from local_cluster.wire.constants import Acl, AclOperation, PatternType, Permission, ResourceType
from topology.model.rights import acls_of
from topology.problems import unknown_name

_NOT_GRANTED: Final = frozenset({AclOperation.ANY})


def acl_row(acl: Acl) -> dict[str, Any]:
    """Return one ACL with Kafka's names; a number that is newer than these stays a number."""
    return {
        "permission": _name(Permission, acl.permission),
        "principal": acl.principal,
        "host": acl.host,
        "operation": _name(AclOperation, acl.operation),
        "resource": _name(ResourceType, acl.resource_type),
        "name": acl.resource_name,
        "pattern": _name(PatternType, acl.pattern_type),
    }


def _name(kind: type[IntEnum], number: int) -> str:
    known = {int(each): each.name for each in kind}
    return known.get(number, str(number))


def operations(names: Sequence[str]) -> list[AclOperation]:
    """Return the operations of names such as READ or describe-configs. Raises ValueError."""
    known = {each.name: each for each in AclOperation if each not in _NOT_GRANTED}
    found = []
    for name in names:
        upper = name.upper().replace("-", "_")
        if upper not in known:
            raise ValueError(unknown_name("operation", name, known))
        found.append(known[upper])
    return found


def check_principal(principal: str) -> str:
    """Return a principal such as User:alice. Raises ValueError."""
    kind, separator, name = principal.partition(":")
    if not separator or not kind or not name:
        raise ValueError(f"principal {principal!r} is not TYPE:NAME, such as User:alice")
    return principal


def wanted_acls(
    principal: str,
    names: Sequence[str],
    resources: Iterable[tuple[ResourceType, str]],
    *,
    host: str,
    deny: bool,
    prefixed: bool,
) -> list[Acl]:
    """Return one ACL per operation and resource. Raises ValueError."""
    found = acls_of(
        check_principal(principal),
        operations(names),
        resources,
        host=host,
        deny=deny,
        prefixed=prefixed,
    )
    if not found:
        raise ValueError("name a resource: --topic, --group, --transactional-id or --on-cluster")
    return found
