"""What a link does on its target beside copying records: commits positions, makes copies. Pure.

Links that copy in the opposite direction read these marks, so that what came from a mirror is not
taken for what was born there.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class MirroredCommit:
    """A position that the link has committed for a group in a partition of its target.

    Written before the commit. As that may be refused, the position before it counts too, where it
    was the link's.
    """

    group_id: str
    topic: str
    """Of the target."""
    partition: int
    before: int | None
    """The position that the link had committed before; None where it was not the link's."""
    wanted: int

    def explains(self, offset: int) -> bool:
        """Whether a position of the group there is the link's doing.

        A group that commits the very offset that it was given says nothing new with it.
        """
        return offset in (self.before, self.wanted)


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnedCopy:
    """A copy whose configs and ACLs follow the link's source: the link leads it."""

    topic: str
    """Of the target."""
    target_topic_id: uuid.UUID
    source_topic: str
    source_topic_id: uuid.UUID
    is_created: bool
    """Whether the link has made the copy; else its settings say that it leads it."""
