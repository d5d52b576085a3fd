"""Answers an operator about a wrong copy, and writes the orders. Shell.

`examine` reads and changes nothing. `order` writes the journal's entries in one batch. The worker
that copies the partition does the rest (`Flow.check_orders`), now or after a restart.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from typing import Any, Final

from local_cluster.client.model import TopicPartition
from local_cluster.wire.errors import ErrorCode, KafkaError
from mirror_maker.formats import Gap, OffsetMap
from mirror_maker.formats.gaps import GapKind, gap_as_json
from mirror_maker.repair.examiner import RUNS_COUNTED_MAX, Examiner, NoRepairError, Volume
from mirror_maker.repair.orders import order_entries
from mirror_maker.repair.plan import Diagnosis, How, Way, ways
from mirror_maker.settings import LinkSettings
from mirror_maker.stores.journal_store import ENTRIES_PER_WRITE_MAX, GapStore
from mirror_maker.stores.map_store import MapStore

GROUPS_SHOWN_MAX: Final = 100
"""Groups whose positions an answer lists."""
JsonObject = dict[str, Any]

log = logging.getLogger(__name__)


class CopyRepair:
    """The repairs of one link."""

    def __init__(
        self, settings: LinkSettings, examiner: Examiner, map_store: MapStore, journal: GapStore
    ) -> None:
        self._settings = settings
        self._examiner = examiner
        self._map_store = map_store
        self._journal = journal

    async def examine(self, source: TopicPartition) -> JsonObject:
        """Return what is wrong with a partition's copy, and the ways to continue.

        Raises NoRepairError, KafkaError to try again.
        """
        return await self._document(source, await self._examiner.diagnose(source))

    async def order(self, source: TopicPartition, how: How) -> JsonObject:
        """Order one of the ways; return what `examine` returns, and the entries written.

        Raises NoRepairError if it is not possible: nothing is written then. Raises KafkaError if it
        is unknown whether the order was written; `examine` tells.
        """
        found = await self._examiner.diagnose(source)
        if found.is_well:
            raise NoRepairError(f"nothing is wrong in the copy of {source}: nothing to repair")
        way = next(each for each in ways(found) if each.how is how)
        if way.refusal is not None:
            raise NoRepairError(f"`{how}` is not possible for {source}: {way.refusal}")
        # The effects are described as they are before the order; afterwards all is explained.
        document = await self._document(source, found)
        entries = self._entries(source, found, how)
        if len(entries) > ENTRIES_PER_WRITE_MAX:
            raise NoRepairError(
                f"`{how}` takes {len(entries)} entries of the journal, but only "
                f"{ENTRIES_PER_WRITE_MAX} can be written at once; `fresh` takes fewer"
            )
        held = await self._journal.note_all(entries)
        await self._map_store.catch_up()
        if self._map_store.state.opening(found.opening.flow) != found.opening:
            raise KafkaError(
                ErrorCode.invalid_producer_epoch,
                f"{source}: another generation has begun meanwhile; examine again",
            )
        if [each.reason for each in held] != [each.reason for each in entries]:
            raise KafkaError(
                ErrorCode.invalid_record_state, f"{source}: another way was ordered meanwhile"
            )
        log.warning("%s: an operator ordered `%s`: %s", source, how, entries[-1].detail)
        return document | {
            "ordered": how.value,
            "entries": [gap_as_json(each) for each in entries],
        }

    def _entries(self, source: TopicPartition, found: Diagnosis, how: How) -> list[Gap]:
        flow = found.opening.flow
        template = self._journal.new_entry(
            flow,
            nonce=0,  # each entry gets its own
            producer_epoch=found.opening.producer_epoch,
            target_topic=self._settings.copy_name(source.topic),
            source_from=0,
            source_to=0,
            reason="",
            detail="",
            target_offset=0,
        )
        journal = self._journal.state.partition_entries(*source)
        known = [each for each in journal if each.flow == flow]
        offset_map = self._map_store.state.offset_map(flow)
        return [
            _counted(each, offset_map, nonce=self._journal.new_nonce())
            for each in order_entries(found, how, known, template)
        ]

    async def _document(self, source: TopicPartition, found: Diagnosis) -> JsonObject:
        possible = ways(found)
        volumes = await asyncio.gather(
            *(self._examiner.measure(found, *way.again) for way in possible)
        )
        return {
            "link": self._settings.name,
            "topic": source.topic,
            "partition": source.partition,
            "copy": self._settings.copy_name(source.topic),
            "is_well": found.is_well,
            "stop": found.stop,
            "faults": [fault._asdict() | {"kind": fault.kind.value} for fault in found.faults],
            "source": {"start": found.source_first, "end": found.source_end},
            "target": {"start": found.target_first, "end": found.target_end},
            "mapped_to": found.mapped_to,
            "ways": [_way(way, volume) for way, volume in zip(possible, volumes, strict=True)],
            "groups": self._groups(source, found),
            "ordered": None,
            "entries": [],
        }

    def _groups(self, source: TopicPartition, found: Diagnosis) -> list[JsonObject]:
        """Return the positions that the link committed in the copy, and their source offsets."""
        state = self._map_store.state
        offset_map = state.offset_map(found.opening.flow)
        assert offset_map is not None, "the flow has an opening"
        copy = self._settings.copy_name(source.topic), source.partition
        groups = sorted(
            (each.group_id, each.wanted)
            for each in state.mirrored_commits()
            if (each.topic, each.partition) == copy
        )
        return [
            {
                "group": group_id,
                "target_offset": offset,
                "source_offset": offset_map.source_place(offset),
            }
            for group_id, offset in groups[:GROUPS_SHOWN_MAX]
        ]


def _way(way: Way, volume: Volume) -> JsonObject:
    return {
        "how": way.how.value,
        "is_possible": way.refusal is None,
        "refusal": way.refusal,
        "copied_again": {
            "source_from": way.again[0],
            "source_to": way.again[1],
            "records": volume.records_count,
            "bytes": volume.bytes_count,
            "is_estimate": volume.is_estimate,
        },
        "given_up": [{"source_from": start, "source_to": end} for start, end in way.given_up],
        "effects": list(way.effects),
    }


def _counted(entry: Gap, offset_map: OffsetMap | None, nonce: int) -> Gap:
    """Set the entry's nonce, and how many records it is about, as far as the map knows."""
    entry = replace(entry, nonce=nonce)
    if entry.kind is not GapKind.LOST or entry.source_to is None or offset_map is None:
        return entry
    count = offset_map.count_sources(entry.source_from, entry.source_to, runs_max=RUNS_COUNTED_MAX)
    return replace(entry, records_count=count)
