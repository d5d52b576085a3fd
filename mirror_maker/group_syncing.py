"""Positions of consumer groups follow their source: looked at, translated, committed.

Every worker does it for the partitions that it copies, since it has their maps at hand, up to the
last acknowledgement. `group_sync.py` decides; here is only asking and telling.
"""

from __future__ import annotations

import logging
from collections import Counter
from typing import Any, Final

from local_cluster.client.client import KafkaClient
from local_cluster.client.group_offsets import (
    CommittedOffset,
    GroupPositions,
    commit_offsets,
    committed_offsets,
    list_groups,
)
from local_cluster.client.model import TopicPartition
from local_cluster.wire.errors import ErrorCode, KafkaError

from .group_sync import (
    UNKNOWN_STATE,
    FlowMap,
    SyncedPosition,
    SyncState,
    decide,
    translate_positions,
)
from .link import LinkWorker
from .merged_groups import MergedGroups
from .mm2_topics import Mm2Topics
from .policy import NameFilter
from .rounds import Rounds

SHOWN_MAX: Final = 1_000
"""Positions that the status lists one by one."""

logger = logging.getLogger(__name__)


class GroupSync:
    """The groups of one link, on one worker; `run` until cancelled."""

    def __init__(
        self,
        link: LinkWorker,
        source: KafkaClient,
        sink: KafkaClient,
        mm2_topics: Mm2Topics | None,
        merged: MergedGroups,
    ) -> None:
        settings = link.context.settings
        self._link = link
        self._source = source
        self._sink = sink
        self._mm2_topics = mm2_topics
        self._merged = merged
        self._settings = settings
        self._filter = NameFilter(settings.groups, settings.groups_exclude)
        self._positions: list[SyncedPosition] = []
        self._rounds_count = 0
        self._commits = 0
        self._rounds = Rounds(
            link.context,
            self.sync,
            what_failed="groups not synced",
            pause_ms=link.context.limits.group_sync_ms,
        )
        self.run = self._rounds.run

    async def sync(self) -> None:
        """One round over all groups that stand in partitions copied here. Raises KafkaError."""
        flows = self._flows()
        if flows:
            wanted = [
                name for name in await list_groups(self._source) if self._filter.selects(name)
            ]
            here = await committed_offsets(self._source, wanted)
            translated = [
                position
                for group_id, positions in sorted(here.items())
                for position in translate_positions(group_id, positions, flows)
            ]
            if self._mm2_topics is not None:
                await self._mm2_topics.checkpoint(translated)
            if self._settings.sync_group_offsets:
                merged = [position for position in translated if self._is_merged(position)]
                chosen = set(merged)
                translated = await self._commit([each for each in translated if each not in chosen])
                # Last, since it needs the maps of other links, which may be in trouble.
                if merged:
                    placed = await self._merged.place(self._link.name, merged)
                    translated += await self._commit(placed)
            self._positions = translated
        self._rounds_count += 1

    def _flows(self) -> dict[TopicPartition, FlowMap]:
        return {
            at: FlowMap(
                flow.target,
                flow.replicator.offset_map,
                self._settings.names.is_shared(at.topic),
            )
            for at, flow in self._link.flows.items()
            if flow.replicator is not None
        }

    def _is_merged(self, position: SyncedPosition) -> bool:
        is_merged = self._settings.names.is_merged(position.source.topic)
        return is_merged and position.state is SyncState.MIXED

    async def _commit(self, positions: list[SyncedPosition]) -> list[SyncedPosition]:
        """Bring the target's groups to where they belong; what became of each position."""
        group_ids = {position.group_id for position in positions}
        states = {name: group.state for name, group in (await list_groups(self._sink)).items()}
        there: GroupPositions = await committed_offsets(
            self._sink, [name for name in group_ids if name in states]
        )
        outcomes: list[SyncedPosition] = []
        to_commit: dict[str, list[tuple[SyncedPosition, CommittedOffset]]] = {}
        for position in positions:
            outcome, commit = decide(
                position,
                there.get(position.group_id, {}).get(position.target),
                states.get(position.group_id, UNKNOWN_STATE),
                rewind=self._settings.rewind_group_offsets,
            )
            if commit is None:
                outcomes.append(outcome)
            else:
                to_commit.setdefault(position.group_id, []).append((outcome, commit))
        for group_id, commits in to_commit.items():
            outcomes += await self._commit_group(group_id, commits)
        return outcomes

    async def _commit_group(
        self, group_id: str, commits: list[tuple[SyncedPosition, CommittedOffset]]
    ) -> list[SyncedPosition]:
        try:
            answers = await commit_offsets(
                self._sink, group_id, {position.target: commit for position, commit in commits}
            )
        except KafkaError as error:
            if error.code == ErrorCode.network_exception:
                raise
            answers = {position.target: error.code for position, _ in commits}
        outcomes = []
        for position, _ in commits:
            code = answers.get(position.target, ErrorCode.unknown_server_error)
            if code == ErrorCode.none:
                self._commits += 1
                outcomes.append(position)
            elif code == ErrorCode.unknown_member_id:
                # Somebody joined the group on the target since its state was asked.
                outcomes.append(position._replace(state=SyncState.ACTIVE))
            else:
                logger.warning("link %s: group %s: %s", self._link.name, group_id, code.name)
                outcomes.append(position._replace(state=SyncState.REFUSED))
        return outcomes

    def status(self) -> dict[str, Any]:
        """For `/status`: counts by state, and the positions themselves."""
        return {
            "enabled": self._settings.sync_group_offsets,
            "failure": self._rounds.failure,
            "rounds": self._rounds_count,
            "commits": self._commits,
            "states": dict(Counter(position.state.value for position in self._positions)),
            "positions": [
                {
                    "group": position.group_id,
                    "topic": position.source.topic,
                    "partition": position.source.partition,
                    "target_topic": position.target.topic,
                    "source_offset": position.source_offset,
                    "target_offset": position.target_offset,
                    "state": position.state.value,
                    "held_by": position.held_by,
                    "reread_records": position.reread_records,
                }
                for position in self._positions[:SHOWN_MAX]
            ],
        }
