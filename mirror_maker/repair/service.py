"""What an operator hears of a copy that is wrong, and what he orders. Shell.

`examine` reads and changes nothing. `order` writes the journal's entries, in one batch; the worker
that copies the partition does the rest (`Flow.check_orders`), now or after a restart.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from typing import Any, Final

from local_cluster.client.model import TopicPartition
from local_cluster.wire.errors import ErrorCode, KafkaError
from mirror_maker.context import LinkContext
from mirror_maker.formats import Gap, OffsetMap
from mirror_maker.formats.gaps import GapKind, gap_as_json
from mirror_maker.repair.diagnosis import RUNS_COUNTED_MAX, NoRepairError, Volume, diagnose, measure
from mirror_maker.repair.orders import entries
from mirror_maker.repair.plan import Diagnosis, How, Way, ways
from mirror_maker.stores.journal_store import ENTRIES_PER_WRITE_MAX

GROUPS_SHOWN_MAX: Final = 100
"""Of the groups whose positions an answer lists."""
JsonObject = dict[str, Any]

logger = logging.getLogger(__name__)


async def examine(context: LinkContext, source: TopicPartition) -> JsonObject:
    """What is wrong with a partition's copy, and the ways to go on.

    Raises NoRepairError, KafkaError to try again.
    """
    return await _document(context, source, await diagnose(context, source))


async def order(context: LinkContext, source: TopicPartition, how: How) -> JsonObject:
    """Have one of the ways gone: what `examine` says, and the entries that were written.

    Raises NoRepairError where it is not possible: nothing is written then. Raises KafkaError: it is
    not known whether it was written; `examine` tells.
    """
    found = await diagnose(context, source)
    if found.is_well:
        raise NoRepairError(f"nothing is wrong in the copy of {source}, so there is nothing to do")
    way = next(each for each in ways(found) if each.how is how)
    if way.refusal is not None:
        raise NoRepairError(f"`{how}` is not possible for {source}: {way.refusal}")
    # What it will do is told as it was before; afterwards all of it is explained.
    document = await _document(context, source, found)
    told = _entries(context, source, found, how)
    if len(told) > ENTRIES_PER_WRITE_MAX:
        raise NoRepairError(
            f"`{how}` takes {len(told)} entries of the journal, {ENTRIES_PER_WRITE_MAX} can be "
            "written at once; `fresh` takes fewer"
        )
    held = await context.gap_store.note_all(told)
    await context.map_store.catch_up()
    if context.map_store.state.opening(found.opening.flow) != found.opening:
        raise KafkaError(
            ErrorCode.invalid_producer_epoch,
            f"{source}: another generation has begun meanwhile; look again",
        )
    if [each.reason for each in held] != [each.reason for each in told]:
        raise KafkaError(
            ErrorCode.invalid_record_state, f"{source}: another way was ordered meanwhile"
        )
    logger.warning("%s: an operator has ordered `%s`: %s", source, how, told[-1].detail)
    return document | {"ordered": how.value, "entries": [gap_as_json(each) for each in told]}


def _entries(context: LinkContext, source: TopicPartition, found: Diagnosis, how: How) -> list[Gap]:
    flow = found.opening.flow
    template = Gap(
        flow=flow,
        producer_epoch=found.opening.producer_epoch,
        nonce=0,  # each gets its own
        link=context.settings.name,
        target_topic=context.settings.copy_name(source.topic),
        source_from=0,
        source_to=0,
        records_count=None,
        reason="",
        detail="",
        target_offset=0,
        noticed_at_ms=context.clock.now_ms(),
        worker_id=context.worker_id,
    )
    journal = context.gap_store.state.partition_entries(*source)
    known = [each for each in journal if each.flow == flow]
    offset_map = context.map_store.state.offset_map(flow)
    return [
        _counted(each, offset_map, nonce=context.map_store.new_nonce())
        for each in entries(found, how, known, template)
    ]


async def _document(context: LinkContext, source: TopicPartition, found: Diagnosis) -> JsonObject:
    possible = ways(found)
    volumes = await asyncio.gather(*(measure(context, found, *way.again) for way in possible))
    return {
        "link": context.settings.name,
        "topic": source.topic,
        "partition": source.partition,
        "copy": context.settings.copy_name(source.topic),
        "is_well": found.is_well,
        "stop": found.stop,
        "faults": [fault._asdict() | {"kind": fault.kind.value} for fault in found.faults],
        "source": {"start": found.source_first, "end": found.source_end},
        "target": {"start": found.target_first, "end": found.target_end},
        "mapped_to": found.mapped_to,
        "ways": [_way(way, volume) for way, volume in zip(possible, volumes, strict=True)],
        "groups": _groups(context, source, found),
        "ordered": None,
        "entries": [],
    }


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
    """With a nonce of its own, and how many records it is about, as far as the map knows."""
    entry = replace(entry, nonce=nonce)
    if entry.kind is not GapKind.LOST or entry.source_to is None or offset_map is None:
        return entry
    count = offset_map.count_sources(entry.source_from, entry.source_to, runs_max=RUNS_COUNTED_MAX)
    return replace(entry, records_count=count)


def _groups(context: LinkContext, source: TopicPartition, found: Diagnosis) -> list[JsonObject]:
    """Positions in the copy that the link has committed, and where they stand in the source."""
    state = context.map_store.state
    offset_map = state.offset_map(found.opening.flow)
    assert offset_map is not None, "the flow has an opening"
    copy = context.settings.copy_name(source.topic), source.partition
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
