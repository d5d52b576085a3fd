"""Every ACL of a cluster, as one immutable image that is indexed for decisions. Pure.

A changed resource gives a new image, so whoever holds an image sees one consistent set.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple, Self

from local_cluster.wire.constants import WILDCARD, Acl, PatternType


class Resource(NamedTuple):
    """What an ACL protects: a name, or every name with this prefix."""

    resource_type: int
    pattern_type: int
    name: str


class Entry(NamedTuple):
    """One ACL of a resource: who, from where, does what, and whether that is allowed."""

    principal: str
    host: str
    operation: int
    permission: int

    def bind(self, resource: Resource) -> Acl:
        """Return the entry as an ACL of this resource."""
        return Acl(
            resource.resource_type,
            resource.name,
            resource.pattern_type,
            self.principal,
            self.host,
            self.operation,
            self.permission,
        )


class AclImage:
    """The ACLs of every resource that has any."""

    __slots__ = ("_by_resource", "_prefix_lengths")

    def __init__(self, by_resource: Mapping[Resource, frozenset[Entry]]) -> None:
        self._by_resource = {
            resource: entries for resource, entries in by_resource.items() if entries
        }
        lengths: dict[int, set[int]] = {}
        for resource in self._by_resource:
            if resource.pattern_type == PatternType.PREFIXED:
                lengths.setdefault(resource.resource_type, set()).add(len(resource.name))
        self._prefix_lengths = {kind: tuple(sorted(of)) for kind, of in lengths.items()}

    @classmethod
    def of(cls, acls: Iterable[Acl]) -> Self:
        """Return the image of these ACLs."""
        by_resource: dict[Resource, set[Entry]] = {}
        for acl in acls:
            resource, entry = split(acl)
            by_resource.setdefault(resource, set()).add(entry)
        return cls({resource: frozenset(of) for resource, of in by_resource.items()})

    def with_resources(self, changed: Mapping[Resource, frozenset[Entry]]) -> AclImage:
        """Return the image in which these resources have these entries; none means no ACLs."""
        return AclImage({**self._by_resource, **changed})

    def __len__(self) -> int:
        return sum(map(len, self._by_resource.values()))

    def __iter__(self) -> Iterator[Acl]:
        for resource, entries in self._by_resource.items():
            for entry in entries:
                yield entry.bind(resource)

    def entries(self, resource: Resource) -> frozenset[Entry]:
        """Return the ACLs of exactly this resource."""
        return self._by_resource.get(resource, frozenset())

    def of_type(self, resource_type: int) -> Iterator[tuple[Resource, frozenset[Entry]]]:
        """Return the resources of a type, with their ACLs."""
        for resource, entries in self._by_resource.items():
            if resource.resource_type == resource_type:
                yield resource, entries

    def covering(
        self, resource_type: int, name: str
    ) -> Iterator[tuple[Resource, frozenset[Entry]]]:
        """Return every resource that covers a name: literal, wildcard, prefixes, in this order."""
        for literal in dict.fromkeys((name, WILDCARD)):
            yield from self._found(Resource(resource_type, PatternType.LITERAL, literal))
        for length in self._prefix_lengths.get(resource_type, ()):
            if length > len(name):
                return
            yield from self._found(Resource(resource_type, PatternType.PREFIXED, name[:length]))

    def _found(self, resource: Resource) -> Iterator[tuple[Resource, frozenset[Entry]]]:
        entries = self._by_resource.get(resource)
        if entries is not None:
            yield resource, entries


def split(acl: Acl) -> tuple[Resource, Entry]:
    """Return the resource of an ACL, and the entry on it."""
    return (
        Resource(acl.resource_type, acl.pattern_type, acl.resource_name),
        Entry(acl.principal, acl.host, acl.operation, acl.permission),
    )
