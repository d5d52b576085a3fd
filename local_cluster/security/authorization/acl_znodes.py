"""ACLs in ZooKeeper, as Kafka 3.9.1 stores them (kafka.zk.ZkData, AclEntry). Pure.

    /kafka-acl/Topic/orders                     the ACLs of a literal name, or of "*"
    /kafka-acl-extended/prefixed/Topic/orders   the ACLs of a prefix
    /kafka-acl-changes/acl_changes_0000000007   "TOPIC:orders": these ACLs have changed
    /kafka-acl-extended-changes/acl_changes_... the same for a prefix, in JSON

Decoders raise UnreadableZnodeError on anything else.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import IntEnum
from typing import Final, TypeVar

from local_cluster.controller.model import znode_paths
from local_cluster.controller.model.znode_json import (
    decode_json,
    encode_json,
    integer_of,
    objects_of,
    reading,
    string_of,
)
from local_cluster.security.authorization.acl_image import Entry, Resource
from local_cluster.wire.constants import AclOperation, PatternType, Permission, ResourceType

PAYLOAD_BYTES_MAX: Final = 1_000_000
"""Just below ZooKeeper's default of jute.maxbuffer (0xfffff bytes)."""
STORED_TYPES: Final = tuple(each for each in ResourceType if each != ResourceType.ANY)
ROOTS: Final = {
    PatternType.LITERAL: znode_paths.ACLS,
    PatternType.PREFIXED: znode_paths.PREFIXED_ACLS,
}
CHANGES: Final = {
    PatternType.LITERAL: znode_paths.ACL_CHANGES,
    PatternType.PREFIXED: znode_paths.PREFIXED_ACL_CHANGES,
}
_VERSION: Final = 1
_UNSTORABLE: Final = re.compile("[/\x00-\x1f\x7f-\x9f\ud800-\uf8ff\ufff0-\uffff]")
"""What no name of a znode may contain."""

_Named = TypeVar("_Named", bound=IntEnum)


def pascal_case(value: IntEnum) -> str:
    """Return Kafka's name of a number in ZooKeeper: TransactionalId."""
    return "".join(word.capitalize() for word in value.name.split("_"))


def parse_name(kind: type[_Named], name: str) -> _Named:
    """Return the number of a name in any case, with or without underscores."""
    plain = name.replace("_", "").upper()
    for value in kind:
        if value.name.replace("_", "") == plain:
            return value
    raise ValueError(f"unknown {kind.__name__} {name!r}")


def type_path(pattern_type: PatternType, resource_type: ResourceType) -> str:
    """Return the path of all resources of a type."""
    return f"{ROOTS[pattern_type]}/{pascal_case(resource_type)}"


def resource_path(resource: Resource) -> str:
    """Return the path of a resource's ACLs."""
    pattern_type, resource_type, _ = _numbers(resource)
    return f"{type_path(pattern_type, resource_type)}/{resource.name}"


def is_storable(name: str) -> bool:
    """Return whether a resource of this name can be a znode."""
    return name not in ("", ".", "..") and not _UNSTORABLE.search(name)


def layout() -> list[str]:
    """Return the persistent paths, parents first."""
    paths = []
    for pattern_type, root in ROOTS.items():
        parent = root.rpartition("/")[0]
        paths += [parent] if parent else []
        paths.append(root)
        paths += [type_path(pattern_type, each) for each in STORED_TYPES]
    return [*paths, *CHANGES.values()]


def encode_entries(entries: frozenset[Entry]) -> bytes:
    """Encode the ACLs of one resource."""
    acls = [
        {
            "principal": entry.principal,
            "permissionType": pascal_case(Permission(entry.permission)),
            "host": entry.host,
            "operation": pascal_case(AclOperation(entry.operation)),
        }
        for entry in sorted(entries)
    ]
    return encode_json({"acls": acls, "version": _VERSION})


def decode_entries(payload: bytes) -> frozenset[Entry]:
    """Read the ACLs of one resource; an empty znode has none."""
    with reading("ACLs"):
        return frozenset(_entries(payload)) if payload else frozenset()


def _entries(payload: bytes) -> Iterator[Entry]:
    """Yield the ACLs of a payload. Raises ValueError."""
    if integer_of(decode_json(payload), "version") != _VERSION:
        raise ValueError(f"ACLs of an unknown version: {payload[:100]!r}")
    for each in objects_of(payload, "acls"):
        principal = string_of(each, "principal")
        if ":" not in principal:
            raise ValueError(f"no principal: {principal!r}")
        permission = parse_name(Permission, string_of(each, "permissionType"))
        operation = parse_name(AclOperation, string_of(each, "operation"))
        if permission == Permission.ANY or operation == AclOperation.ANY:
            raise ValueError("ANY is only for filters")
        yield Entry(principal, string_of(each, "host"), operation, permission)


def encode_change(resource: Resource) -> tuple[str, bytes]:
    """Return (path without its number, payload) of a change notification."""
    pattern_type, resource_type, name = _numbers(resource)
    path = f"{CHANGES[pattern_type]}/{znode_paths.ACL_CHANGE}"
    if pattern_type == PatternType.LITERAL:
        return path, f"{resource_type.name}:{name}".encode()
    body = {
        "version": _VERSION,
        "resourceType": resource_type.name,
        "name": name,
        "patternType": pattern_type.name,
    }
    return path, encode_json(body)


def decode_change(pattern_type: PatternType, payload: bytes) -> Resource:
    """Return the resource that a change notification names."""
    with reading("change of ACLs"):
        return _changed(pattern_type, payload)


def _changed(pattern_type: PatternType, payload: bytes) -> Resource:
    """Return the resource of a notification. Raises ValueError."""
    if pattern_type == PatternType.LITERAL:
        kind, colon, name = payload.decode().partition(":")
        if not colon:
            raise ValueError(f"no change of ACLs: {payload[:100]!r}")
    else:
        body = decode_json(payload)
        kind, name = string_of(body, "resourceType"), string_of(body, "name")
        if parse_name(PatternType, string_of(body, "patternType")) != pattern_type:
            raise ValueError(f"no change of prefixed ACLs: {payload[:100]!r}")
    if not is_storable(name):
        raise ValueError(f"no znode is named {name!r}")
    return Resource(parse_name(ResourceType, kind), pattern_type, name)


def _numbers(resource: Resource) -> tuple[PatternType, ResourceType, str]:
    return PatternType(resource.pattern_type), ResourceType(resource.resource_type), resource.name
