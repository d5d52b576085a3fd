"""Positions of consumer groups follow their source: requested, translated, committed.

Every worker does it for the partitions that it copies, because it has their maps up to the last
acknowledgement. `position_rules.py` decides; this module only requests and commits.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from local_cluster.client.admin.group_offsets import (
    CommittedOffset,
    GroupPositions,
    WatchedGroups,
    commit_offsets,
    committed_offsets,
    list_groups,
)
from local_cluster.client.client import KafkaClient
from local_cluster.client.model import TopicPartition
from local_cluster.wire.errors import ErrorCode, KafkaError
from mirror_maker.formats.marks import MirroredCommit
from mirror_maker.formats.records import encode_key
from mirror_maker.group_sync.group_changes import GroupRound
from mirror_maker.group_sync.mm2_topics import Mm2Topics
from mirror_maker.group_sync.position_placer import PositionPlacer
from mirror_maker.group_sync.position_rules import (
    UNKNOWN_STATE,
    FlowMap,
    SyncedPosition,
    SyncState,
    decide,
)
from mirror_maker.link.link import LinkWorker
from mirror_maker.metrics.latency import LatencyStats
from mirror_maker.periodic import PeriodicTask, pause_of
from mirror_maker.rules.topic_filter import NameFilter

SHOWN_MAX: Final = 1_000
"""Positions that the status lists one by one, and positions whose latencies are kept."""

Commit = tuple[SyncedPosition, CommittedOffset]
"""The result for a position if the target accepts the commit, and the commit."""

log = logging.getLogger(__name__)


class GroupSyncer:
    """The groups of one link, on one worker; `run` until cancelled."""

    def __init__(
        self,
        link: LinkWorker,
        source: KafkaClient,
        sink: KafkaClient,
        mm2_topics: Mm2Topics | None,
        shared: PositionPlacer,
    ) -> None:
        settings = link.settings
        self._link = link
        self._source = source
        self._sink = sink
        self._mm2_topics = mm2_topics
        self._shared = shared
        self._settings = settings
        self._filter = NameFilter(settings.groups, settings.groups_exclude)
        self._positions: list[SyncedPosition] = []
        self._seen: set[str] = set()
        """Groups that the source has listed and not reported as deleted."""
        self._rounds_count = 0
        self._asked_ms = 0
        """Monotonic time at which the present round began to read from the source."""
        self._latencies: dict[tuple[str, TopicPartition], LatencyStats] = {}
        """Latencies of positions that moved, the last one at the end. Some belong to partitions
        that another worker copies now; the status leaves those out."""
        self._commits = 0
        self._moved = link.watch()
        self._last_round: GroupRound | None = None
        self._here = WatchedGroups(source)
        self._there = WatchedGroups(sink)
        self._rounds = PeriodicTask(
            self.sync,
            link=link.name,
            what_failed="groups not synced",
            pause=pause_of(link.clock, link.limits.group_sync_ms),
            backoff=link.new_backoff(),
        )
        self.run = self._rounds.run

    async def sync(self) -> None:
        """Do one round over all groups with positions in partitions copied here. Raises
        KafkaError.
        """
        if any(flow.replicator is not None for flow in self._link.flows.values()):
            last, self._last_round = self._last_round, None  # a failed round is started over
            this = GroupRound(last, frozenset(self._moved))
            self._moved.clear()
            self._asked_ms = self._link.clock.monotonic_ms()
            self._positions = await self._sync(this)
            self._last_round = this
        else:
            self._positions, self._last_round = [], None  # other workers report them
        self._rounds_count += 1

    async def _sync(self, this: GroupRound) -> list[SyncedPosition]:
        """Return the result for each position. Raises KafkaError."""
        here = await self._source_positions()
        exact: dict[str, Sequence[SyncedPosition]] = {}
        shared: list[SyncedPosition] = []
        for group_id, positions in sorted(here.items()):
            translated = this.translate(group_id, positions, self._flow_map)
            shared += translated.shared
            if translated.exact:
                exact[group_id] = translated.exact
        done = await self._commit_exact(exact, this) if exact else []
        # Last, because these need the maps of other links, which may be in trouble.
        merged: list[SyncedPosition] = []
        mixed: list[SyncedPosition] = []
        for position in shared:
            is_merged = self._settings.names.is_merged(position.source.topic)
            (merged if is_merged else mixed).append(position)
        if mixed or any(self._link.map_store.state.mirrored_commits()):
            placed = await self._shared.place(
                self._link.name,
                mixed,
                are_merged=False,
                only_native=self._settings.origin == "local",
            )
            if self._mm2_topics is not None:
                groups = _by_group(placed)
                moved = await self._mm2_topics.checkpoint(groups, groups, are_mixed=True)
                self._note_latency(moved)
            if self._settings.sync_group_offsets:
                placed = await self._commit_shared(placed, are_mixed=True)
            done += placed
        if merged and self._settings.sync_group_offsets:
            placed = await self._shared.place(self._link.name, merged, are_merged=True)
            done += await self._commit_shared(placed)
        return done

    async def _source_positions(self) -> GroupPositions:
        """Return the positions of the source's groups. Raises KafkaError.

        A group that may not be described is not listed. A lookup by name is refused, and a deleted
        group has no positions.
        """
        listed = {name for name in await self._here.listed() if self._filter.selects(name)}
        self._seen |= listed
        here = await self._here.positions(self._seen | self._filter.plain_names)
        self._seen -= here.keys() - listed
        return here

    def _note_latency(self, moved: Iterable[tuple[str, TopicPartition]]) -> None:
        """Note the time from the request to the source until the target has these positions."""
        latency_ms = self._link.clock.monotonic_ms() - self._asked_ms
        for at in moved:
            stats = self._latencies.pop(at, None) or LatencyStats()
            stats.observe(latency_ms, 1)
            self._latencies[at] = stats
        while len(self._latencies) > SHOWN_MAX:
            del self._latencies[next(iter(self._latencies))]

    def _flow_map(self, at: TopicPartition) -> FlowMap | None:
        flow = self._link.flows.get(at)
        if flow is None or flow.replicator is None:
            return None
        names, alias = self._settings.names, self._settings.source_alias
        return FlowMap(
            flow.target, flow.replicator.offset_map, not names.tells_origin(alias, at.topic)
        )

    async def _commit_exact(
        self, groups: Mapping[str, Sequence[SyncedPosition]], this: GroupRound
    ) -> list[SyncedPosition]:
        """Write exact translations if they are wanted; return the result for each position."""
        if self._mm2_topics is not None:
            new = {name: found for name, found in groups.items() if this.is_new(name)}
            self._note_latency(await self._mm2_topics.checkpoint(new, groups))
        if not self._settings.sync_group_offsets:
            return [each for found in groups.values() for each in found]
        states = await self._there.listed()
        # Groups that are not listed count too: a coordinator that has just started leaves out its
        # own. For a group that does not exist the coordinator returns no positions.
        there = await self._there.positions(groups)
        outcomes: list[SyncedPosition] = []
        for group_id, positions in groups.items():
            state = states[group_id].state if group_id in states else UNKNOWN_STATE
            present = there.get(group_id)
            settled = this.settled(group_id, positions, present, state)
            if settled is None:
                settled, commits = self._decide(positions, present, state)
                if commits:
                    settled += await self._commit_group(group_id, commits)
                elif present is not None:
                    this.settle(group_id, positions, present, state, settled)
            outcomes += settled
        return outcomes

    def _decide(
        self,
        positions: Iterable[SyncedPosition],
        there: Mapping[TopicPartition, CommittedOffset] | None,
        state: str,
    ) -> tuple[list[SyncedPosition], list[Commit]]:
        """Return the results for a group's positions, and the commits for the others.

        `there` is None if the target did not answer: a commit might move the group back.
        """
        outcomes: list[SyncedPosition] = []
        commits: list[Commit] = []
        for position in positions:
            if there is None:
                is_wanted = position.target_offset is not None
                outcomes.append(
                    position._replace(state=SyncState.NOT_TOLD) if is_wanted else position
                )
                continue
            outcome, commit = decide(
                position,
                there.get(position.target),
                state,
                rewind=self._settings.rewind_group_offsets,
            )
            if commit is None:
                outcomes.append(outcome)
            else:
                commits.append((outcome, commit))
        return outcomes, commits

    async def _commit_shared(
        self, positions: Iterable[SyncedPosition], *, are_mixed: bool = False
    ) -> list[SyncedPosition]:
        """Move groups to their places in partitions of several origins; return the results.

        Mixed positions are marked first: a link of the opposite direction must not take them for
        the group's own.
        """
        groups = _by_group(positions)
        states = await list_groups(self._sink)
        unlisted = []
        if are_mixed:
            unlisted = [mark for mark in self._marks() if mark.group_id not in states]
        asked = groups.keys() | {mark.group_id for mark in unlisted}
        there = await committed_offsets(self._sink, asked)
        outcomes: list[SyncedPosition] = []
        to_commit: dict[str, list[Commit]] = {}
        marks: list[MirroredCommit] = []
        for group_id, found in groups.items():
            state = states[group_id].state if group_id in states else UNKNOWN_STATE
            present = there.get(group_id)
            settled, to_commit[group_id] = self._decide(found, present, state)
            outcomes += settled
            if are_mixed and present is not None:
                marks += [
                    self._mark(position, present.get(position.target), commit)
                    for position, commit in to_commit[group_id]
                ]
        if are_mixed:
            # An empty answer means that the group is deleted: drop its marks. Without an answer its
            # marks stay.
            marked = {mark.group_id for mark in marks}
            gone = [
                mark
                for mark in unlisted
                if mark.group_id not in marked and there.get(mark.group_id) == {}
            ]
            await self._write_marks(marks, gone)
        for group_id, commits in to_commit.items():
            if commits:
                outcomes += await self._commit_group(group_id, commits)
        return outcomes

    def _marks(self) -> list[MirroredCommit]:
        """Return the marks in the copies that this worker writes."""
        ours = {flow.target for flow in self._link.flows.values()}
        marks = self._link.map_store.state.mirrored_commits()
        return [mark for mark in marks if TopicPartition(mark.topic, mark.partition) in ours]

    def _mark(
        self, position: SyncedPosition, present: CommittedOffset | None, commit: CommittedOffset
    ) -> MirroredCommit:
        state = self._link.map_store.state
        last = state.mirrored_commit(position.group_id, *position.target)
        is_ours = last is not None and present is not None and last.explains(present.offset)
        return MirroredCommit(
            group_id=position.group_id,
            topic=position.target.topic,
            partition=position.target.partition,
            before=present.offset if is_ours and present is not None else None,
            wanted=commit.offset,
        )

    async def _write_marks(self, marks: list[MirroredCommit], gone: list[MirroredCommit]) -> None:
        """Mark the coming commits, and delete the marks of deleted groups."""
        if marks or gone:
            store = self._link.map_store
            await store.append(marks, [encode_key(mark) for mark in gone])
            await store.catch_up()

    async def _commit_group(self, group_id: str, commits: list[Commit]) -> list[SyncedPosition]:
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
                self._note_latency([(group_id, position.target)])
                outcomes.append(position)
            elif code == ErrorCode.unknown_member_id:
                # A member has joined the group on the target since its state was read.
                outcomes.append(position._replace(state=SyncState.ACTIVE))
            else:
                log.warning("link %s: group %s: %s", self._link.name, group_id, code.name)
                outcomes.append(position._replace(state=SyncState.REFUSED))
        return outcomes

    def status(self) -> dict[str, Any]:
        """Return the `/status` of the groups: counts by state, and the positions."""
        present = {(position.group_id, position.target) for position in self._positions}
        return {
            "enabled": self._settings.sync_group_offsets,
            "failure": self._rounds.failure,
            "rounds": self._rounds_count,
            "commits": self._commits,
            "latencies": [
                {
                    "group": group,
                    "target_topic": target.topic,
                    "partition": target.partition,
                    **stats.as_json(),
                }
                for (group, target), stats in self._latencies.items()
                if (group, target) in present
            ],
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


def _by_group(positions: Iterable[SyncedPosition]) -> dict[str, list[SyncedPosition]]:
    groups: dict[str, list[SyncedPosition]] = {}
    for position in positions:
        groups.setdefault(position.group_id, []).append(position)
    return groups
