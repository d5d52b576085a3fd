"""ACLs of our own clusters as the file declares them, and as Kafka keeps them. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Final, Literal

from pydantic import Field

from local_cluster.wire.constants import (
    CLUSTER_NAME,
    WILDCARD,
    Acl,
    AclOperation,
    PatternType,
    Permission,
    ResourceType,
)
from topology.model.scalars import Entry

RIGHTS_MAX: Final = 2_000
"""Users, ACLs and quotas that one cluster may declare; the list of those that `up` created is one
znode."""

Operation = Literal[
    "ALL",
    "READ",
    "WRITE",
    "CREATE",
    "DELETE",
    "ALTER",
    "DESCRIBE",
    "CLUSTER_ACTION",
    "DESCRIBE_CONFIGS",
    "ALTER_CONFIGS",
    "IDEMPOTENT_WRITE",
    "TWO_PHASE_COMMIT",
]
ANY_PRINCIPAL_PATTERN = r"^[^:\s]+:.+$"
Principal = Annotated[str, Field(pattern=ANY_PRINCIPAL_PATTERN)]
ResourceNames = list[Annotated[str, Field(min_length=1)]]


class AclRule(Entry):
    """One principal, and what it may do to resources: one ACL per operation and resource."""

    principal: Principal
    """Type and name, such as User:alice; User:* is everyone."""
    operations: Annotated[list[Operation], Field(min_length=1)]
    """Kafka's operations, such as READ."""
    topics: ResourceNames = []
    """Topics; * for all."""
    groups: ResourceNames = []
    """Groups; * for all."""
    transactional_ids: ResourceNames = []
    """Transactional ids; * for all."""
    on_cluster: bool = False
    """The cluster itself."""
    prefixed: bool = False
    """Whether the names are prefixes of names."""
    deny: bool = False
    """Deny instead of allow; a denial wins."""
    host: Annotated[str, Field(min_length=1)] = WILDCARD
    """Only from this address; * for all."""

    @property
    def resources(self) -> list[tuple[ResourceType, str]]:
        """The resources, by type and name."""
        return [
            *((ResourceType.TOPIC, name) for name in self.topics),
            *((ResourceType.GROUP, name) for name in self.groups),
            *((ResourceType.TRANSACTIONAL_ID, name) for name in self.transactional_ids),
            *([(ResourceType.CLUSTER, CLUSTER_NAME)] if self.on_cluster else []),
        ]

    def acls(self) -> list[Acl]:
        """Return one ACL per operation and resource."""
        return acls_of(
            self.principal,
            [AclOperation[name] for name in self.operations],
            self.resources,
            host=self.host,
            deny=self.deny,
            prefixed=self.prefixed,
        )


def acls_of(
    principal: str,
    operations: Iterable[AclOperation],
    resources: Iterable[tuple[ResourceType, str]],
    *,
    host: str,
    deny: bool,
    prefixed: bool,
) -> list[Acl]:
    """Return one ACL per operation and resource."""
    wanted = list(operations)
    return [
        Acl(
            resource_type=int(resource),
            resource_name=name,
            # The cluster has one name, and no prefix of it.
            pattern_type=int(
                PatternType.PREFIXED
                if prefixed and resource is not ResourceType.CLUSTER
                else PatternType.LITERAL
            ),
            principal=principal,
            host=host,
            operation=int(operation),
            permission=int(Permission.DENY if deny else Permission.ALLOW),
        )
        for resource, name in resources
        for operation in wanted
    ]
