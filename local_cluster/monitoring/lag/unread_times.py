"""The lag of groups in seconds: the age of the first committed record that a group has not read.

It is looked up at a scrape, at the leader, and only for partitions with a lag in records. What is
found is remembered: the time of a record does not change. A leader that does not answer in time
leaves its partitions unknown, and so does the limit of a scrape.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Protocol

from local_cluster.controller.model.cluster_image import NO_LEADER
from local_cluster.controller.model.metadata_cache import MetadataCache
from local_cluster.groups.coordinator import GroupCoordinator
from local_cluster.groups.offset_times import (
    AT_END,
    Place,
    Time,
    decode_times,
    encode_places,
    unread_time,
)
from local_cluster.groups.offsets import TopicPartition
from local_cluster.handlers.data.offset_times import PLACES_MAX
from local_cluster.log.disk.cold_reads import ColdReads
from local_cluster.log.disk.page_cache import ColdReadError, warm_only
from local_cluster.monitoring.lag.end_offsets import RESPONSE_WAIT_MS_MAX, LocalReplicas
from local_cluster.monitoring.sliced import Slices
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import KafkaError

LOOKUPS_PER_SCRAPE_MAX: Final = 5_000
"""Places whose time one scrape looks up; the others are unknown until a later one."""
LOOKUP_SECONDS_MAX: Final = 0.5
"""How long one scrape looks up places that this broker leads; cold segments wait for the disk."""
REMEMBERED_MAX: Final = 20_000
"""Places whose time is remembered."""

log = logging.getLogger(__name__)


class RawCalls(Protocol):
    """Private requests to other brokers."""

    async def call_raw(self, broker_id: int, api: ApiKey, body: bytes) -> bytes: ...


class UnreadTimes:
    """The times of the first unread records of the groups of one coordinator."""

    def __init__(
        self,
        replicas: LocalReplicas,
        metadata: MetadataCache,
        peers: RawCalls,
        cold_reads: ColdReads,
    ) -> None:
        self._replicas = replicas
        self._metadata = metadata
        self._peers = peers
        self._cold_reads = cold_reads
        self._known: OrderedDict[Place, int] = OrderedDict()

    async def find(
        self,
        coordinator: GroupCoordinator,
        ends: Mapping[TopicPartition, int],
        slices: Slices,
    ) -> Mapping[Place, Time]:
        """Return the times that are known for the committed offsets with a lag."""
        found: dict[Place, Time] = {}
        remote: dict[int, dict[Place, None]] = {}
        lookups = 0
        deadline_s = time.monotonic() + LOOKUP_SECONDS_MAX
        async for place in slices.over(_lagging(coordinator, ends)):
            if place in found:
                continue
            known = self._known.get(place)
            if known is not None:
                self._known.move_to_end(place)
                found[place] = known
                continue
            if lookups >= LOOKUPS_PER_SCRAPE_MAX:
                continue
            lookups += 1
            replica = self._replicas.get(place.topic, place.partition)
            if replica is not None and replica.is_leader:
                if time.monotonic() >= deadline_s:
                    continue
                self._note(found, place, await self._read(place))
                continue
            state = self._metadata.partition(place.topic, place.partition)
            if state is not None and state.leader != NO_LEADER:
                remote.setdefault(state.leader, {})[place] = None
        requests = [
            self._ask(leader, places[start : start + PLACES_MAX])
            for leader, of_leader in remote.items()
            for places in (tuple(of_leader),)
            for start in range(0, len(places), PLACES_MAX)
        ]
        for answered in await asyncio.gather(*requests):
            for place, time_ms in answered.items():
                self._note(found, place, time_ms)
        return found

    def _note(self, found: dict[Place, Time], place: Place, time_ms: Time) -> None:
        found[place] = time_ms
        if isinstance(time_ms, int) and time_ms >= 0:
            self._known[place] = time_ms
            if len(self._known) > REMEMBERED_MAX:
                self._known.popitem(last=False)

    async def _read(self, place: Place) -> Time:
        def look_up() -> Time:
            return unread_time(self._replicas.get(place.topic, place.partition), place.offset)

        try:
            with warm_only():
                return look_up()
        except ColdReadError as cold:
            return await self._cold_reads.warmed(cold, look_up)

    async def _ask(self, leader: int, places: Sequence[Place]) -> Mapping[Place, Time]:
        try:
            async with asyncio.timeout(RESPONSE_WAIT_MS_MAX / 1000):
                body = await self._peers.call_raw(
                    leader, ApiKey.OFFSET_TIMES, encode_places(places)
                )
            return dict(zip(places, decode_times(body), strict=True))
        except (KafkaError, OSError, TimeoutError, ValueError) as error:
            log.debug("the times of broker %d are unknown: %s", leader, error)
            return {}


def lag_seconds(place: Place, end: int, times: Mapping[Place, Time], now_ms: int) -> float | None:
    """Return the lag of a group in one partition; 0 if it has read all, None if it is unknown."""
    if place.offset >= end:
        return 0.0
    time_ms = times.get(place)
    if time_ms == AT_END:
        return 0.0
    if not isinstance(time_ms, int) or time_ms < 0:
        return None
    return max(now_ms - time_ms, 0) / 1000


def _lagging(coordinator: GroupCoordinator, ends: Mapping[TopicPartition, int]) -> Iterator[Place]:
    for shard in coordinator.shards():
        for group_id in shard.state.offsets.group_ids():
            for key, committed in shard.state.offsets.committed(group_id).items():
                if committed.offset < ends.get(key, 0):
                    yield Place(*key, committed.offset)
