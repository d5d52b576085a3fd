"""Commits a link's positions for a group at the source, where ordinary lag tools see them.

The mirror never reads them. A flow's position is the first source offset that is not on the target
yet.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

from local_cluster.client.admin.group_offsets import CommittedOffset, commit_offsets
from local_cluster.client.client import KafkaClient
from local_cluster.client.model import TopicPartition
from local_cluster.wire.errors import ErrorCode, KafkaError
from mirror_maker.link.link import LinkWorker
from mirror_maker.periodic import PeriodicTask, pause_of

log = logging.getLogger(__name__)


class SourceGroupCommitter:
    """The commits of one link's positions on one worker; `run` until cancelled."""

    def __init__(self, link: LinkWorker, source: KafkaClient, group: str) -> None:
        self._link = link
        self._source = source
        self._group = group
        self._committed: dict[TopicPartition, int] = {}
        self._watched = link.watch()
        self._rounds = PeriodicTask(
            self.commit,
            link=link.name,
            what_failed=f"positions not committed for {group}",
            pause=pause_of(link.clock, link.limits.source_group_ms),
            backoff=link.new_backoff(),
        )
        self.run = self._rounds.run

    async def commit(self) -> None:
        """Commit the positions that moved since the last commit. Raises KafkaError."""
        watched = frozenset(self._watched)
        self._watched.clear()
        try:
            await self._commit(watched)
        except BaseException:
            self._watched |= watched
            raise

    async def _commit(self, watched: Iterable[TopicPartition]) -> None:
        moved = {
            at: flow.replicator.source_next
            for at, flow in ((at, self._link.flows.get(at)) for at in watched)
            if flow is not None
            and flow.replicator is not None
            and self._committed.get(at) != flow.replicator.source_next
        }
        if not moved:
            return
        answers = await commit_offsets(
            self._source,
            self._group,
            {at: CommittedOffset(offset, -1, self._link.name) for at, offset in moved.items()},
        )
        refused = {code for code in answers.values() if code != ErrorCode.none}
        self._committed |= {
            at: offset for at, offset in moved.items() if answers.get(at) == ErrorCode.none
        }
        if refused:
            raise KafkaError(min(refused), f"group {self._group}")

    def status(self) -> dict[str, Any]:
        """Return the `/status` of these commits."""
        return {
            "group": self._group,
            "failure": self._rounds.failure,
            "partitions_committed": len(self._committed),
        }
