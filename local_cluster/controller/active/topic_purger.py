"""SHELL: removes the znodes of a deleted topic, its deletion mark last.

If the controller dies before the end, the mark is still there, and the next controller starts over.
"""

from __future__ import annotations

import contextlib
import logging
from typing import Final

from local_cluster.controller.model import znode_paths
from local_cluster.controller.zk.bulk_reads import gather_bounded
from local_cluster.controller.zk.coordination import CommitConflict, Coordination, Delete
from local_cluster.controller.zk.term import Term

log = logging.getLogger(__name__)

ZNODES_PER_COMMIT_MAX: Final = 1_000
ATTEMPTS_MAX: Final = 5


class TopicPurger:
    """The purges of one term."""

    def __init__(self, coordination: Coordination, term: Term) -> None:
        self._coordination = coordination
        self._term = term

    async def purge(self, topic: str) -> bool:
        """Remove every znode of the topic; return False if other writers keep changing them.

        Raises Fenced or CoordinationUnavailable.
        """
        for _ in range(ATTEMPTS_MAX):
            paths = await self._paths(topic)
            try:
                for start in range(0, len(paths), ZNODES_PER_COMMIT_MAX):
                    part = paths[start : start + ZNODES_PER_COMMIT_MAX]
                    await self._term.commit(self._coordination, [Delete(path) for path in part])
            except CommitConflict as conflict:
                log.warning("retrying to purge topic %s: %s", topic, conflict)
            else:
                return True
        log.error("cannot purge topic %s; the next controller tries again", topic)
        return False

    async def clear_mark(self, topic: str) -> None:
        """Remove a deletion mark; it may be gone already."""
        with contextlib.suppress(CommitConflict):
            await self._term.commit(
                self._coordination, (Delete(znode_paths.delete_topic_path(topic)),)
            )

    async def _paths(self, topic: str) -> list[str]:
        """Return the existing znodes of the topic, children before their parents."""
        root = znode_paths.partitions_path(topic)
        partitions = [f"{root}/{name}" for name in await self._coordination.children(root)]
        below = await gather_bounded(partitions, self._coordination.children)
        paths = [
            path
            for partition, names in below
            for path in (*(f"{partition}/{name}" for name in names), partition)
        ]
        for path in (
            root,
            znode_paths.topic_path(topic),
            znode_paths.topic_config_path(topic),
            znode_paths.delete_topic_path(topic),
        ):
            if await self._coordination.read(path) is not None:
                paths.append(path)
        return paths
