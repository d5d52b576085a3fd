"""Reserved topics, groups and transactional ids of mirrors, probes and Spark. Pure.

Their names begin with PREFIX. A forged record in an offset map would decide which records count as
copies. A stranger in the group of the mirror workers would take their partitions. So they are
changed only by

- super users;
- writers that the settings name, if an ACL allows it, also one on `*`;
- principals with an ACL that names them: its own name begins with PREFIX.

Reading topics and describing groups is decided by the ACLs alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from local_cluster.broker_configs import ReservedType
from local_cluster.wire.constants import AclOperation, ResourceType

PREFIX: Final = "heliograph-"
MAPS: Final = f"{PREFIX}offset-map."
"""The prefix of offset maps; who may write there is a mirror."""
GROUPS_OF_MIRRORS: Final = f"{PREFIX}mirror-"
TRANSACTIONS_OF_SPARK: Final = f"{PREFIX}serve-"
CHANGES: Final[Mapping[int, frozenset[AclOperation]]] = {
    ResourceType.TOPIC: frozenset(
        {
            AclOperation.WRITE,
            AclOperation.CREATE,
            AclOperation.DELETE,
            AclOperation.ALTER,
            AclOperation.ALTER_CONFIGS,
        }
    ),
    # Joining a group and committing its offsets is READ.
    ResourceType.GROUP: frozenset(
        {AclOperation.READ, AclOperation.DELETE, AclOperation.ALTER_CONFIGS}
    ),
    ResourceType.TRANSACTIONAL_ID: frozenset({AclOperation.WRITE, AclOperation.TWO_PHASE_COMMIT}),
}
"""Operations that change a resource, by its type."""
RESERVED_TYPES: Final[Mapping[ReservedType, ResourceType]] = {
    "topics": ResourceType.TOPIC,
    "groups": ResourceType.GROUP,
    "transactional_ids": ResourceType.TRANSACTIONAL_ID,
}
"""The types of CHANGES by the words of the setting `internal_types_reserved`."""


@dataclass(frozen=True, slots=True)
class ReservedNames:
    """Who may change which names of PREFIX by a general ACL."""

    writers: Mapping[str, frozenset[str]]
    """Principals by a prefix of names."""
    types: frozenset[int] = frozenset(CHANGES)
    """Types of resources whose names are reserved."""

    def guards(
        self, principal: str, operation: AclOperation, resource_type: int, name: str
    ) -> bool:
        """Return whether a principal needs an ACL that names what is reserved."""
        if resource_type not in self.types or not name.startswith(PREFIX):
            return False
        if operation not in CHANGES[resource_type]:
            return False
        return not self.names_writer(principal, name)

    def names_writer(self, principal: str, name: str) -> bool:
        """Return whether the settings name a principal as a writer of such names."""
        return any(
            principal in principals and name.startswith(prefix)
            for prefix, principals in self.writers.items()
        )
