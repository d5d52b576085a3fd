"""One term of a controller: every write of the term carries its fence.

A commit begins with a check of /controller_epoch's znode version, which the next controller's
election raises: a deposed controller's writes fail as a whole, whatever it still believes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from local_cluster.controller.model import znodes
from local_cluster.controller.zk.coordination import (
    CheckVersion,
    CommitConflict,
    Coordination,
    ZkOp,
)

CONFLICTS_MAX: Final = 5
"""How often one write is tried anew after somebody else was faster."""


class Fenced(Exception):
    """Another controller was elected: this term is over."""


@dataclass(frozen=True, slots=True)
class Term:
    """What an election gave."""

    controller_epoch: int
    epoch_zk_version: int
    """Version of the /controller_epoch znode that belongs to this term."""

    async def commit(self, coordination: Coordination, ops: Sequence[ZkOp]) -> tuple[int, ...]:
        """Commit under the fence; the new version of each operation's znode.

        Raises Fenced, CommitConflict (its index counts `ops`) or CoordinationUnavailable.
        """
        fence = CheckVersion(znodes.CONTROLLER_EPOCH, self.epoch_zk_version)
        try:
            versions = await coordination.commit((fence, *ops))
        except CommitConflict as conflict:
            if conflict.index == 0:
                raise Fenced(f"controller epoch {self.controller_epoch} is over") from conflict
            raise CommitConflict(conflict.index - 1, conflict.op, conflict.conflict) from conflict
        return versions[1:]
