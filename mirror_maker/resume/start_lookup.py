"""Where a flow without an opening begins: the setting `start`, looked up once. Shell."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from local_cluster.client.model import TopicPartition
from mirror_maker.clusters.partition_log import TargetLog
from mirror_maker.ports import Clock
from mirror_maker.resume.mm2_takeover import Mm2Offsets, find_take_over
from mirror_maker.resume.source_log import SourceLog
from mirror_maker.rules.start_position import StartKind, mm2_offsets_topic, parse_start
from mirror_maker.settings import LinkSettings
from mirror_maker.stores.map_store import MapStore

FIRST_MOMENTS_MS: Final = 60_000
"""How long after its registration a link counts as new: its workers start within this."""


class StartingPoint(NamedTuple):
    """Where an opening begins in the source."""

    source_offset: int
    has_older_copies: bool = False
    """Whether MirrorMaker 2 copied what precedes it."""


class StartLookup:
    """Finds the starting point of one flow."""

    def __init__(
        self,
        source: SourceLog,
        target: TargetLog,
        settings: LinkSettings,
        *,
        was_found_first: Callable[[TopicPartition], bool],
        map_store: MapStore,
        mm2_offsets: Mm2Offsets,
        clock: Clock,
    ) -> None:
        """`was_found_first` tells whether the first round of discovery found a partition."""
        self._source = source
        self._target = target
        self._settings = settings
        self._was_found_first = was_found_first
        self._map_store = map_store
        self._mm2_offsets = mm2_offsets
        self._clock = clock

    async def find(self) -> StartingPoint:
        """Return where this partition begins by the setting. Raises KafkaError, FlowFailedError."""
        source = self._source
        start = parse_start(self._settings.for_topic(source.at.topic).start)
        if start.kind is StartKind.LATEST and self._existed_first():
            return StartingPoint(await source.end())
        if start.kind is StartKind.TIMESTAMP:
            # In this order: a record that arrives in between may have that timestamp.
            end = await source.end()
            offset = await source.at_time(start.timestamp_ms)
            return StartingPoint(offset if offset >= 0 else end)
        if start.kind is StartKind.MM2:
            topic = start.offsets_topic or mm2_offsets_topic(self._settings.source_alias)
            noted = await self._mm2_offsets.read(topic, source.at)
            return StartingPoint(*await find_take_over(source, self._target, noted))
        return StartingPoint(await source.first())

    def _existed_first(self) -> bool:
        """Return whether the partition existed when the link began."""
        age_ms = self._clock.now_ms() - self._map_store.registration.registered_at_ms
        return age_ms <= FIRST_MOMENTS_MS and self._was_found_first(self._source.at)
