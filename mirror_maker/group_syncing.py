"""Positions of consumer groups follow their source: looked at, translated, committed.

Every worker does it for the partitions that it copies, since it has their maps at hand, up to the
last acknowledgement. `group_sync.py` decides; here is only asking and telling.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Collection
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

from .formats.marks import MirroredCommit
from .formats.records import encode_key
from .group_sync import (
    UNKNOWN_STATE,
    FlowMap,
    SyncedPosition,
    SyncState,
    decide,
    translate_positions,
)
from .link import LinkWorker
from .mm2_topics import Mm2Topics
from .policy import NameFilter
from .rounds import Rounds
from .shared_groups import SharedGroups

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
        shared: SharedGroups,
    ) -> None:
        settings = link.context.settings
        self._link = link
        self._source = source
        self._sink = sink
        self._mm2_topics = mm2_topics
        self._shared = shared
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
            merged: list[SyncedPosition] = []
            mixed: list[SyncedPosition] = []
            exact: list[SyncedPosition] = []
            for position in translated:
                if position.state is not SyncState.MIXED:
                    exact.append(position)
                elif self._settings.names.is_merged(position.source.topic):
                    merged.append(position)
                else:
                    mixed.append(position)
            done = await self._bring(exact) if exact else []
            # Last, since these need the maps of other links, which may be in trouble.
            if mixed or any(self._link.context.map_store.state.mirrored_commits()):
                placed = await self._shared.place(
                    self._link.name,
                    mixed,
                    are_merged=False,
                    only_native=self._settings.origin == "local",
                )
                done += await self._bring(placed, are_mixed=True)
            if merged and self._settings.sync_group_offsets:
                placed = await self._shared.place(self._link.name, merged, are_merged=True)
                done += await self._commit(placed)
            self._positions = done
        self._rounds_count += 1

    def _flows(self) -> dict[TopicPartition, FlowMap]:
        names, alias = self._settings.names, self._settings.source_alias
        return {
            at: FlowMap(
                flow.target, flow.replicator.offset_map, not names.tells_origin(alias, at.topic)
            )
            for at, flow in self._link.flows.items()
            if flow.replicator is not None
        }

    async def _bring(
        self, positions: list[SyncedPosition], *, are_mixed: bool = False
    ) -> list[SyncedPosition]:
        """Write translated positions where they are wanted; what became of each."""
        if self._mm2_topics is not None:
            await self._mm2_topics.checkpoint(positions)
        if not self._settings.sync_group_offsets:
            return positions
        return await self._commit(positions, are_mixed=are_mixed)

    async def _commit(
        self, positions: list[SyncedPosition], *, are_mixed: bool = False
    ) -> list[SyncedPosition]:
        """Bring the target's groups to where they belong; what became of each position.

        Those in mixed partitions are marked first: a link in the opposite direction must not take
        them for the group's own.
        """
        group_ids = {position.group_id for position in positions}
        states = {name: group.state for name, group in (await list_groups(self._sink)).items()}
        there: GroupPositions = await committed_offsets(
            self._sink, [name for name in group_ids if name in states]
        )
        outcomes: list[SyncedPosition] = []
        to_commit: dict[str, list[tuple[SyncedPosition, CommittedOffset]]] = {}
        marks: list[MirroredCommit] = []
        for position in positions:
            present = there.get(position.group_id, {}).get(position.target)
            outcome, commit = decide(
                position,
                present,
                states.get(position.group_id, UNKNOWN_STATE),
                rewind=self._settings.rewind_group_offsets,
            )
            if commit is None:
                outcomes.append(outcome)
            else:
                to_commit.setdefault(position.group_id, []).append((outcome, commit))
                if are_mixed:
                    marks.append(self._mark(position, present, commit))
        if are_mixed:
            await self._write_marks(marks, states.keys())
        for group_id, commits in to_commit.items():
            outcomes += await self._commit_group(group_id, commits)
        return outcomes

    def _mark(
        self, position: SyncedPosition, present: CommittedOffset | None, commit: CommittedOffset
    ) -> MirroredCommit:
        state = self._link.context.map_store.state
        last = state.mirrored_commit(position.group_id, *position.target)
        is_ours = last is not None and present is not None and last.explains(present.offset)
        return MirroredCommit(
            group_id=position.group_id,
            topic=position.target.topic,
            partition=position.target.partition,
            before=present.offset if is_ours and present is not None else None,
            wanted=commit.offset,
        )

    async def _write_marks(self, marks: list[MirroredCommit], groups: Collection[str]) -> None:
        """Mark what is about to be committed, and forget marks of groups that are gone."""
        store = self._link.context.map_store
        partitions = {flow.target for flow in self._link.flows.values()}
        marked = {mark.group_id for mark in marks}
        gone = [
            encode_key(mark)
            for mark in store.state.mirrored_commits()
            if mark.group_id not in marked
            and mark.group_id not in groups
            and TopicPartition(mark.topic, mark.partition) in partitions
        ]
        if marks or gone:
            await store.append(marks, gone)
            await store.catch_up()

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
