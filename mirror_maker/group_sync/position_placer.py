"""Positions of groups in partitions with records of several origins, from all maps involved.

`shared_positions.py` says what is safe and why. This module reads the maps of all links into the
target. It finds out how far a group has read at the source of each link:

- *Merged* (a topic of `merge`): the group's position at every source is read. If a source does not
  answer (a datacenter is down), its last known positions stand, and its log ends are unknown.
  Nothing is known of links that this worker does not run.
- *Mixed* (any other copy whose name does not tell its origin): the group's position at this link's
  source tells it for all, through the maps of the links into the source. The link from the target
  is one of these links. A position that a mirror committed at the source is left alone. The link
  from the group's own cluster brings it here, and a position of the target's own group must not
  come back to it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from uuid import UUID

from local_cluster.client.admin.group_offsets import GroupPositions, committed_offsets
from local_cluster.client.model import TopicPartition
from local_cluster.wire.constants import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from local_cluster.wire.errors import ErrorCode, KafkaError
from mirror_maker.clusters.cluster_client import MirrorClient
from mirror_maker.formats import FlowKey, MapFormatError, OffsetMap
from mirror_maker.group_sync.position_rules import SyncedPosition, SyncState
from mirror_maker.group_sync.shared_positions import (
    OwnRecords,
    SharedFlow,
    first_that_is_no_copy,
    origin_position,
    safe_position,
)
from mirror_maker.model import LinkFailedError
from mirror_maker.ports import LogReader
from mirror_maker.stores.cluster_maps import ClusterMaps, LinkPart
from mirror_maker.stores.map_store import MapStore

log = logging.getLogger(__name__)

Ends = dict[tuple[str, TopicPartition], int]
"""Log ends of the source partitions of parts, by the part's link."""


class PositionPlacer:
    """All links of a target, for the groups of one worker process."""

    def __init__(self, sink: LogReader, target_alias: str) -> None:
        self._sink = sink
        self._target_alias = target_alias
        self._target = ClusterMaps(sink)
        self._stores: dict[str, MapStore] = {}
        self._sources: dict[str, MirrorClient] = {}
        self._at_source: dict[str, ClusterMaps] = {}
        self._known: dict[str, GroupPositions] = {}
        self._covered: dict[tuple[TopicPartition, UUID], int] = {}
        self._turn = asyncio.Lock()

    def add(self, link: str, store: MapStore, source: MirrorClient | None) -> None:
        """Add a link; `source` returns positions of groups, None if the link does not sync them."""
        self._stores[link] = store
        self._target.add(link, store)
        if source is not None:
            self._sources[link] = source
            self._at_source[link] = ClusterMaps(source)

    async def remove(self, link: str) -> None:
        """Forget a link that has stopped, once no positions are being placed.

        What is known of groups at its source stays.
        """
        async with self._turn:
            self._target.remove(link)
            for known in (self._stores, self._sources, self._at_source):
                known.pop(link, None)

    async def place(
        self,
        link: str,
        positions: Sequence[SyncedPosition],
        *,
        are_merged: bool,
        only_native: bool = False,
    ) -> list[SyncedPosition]:
        """Return the positions of a link's groups in shared partitions, with their safe places.

        With `only_native`, positions that a mirror committed at the source are left alone. A
        position whose flow is in no map yet is returned as it is. Raises KafkaError.
        """
        if not positions:
            return []
        async with self._turn:
            try:
                if are_merged:
                    return await self._place_merged(link, positions)
                return await self._place_mixed(link, positions, only_native=only_native)
            except (LinkFailedError, MapFormatError) as error:
                raise KafkaError(ErrorCode.unknown_server_error, str(error)) from error

    async def _place_merged(
        self, link: str, positions: Sequence[SyncedPosition]
    ) -> list[SyncedPosition]:
        await self._target.read()
        topic_ids = self._target_topic_ids(link, positions)
        # Not the log end: records of the target's own clients hold nothing back here.
        known_ends = {
            target: max(each.target_next for part in shared for each in self._target.maps(part))
            for target, shared in self._target.parts(topic_ids).items()
            if shared
        }
        # From here on everything is read after the known ends.
        await self._target.find()
        await self._target.read()
        parts = self._target.parts(topic_ids)
        every_part = [part for shared in parts.values() for part in shared]
        await self._update_known(
            {part.link for part in every_part}, {each.group_id for each in positions}
        )
        source_ends = await self._source_ends(every_part)
        starts = await _list_offsets(self._sink, parts, EARLIEST_TIMESTAMP)
        self._trim(self._target, parts, starts)
        placed = []
        for position in positions:
            shared = parts.get(position.target)
            if not shared or position.target not in known_ends:
                placed.append(position)
                continue
            flows = [
                self._shared_flow(
                    part, self._known_position(part, position.group_id, source_ends), source_ends
                )
                for part in shared
            ]
            start = starts[position.target]
            safe = safe_position(flows, known_ends[position.target], start)
            # Metadata belongs to one source's position, and workers of several sources would take
            # turns.
            placed.append(position._replace(metadata="", **safe._asdict()))
        return placed

    async def _place_mixed(
        self, link: str, positions: Sequence[SyncedPosition], *, only_native: bool
    ) -> list[SyncedPosition]:
        own = self._own_flows(link, positions)
        topic_ids = self._target_topic_ids(link, positions)
        source_ids = {source: flow.source_topic_id for source, flow in own.items()}
        known_ends = await _list_offsets(self._sink, topic_ids, LATEST_TIMESTAMP)
        # From here on everything is read after the known ends.
        at_source, source = self._at_source[link], self._sources[link]
        for topics in (self._target, at_source):
            await topics.find()
            await topics.read()
        parts, backs = self._target.parts(topic_ids), at_source.parts(source_ids)
        every_part = [part for shared in parts.values() for part in shared]
        source_ends = await self._source_ends(every_part)
        starts = await _list_offsets(self._sink, topic_ids, EARLIEST_TIMESTAMP)
        self._trim(self._target, parts, starts)
        self._trim(at_source, backs, await _list_offsets(source, source_ids, EARLIEST_TIMESTAMP))
        placed = []
        for position in positions:
            shared = parts.get(position.target)
            if not shared:
                placed.append(position)
                continue
            if only_native and self._is_mirrored(link, position):
                placed.append(position._replace(state=SyncState.MIRRORED, target_offset=None))
                continue
            back = backs[position.source]
            flows = [
                self._shared_flow(part, self._read_to(link, part, position, back), source_ends)
                for part in shared
            ]
            start = starts[position.target]
            topic_id = topic_ids[position.target]
            safe = safe_position(
                flows,
                known_ends[position.target],
                start,
                self._own_records(link, position, topic_id, back, shared, start),
            )
            # Metadata may count records from the position on, and there are others here.
            placed.append(position._replace(metadata="", **safe._asdict()))
        return placed

    # -- what is known of a group -----------------------------------------------------------------

    def _is_mirrored(self, link: str, position: SyncedPosition) -> bool:
        """Return whether a mirror committed the position at the source.

        Its mark was written before the commit, and is read after the position.
        """
        for state in self._at_source[link].states().values():
            mark = state.mirrored_commit(position.group_id, *position.source)
            if mark is not None and mark.explains(position.source_offset):
                return True
        return False

    def _read_to(
        self, link: str, part: LinkPart, position: SyncedPosition, back: Sequence[LinkPart]
    ) -> int | None:
        """Return how far a group has read in the source of a part, by its position in this link's
        source.
        """
        if part.flow is None:
            return None
        is_own = part.link == link or part.source_cluster_id == self._source_id(link) != ""
        if is_own and part.source == position.source:
            return position.source_offset
        found = self._copied_back(link, part.source_cluster_id, part.source, part.flow, back)
        return None if found is None else origin_position(found, position.source_offset)

    def _own_records(
        self,
        link: str,
        position: SyncedPosition,
        topic_id: UUID,
        back: Sequence[LinkPart],
        shared: Sequence[LinkPart],
        log_start: int,
    ) -> OwnRecords:
        """Return how far a group has read the records of the target's own clients."""
        at = position.target
        home = FlowKey(at.topic, at.partition, topic_id, topic_id)
        found = self._copied_back(link, self._target_id(link), at, home, back)
        if found is not None:
            unread_from = origin_position(found, position.source_offset)
            return OwnRecords(self._target_alias, unread_from, found)
        maps = [each for part in shared for each in self._target.maps(part)]
        known = max(log_start, self._covered.get((at, topic_id), 0))
        covered = first_that_is_no_copy(maps, known)
        self._covered[at, topic_id] = covered
        return OwnRecords(self._target_alias, covered, None)

    def _copied_back(
        self,
        link: str,
        cluster_id: str,
        partition: TopicPartition,
        flow: FlowKey,
        back: Sequence[LinkPart],
    ) -> OffsetMap | None:
        """Return the map by which this partition of this cluster is copied into the link's
        source.
        """
        for part in back if cluster_id else ():
            if part.source_cluster_id == cluster_id and part.source == partition:
                for each in part.flows:
                    if each.source_topic_id == flow.source_topic_id:
                        return self._at_source[link].map_of(part, each)
        return None

    def _known_position(self, part: LinkPart, group_id: str, ends: Ends) -> int | None:
        """Return a group's position in the source of a part, if it is known."""
        position = self._known.get(part.link, {}).get(group_id, {}).get(part.source)
        if position is not None and part.flow is not None:
            return position.offset
        if ends.get((part.link, part.source)) == 0 and len(part.flows) == 1:
            return 0  # there never was a record to read
        return None

    def _shared_flow(self, part: LinkPart, committed: int | None, ends: Ends) -> SharedFlow:
        maps = self._target.maps(part)
        return SharedFlow(
            part.link,
            maps[-1],
            min(0 if each.has_older_copies else each.target_start for each in maps),
            committed,
            ends.get((part.link, part.source)),
        )

    # -- reads of both clusters -------------------------------------------------------------------

    def _source_id(self, link: str) -> str:
        return self._stores[link].registration.source_cluster_id

    def _target_id(self, link: str) -> str:
        return self._stores[link].registration.target_cluster_id

    def _own_flows(
        self, link: str, positions: Iterable[SyncedPosition]
    ) -> dict[TopicPartition, FlowKey]:
        """Return the flows of a link's source partitions that are opened."""
        state = self._stores[link].state
        found = {each.source: state.latest_flow(*each.source) for each in positions}
        return {source: flow for source, flow in found.items() if flow is not None}

    def _target_topic_ids(
        self, link: str, positions: Sequence[SyncedPosition]
    ) -> dict[TopicPartition, UUID]:
        own = self._own_flows(link, positions)
        return {
            each.target: own[each.source].target_topic_id
            for each in positions
            if each.source in own
        }

    def _trim(
        self,
        topics: ClusterMaps,
        parts: Mapping[TopicPartition, Sequence[LinkPart]],
        starts: Mapping[TopicPartition, int],
    ) -> None:
        for at, found in parts.items():
            for part in found:
                for offset_map in topics.maps(part):
                    offset_map.trim(starts[at])

    async def _update_known(self, links: set[str], group_ids: set[str]) -> None:
        async def ask(link: str) -> None:
            try:
                found = await committed_offsets(self._sources[link], group_ids)
            except KafkaError as error:
                log.info("link %s: positions of groups not read: %s", link, error)
                return
            # groups without an answer keep their positions
            self._known.setdefault(link, {}).update(found)

        await asyncio.gather(*(ask(link) for link in links & self._sources.keys()))

    async def _source_ends(self, parts: Iterable[LinkPart]) -> Ends:
        wanted: dict[str, set[TopicPartition]] = {}
        for part in parts:
            if part.link in self._sources:
                wanted.setdefault(part.link, set()).add(part.source)
        ends: Ends = {}

        async def ask(link: str, partitions: set[TopicPartition]) -> None:
            try:
                listed = await self._sources[link].list_offsets(
                    dict.fromkeys(partitions, LATEST_TIMESTAMP)
                )
            except KafkaError as error:
                log.info("link %s: log ends not read: %s", link, error)
                return
            for at, answer in listed.items():
                if not answer.error:
                    ends[link, at] = answer.offset

        await asyncio.gather(*(ask(link, partitions) for link, partitions in wanted.items()))
        return ends


async def _list_offsets(
    cluster: LogReader, partitions: Iterable[TopicPartition], which: int
) -> dict[TopicPartition, int]:
    """Return the offsets of these partitions. Raises KafkaError."""
    listed = await cluster.list_offsets(dict.fromkeys(partitions, which))
    for at, answer in listed.items():
        if answer.error:
            raise KafkaError(answer.error, str(at))
    return {at: answer.offset for at, answer in listed.items()}
