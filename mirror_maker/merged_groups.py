"""Positions of groups in partitions that several links write into: everybody asked, one answer.

`merged_positions.py` says what is safe and why; here the maps of all links of the target are read,
and the group's positions and the ends of the partitions are asked at every source. Links that are
none of this worker's are found by their map topics; of a group's position there nothing is known.
Where a source cannot be asked (a datacenter that is away), the last positions that it told stand,
and nothing is known of its ends.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple
from uuid import UUID

from local_cluster.client.client import KafkaClient
from local_cluster.client.group_offsets import GroupPositions, committed_offsets
from local_cluster.client.model import TopicPartition
from local_cluster.wire.errors import ErrorCode, KafkaError

from .formats import FlowKey, MapFormatError, MapTopic, OffsetMap, is_map_topic
from .group_sync import SyncedPosition
from .growing_map import GrowingMap
from .map_store import MapStore
from .merged_positions import SharedFlow, safe_position
from .model import LinkFailedError
from .ports import Clock, DataSink
from .state_topic import StateTopic

_EARLIEST: Final = -2
_LATEST: Final = -1

logger = logging.getLogger(__name__)


class _Part(NamedTuple):
    """What one link has in a shared partition."""

    link: str
    """Its name, or its map topic for a link that is none of this worker's."""
    state: MapTopic
    flow: FlowKey | None
    """The flow of the source topic that is there now; None where it is copied elsewhere."""
    flows: tuple[FlowKey, ...]
    """That one, and those of deleted topics of the same name."""

    @property
    def source(self) -> TopicPartition:
        return TopicPartition(self.flows[0].source_topic, self.flows[0].partition)


class MergedGroups:
    """All links of a target, for the groups of one worker process."""

    def __init__(self, sink: DataSink, clock: Clock) -> None:
        self._sink = sink
        self._clock = clock
        self._stores: dict[str, MapStore] = {}
        self._sources: dict[str, KafkaClient] = {}
        self._others: dict[str, tuple[MapTopic, StateTopic]] = {}
        self._growing: dict[tuple[str, FlowKey], GrowingMap] = {}
        self._known: dict[str, GroupPositions] = {}
        self._turn = asyncio.Lock()

    def add(self, link: str, store: MapStore, source: KafkaClient | None) -> None:
        """Make a link known; `source` answers about groups, None where they are not synced."""
        self._stores[link] = store
        if source is not None:
            self._sources[link] = source

    async def place(self, link: str, positions: Sequence[SyncedPosition]) -> list[SyncedPosition]:
        """The positions of a link's groups in shared partitions, with their safe places.

        A position whose flow is in no map yet stays as it is. Raises KafkaError.
        """
        if not positions:
            return []
        async with self._turn:
            try:
                return await self._place(link, positions)
            except KafkaError:
                self._others.clear()  # one of them may be deleted; what is there is listed anew
                raise
            except (LinkFailedError, MapFormatError) as error:
                self._others.clear()
                raise KafkaError(ErrorCode.unknown_server_error, str(error)) from error

    async def _place(self, link: str, positions: Sequence[SyncedPosition]) -> list[SyncedPosition]:
        await self._read_maps()
        topic_ids = self._target_topic_ids(link, positions)
        known_ends = {
            target: max(each.target_next for part in shared for each in self._maps(part))
            for target, shared in self._parts(topic_ids).items()
            if shared
        }
        # From here on everything is asked after the known ends.
        await self._find_others()
        await self._read_maps()
        parts = self._parts(topic_ids)
        every_part = [part for shared in parts.values() for part in shared]
        await self._ask_positions(
            {part.link for part in every_part}, {each.group_id for each in positions}
        )
        source_ends = await self._ask_ends(every_part)
        starts = await self._sink.list_offsets(dict.fromkeys(parts, _EARLIEST))
        placed = []
        for position in positions:
            shared = parts.get(position.target)
            if not shared or position.target not in known_ends:
                placed.append(position)
                continue
            start = starts[position.target]
            if start.error:
                raise KafkaError(start.error, str(position.target))
            for part in shared:
                for offset_map in self._maps(part):
                    offset_map.trim(start.offset)
            safe = safe_position(
                [self._shared_flow(part, position.group_id, source_ends) for part in shared],
                known_ends[position.target],
                start.offset,
            )
            # Metadata speaks of one source's position, and workers of several would take turns.
            placed.append(position._replace(metadata="", **safe._asdict()))
        return placed

    async def _read_maps(self) -> None:
        stores = [store for store in self._stores.values() if store.is_open]
        await asyncio.gather(
            *(store.catch_up() for store in stores),
            *(topic.catch_up() for _, topic in self._others.values()),
        )

    async def _find_others(self) -> None:
        """Map topics of links that are not this worker's, or not open here yet."""
        here = {store.topic for store in self._stores.values() if store.is_open}
        listed = (await self._sink.metadata(None)).topics
        wanted = {name for name in listed if is_map_topic(name)} - here
        self._others = {name: each for name, each in self._others.items() if name in wanted}
        known = self._others.keys() | self._stores.keys()
        self._growing = {at: each for at, each in self._growing.items() if at[0] in known}
        for name in wanted - self._others.keys():
            state = MapTopic()
            self._others[name] = (
                state,
                StateTopic(
                    self._sink,
                    name,
                    replication_factor=1,
                    clock=self._clock,
                    replay=state.replay,
                ),
            )

    def _target_topic_ids(
        self, link: str, positions: Iterable[SyncedPosition]
    ) -> dict[TopicPartition, UUID]:
        state = self._stores[link].state
        found = {}
        for position in positions:
            flow = state.latest_flow(*position.source)
            if flow is not None:
                found[position.target] = flow.target_topic_id
        return found

    def _parts(self, topic_ids: Mapping[TopicPartition, UUID]) -> dict[TopicPartition, list[_Part]]:
        """What every link has in each of these partitions."""
        states = {name: store.state for name, store in self._stores.items() if store.is_open}
        states |= {name: state for name, (state, _) in self._others.items()}
        parts: dict[TopicPartition, list[_Part]] = {target: [] for target in topic_ids}
        for name, state in states.items():
            flows: dict[tuple[TopicPartition, str], list[FlowKey]] = {}
            for flow in state.every_flow():
                target = TopicPartition(state.target_topic(flow) or "", flow.partition)
                if topic_ids.get(target) == flow.target_topic_id:
                    flows.setdefault((target, flow.source_topic), []).append(flow)
            for (target, source_topic), found in flows.items():
                latest = state.latest_flow(source_topic, target.partition)
                now = latest if latest in found else None
                parts[target].append(_Part(name, state, now, tuple(found)))
        return parts

    def _maps(self, part: _Part) -> list[OffsetMap]:
        """The maps of all flows of a part, that of the present source topic last."""
        found = []
        for flow in sorted(part.flows, key=lambda flow: flow == part.flow):
            growing = self._growing.setdefault((part.link, flow), GrowingMap())
            offset_map = growing.follow(part.state, flow)
            assert offset_map is not None, flow
            found.append(offset_map)
        return found

    async def _ask_positions(self, links: set[str], group_ids: set[str]) -> None:
        async def ask(link: str) -> None:
            try:
                found = await committed_offsets(self._sources[link], group_ids)
            except KafkaError as error:
                logger.info("link %s: groups not asked: %s", link, error)
                return
            known = self._known.setdefault(link, {})
            for group_id in group_ids:
                known[group_id] = found.get(group_id, {})

        await asyncio.gather(*(ask(link) for link in links & self._sources.keys()))

    async def _ask_ends(self, parts: Iterable[_Part]) -> dict[tuple[str, TopicPartition], int]:
        wanted: dict[str, set[TopicPartition]] = {}
        for part in parts:
            if part.link in self._sources:
                wanted.setdefault(part.link, set()).add(part.source)
        ends: dict[tuple[str, TopicPartition], int] = {}

        async def ask(link: str, partitions: set[TopicPartition]) -> None:
            try:
                listed = await self._sources[link].list_offsets(dict.fromkeys(partitions, _LATEST))
            except KafkaError as error:
                logger.info("link %s: ends not asked: %s", link, error)
                return
            for at, answer in listed.items():
                if not answer.error:
                    ends[link, at] = answer.offset

        await asyncio.gather(*(ask(link, partitions) for link, partitions in wanted.items()))
        return ends

    def _shared_flow(
        self, part: _Part, group_id: str, ends: dict[tuple[str, TopicPartition], int]
    ) -> SharedFlow:
        position = self._known.get(part.link, {}).get(group_id, {}).get(part.source)
        end = ends.get((part.link, part.source))
        committed = position.offset if position is not None and part.flow is not None else None
        if committed is None and end == 0 and len(part.flows) == 1:
            committed = 0  # nothing was ever there to be read
        maps = self._maps(part)
        return SharedFlow(
            part.link,
            maps[-1],
            min(0 if each.has_older_copies else each.target_start for each in maps),
            committed,
            end,
        )
