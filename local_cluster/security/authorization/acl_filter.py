"""Filters of DescribeAcls and DeleteAcls (KIP-140, KIP-290). Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from local_cluster.security.authorization.acl_image import AclImage, Entry, Resource, split
from local_cluster.wire.constants import (
    WILDCARD,
    Acl,
    AclOperation,
    PatternType,
    Permission,
    ResourceType,
)


class AclFilter(NamedTuple):
    """Which ACLs are meant; None and ANY mean all. The numbers may be unknown ones."""

    resource_type: int
    resource_name: str | None
    pattern_type: int
    principal: str | None
    host: str | None
    operation: int
    permission: int

    def unknown_part(self) -> str | None:
        """Return Kafka's name of the part that has an unknown number, if one has."""
        if not (_is_known(ResourceType, self.resource_type)) or not (
            _is_known(PatternType, self.pattern_type)
        ):
            return "patternFilter"
        if not (_is_known(AclOperation, self.operation)) or not (
            _is_known(Permission, self.permission)
        ):
            return "entryFilter"
        return None

    def exact_resource(self) -> Resource | None:
        """Return the one resource that the filter can match, if it is only one."""
        if (
            self.resource_type == ResourceType.ANY
            or self.resource_name is None
            or self.pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED)
        ):
            return None
        return Resource(self.resource_type, self.pattern_type, self.resource_name)

    def matches_resource(self, resource: Resource) -> bool:
        """Return whether the filter means this resource. MATCH means every one that covers it."""
        if self.resource_type not in (ResourceType.ANY, resource.resource_type):
            return False
        wanted = self.pattern_type
        if wanted not in (PatternType.ANY, PatternType.MATCH, resource.pattern_type):
            return False
        name = self.resource_name
        if name is None or name == resource.name:
            # As in Kafka a prefix matches its own name, by startswith.
            return True
        if wanted != PatternType.MATCH:
            return False
        if resource.pattern_type == PatternType.LITERAL:
            return resource.name == WILDCARD
        return name.startswith(resource.name)

    def matches_entry(self, entry: Entry) -> bool:
        """Return whether the filter means this entry, on a resource that it means."""
        return (
            self.principal in (None, entry.principal)
            and self.host in (None, entry.host)
            and self.operation in (AclOperation.ANY, entry.operation)
            and self.permission in (Permission.ANY, entry.permission)
        )


def matching(image: AclImage, wanted: AclFilter) -> Iterator[Acl]:
    """Return the ACLs that a filter means."""
    for acl in image:
        resource, entry = split(acl)
        if wanted.matches_resource(resource) and wanted.matches_entry(entry):
            yield acl


def _is_known(kind: type[ResourceType | PatternType | AclOperation | Permission], n: int) -> bool:
    return any(n == known for known in kind)
