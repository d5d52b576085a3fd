"""One term of a controller, and the fence of its writes.

Each commit first checks the znode version of /controller_epoch. The next election raises it, so
every later write of a deposed controller fails as a whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from local_cluster.controller.model import znode_paths
from local_cluster.controller.zk.coordination import (
    CheckVersion,
    CommitConflict,
    Coordination,
    ZkOp,
)

CONFLICTS_MAX: Final = 5
"""How often a write is retried after another writer was faster."""


class Fenced(Exception):
    """Another controller was elected; this term is over."""


@dataclass(frozen=True, slots=True)
class Term:
    """The result of a won election."""

    controller_epoch: int
    epoch_zk_version: int
    """Version of the /controller_epoch znode in this term."""

    async def commit(self, coordination: Coordination, ops: Sequence[ZkOp]) -> tuple[int, ...]:
        """Commit under the fence; return the new version of each znode.

        Raises Fenced, CommitConflict (its index counts `ops`) or CoordinationUnavailable.
        """
        fence = CheckVersion(znode_paths.CONTROLLER_EPOCH, self.epoch_zk_version)
        try:
            versions = await coordination.commit((fence, *ops))
        except CommitConflict as conflict:
            if conflict.index == 0:
                raise Fenced(f"controller epoch {self.controller_epoch} is over") from conflict
            raise CommitConflict(conflict.index - 1, conflict.op, conflict.conflict) from conflict
        return versions[1:]
