"""Topics of mirrors, probes and Spark: a right on every topic is no right to change these. Pure.

Their names begin with PREFIX. Mirrors trust what lies there: a forged record in an offset map would
decide which records count as copies. So these topics are changed only by

- super users;
- writers that the settings name, if an ACL allows it, also one on `*`;
- principals with an ACL that names such topics: its own name begins with PREFIX.

Reading is decided by the ACLs alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from local_cluster.wire.constants import AclOperation

PREFIX: Final = "heliograph-"
MAPS: Final = f"{PREFIX}offset-map."
"""The prefix of offset maps; who may write there is a mirror."""
CHANGES: Final = frozenset(
    {
        AclOperation.WRITE,
        AclOperation.CREATE,
        AclOperation.DELETE,
        AclOperation.ALTER,
        AclOperation.ALTER_CONFIGS,
    }
)
"""Operations on a topic that change it."""


@dataclass(frozen=True, slots=True)
class ReservedTopics:
    """Who may change which topics of PREFIX by a general ACL."""

    writers: Mapping[str, frozenset[str]]
    """Principals by a prefix of names."""

    def guards(self, principal: str, operation: AclOperation, topic: str) -> bool:
        """Return whether a principal needs an ACL that names these topics."""
        if operation not in CHANGES or not topic.startswith(PREFIX):
            return False
        return not self.names_writer(principal, topic)

    def names_writer(self, principal: str, topic: str) -> bool:
        """Return whether the settings name a principal as a writer of such topics."""
        return any(
            principal in principals and topic.startswith(prefix)
            for prefix, principals in self.writers.items()
        )
