"""Removes a deleted topic from ZooKeeper, its delete mark last.

A controller that dies on the way leaves the mark, and the next one begins anew.
"""

from __future__ import annotations

import contextlib
import logging
from typing import Final

from local_cluster.controller.active.cluster_reader import gather_bounded
from local_cluster.controller.model import znodes
from local_cluster.controller.zk.coordination import CommitConflict, Coordination, Delete
from local_cluster.controller.zk.term import Term

log = logging.getLogger(__name__)

ZNODES_PER_COMMIT_MAX: Final = 1_000
ATTEMPTS_MAX: Final = 5


class TopicEraser:
    """Erases for one term."""

    def __init__(self, coordination: Coordination, term: Term) -> None:
        self._coordination = coordination
        self._term = term

    async def erase(self, topic: str) -> bool:
        """Remove every znode of the topic; False where others keep changing them.

        Raises Fenced or CoordinationUnavailable.
        """
        for _ in range(ATTEMPTS_MAX):
            paths = await self._paths(topic)
            try:
                for start in range(0, len(paths), ZNODES_PER_COMMIT_MAX):
                    part = paths[start : start + ZNODES_PER_COMMIT_MAX]
                    await self._term.commit(self._coordination, [Delete(path) for path in part])
            except CommitConflict as conflict:
                log.warning("erasing topic %s anew: %s", topic, conflict)
            else:
                return True
        log.error("topic %s could not be erased; the next controller tries again", topic)
        return False

    async def clear_mark(self, topic: str) -> None:
        """Remove a delete mark; it may be gone already."""
        with contextlib.suppress(CommitConflict):
            await self._term.commit(self._coordination, (Delete(znodes.delete_topic_path(topic)),))

    async def _paths(self, topic: str) -> list[str]:
        """What is there of the topic, children before their parents."""
        root = znodes.partitions_path(topic)
        partitions = [f"{root}/{name}" for name in await self._coordination.children(root)]
        below = await gather_bounded(partitions, self._coordination.children)
        paths = [
            path
            for partition, names in below
            for path in (*(f"{partition}/{name}" for name in names), partition)
        ]
        for path in (
            root,
            znodes.topic_path(topic),
            znodes.topic_config_path(topic),
            znodes.delete_topic_path(topic),
        ):
            if await self._coordination.read(path) is not None:
                paths.append(path)
        return paths
