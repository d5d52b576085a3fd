"""What a link does on its target besides copying: it commits positions and owns configs. Pure.

Links of the opposite direction read these marks, so they do not take a mirror's work for native.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class MirroredCommit:
    """A position that the link commits for a group in a partition of its target.

    The mark is written before the commit. The target may refuse the commit, so the position before
    it counts too, if it was the link's.
    """

    group_id: str
    topic: str
    """Topic of the target."""
    partition: int
    before: int | None
    """The position that the link had committed before; None if it was not the link's."""
    wanted: int

    def explains(self, offset: int) -> bool:
        """Return whether the link may have caused this position of the group.

        A group that commits the very offset that it was given adds no information.
        """
        return offset in (self.before, self.wanted)


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnedCopy:
    """A copy that the link owns: its configs and ACLs follow the link's source."""

    topic: str
    """Topic of the target."""
    target_topic_id: uuid.UUID
    source_topic: str
    source_topic_id: uuid.UUID
    is_created: bool
    """Whether the link created the copy; otherwise the setting `leads` names it."""
