"""Checks an ACL before it is created, as Kafka 4.4 does (AclApis, AclControlManager). Pure."""

from __future__ import annotations

from typing import Final

from local_cluster.security.authorization.acl_image import Entry, split
from local_cluster.security.authorization.acl_znodes import (
    PAYLOAD_BYTES_MAX,
    encode_entries,
    is_storable,
)
from local_cluster.security.authorization.hosts import check_block
from local_cluster.wire.constants import (
    CLUSTER_NAME,
    WILDCARD,
    Acl,
    AclOperation,
    PatternType,
    Permission,
    ResourceType,
)
from local_cluster.wire.errors import ErrorCode, KafkaError

_RESOURCE_TYPES: Final = {int(each): each.name for each in ResourceType}
_PATTERN_TYPES: Final = {int(each): each.name for each in PatternType}
_OPERATIONS: Final = {int(each): each.name for each in AclOperation}
_PERMISSIONS: Final = {int(each): each.name for each in Permission}
_UNKNOWN: Final = "UNKNOWN"


def find_problem(acl: Acl) -> KafkaError | None:
    """Return why an ACL cannot be created, None if it can be."""
    message = _problem(acl)
    return None if message is None else KafkaError(ErrorCode.invalid_request, message)


def check_size(entries: frozenset[Entry]) -> None:
    """Raise KafkaError if the ACLs of one resource are too large for a znode."""
    size_bytes = len(encode_entries(entries))
    if size_bytes > PAYLOAD_BYTES_MAX:
        raise KafkaError(
            ErrorCode.invalid_request,
            f"the ACLs of the resource take {size_bytes} bytes, at most {PAYLOAD_BYTES_MAX} fit "
            "into ZooKeeper: use wildcards, prefixes or fewer principals",
        )


def _problem(acl: Acl) -> str | None:
    if acl.resource_type == ResourceType.CLUSTER and acl.resource_name != CLUSTER_NAME:
        return f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}"
    if not acl.resource_name:
        return "Invalid empty resource name"
    return _odd_number(acl) or _odd_text(acl)


def _odd_number(acl: Acl) -> str | None:
    kind = _RESOURCE_TYPES.get(acl.resource_type, _UNKNOWN)
    if kind in (_UNKNOWN, "ANY"):
        return f"Invalid resourceType {kind}"
    pattern = _PATTERN_TYPES.get(acl.pattern_type, _UNKNOWN)
    if pattern not in ("LITERAL", "PREFIXED"):
        return f"Invalid patternType {pattern}"
    operation = _OPERATIONS.get(acl.operation, _UNKNOWN)
    if operation in (_UNKNOWN, "ANY"):
        return f"Invalid operation {operation}"
    permission = _PERMISSIONS.get(acl.permission, _UNKNOWN)
    if permission not in ("DENY", "ALLOW"):
        return f"Invalid permissionType {permission}"
    return None


def _odd_text(acl: Acl) -> str | None:
    resource, entry = split(acl)
    if ":" not in entry.principal:
        return (
            f"Could not parse principal from `{entry.principal}` (no colon is present separating "
            "the principal type from the principal name)"
        )
    if not entry.host:
        return "Host pattern cannot be null or empty"
    if entry.host != WILDCARD and "/" in entry.host:
        try:
            check_block(entry.host)
        except ValueError as error:
            return f"Invalid CIDR notation '{entry.host}': {error}"
    if not is_storable(resource.name):
        return f"ZooKeeper cannot hold ACLs of a resource named {resource.name!r}"
    return None
