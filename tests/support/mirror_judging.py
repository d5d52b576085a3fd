"""Judge links by the referee's checks, with maps and journals read from their topics.

For tests without aggregators. The evidence is what producers were told (`Written`), both final
logs, and what the mirror published: its offset map and its journal. Groups and the audit's verdicts
are not judged here.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from local_cluster.client.client import KafkaClient
from local_cluster.client.reader import read_topic
from local_cluster.wire.errors import KafkaError
from mirror_maker.formats import GapJournal, MapTopic, OffsetMap, gaps_topic_name, map_topic_name
from tests.referee.admin import Admin
from tests.referee.checks.copy import check_copy, check_foreign, foreign_faults
from tests.referee.checks.finding import Judgement, Promise
from tests.referee.checks.flow_truth import Evidence, FlowTruth
from tests.referee.checks.journal import check_journal
from tests.referee.checks.source import check_source
from tests.referee.checks.translation import (
    EXACT,
    INEXACT,
    PENDING,
    UNMAPPED,
    Answer,
    ForwardCheck,
    ReverseCheck,
)
from tests.referee.content import may_be_doubled
from tests.referee.history import EntryKind, Flow, JournalEntry, Log, Partition, Written
from tests.referee.reading import read_logs, wait_without_open_transactions

POLL_SECONDS: Final = 0.5


class JudgedTopic(NamedTuple):
    """One topic of a link."""

    link: str
    source: str
    """Name of the source cluster."""
    topic: str
    target: str
    copy: str
    source_compacts: bool = False
    target_compacts: bool = False
    is_shared: bool = False
    """Whether others may write into the copy."""


class _Published(NamedTuple):
    maps: Mapping[tuple[str, str, int], OffsetMap]
    """By link, source topic and partition."""
    entries: Mapping[tuple[str, str, int], list[JournalEntry]]


async def judge_links(
    topics: Sequence[JudgedTopic],
    admins: Mapping[str, Admin],
    written: Mapping[str, Written],
    seconds_max: float,
    generations: Mapping[tuple[str, str], int] | None = None,
    is_repeated: Callable[[str], bool] = may_be_doubled,
) -> Judgement:
    """Wait until the maps reach the sources' ends, for so long at most, and judge.

    Nobody may write any more. `admins` are by cluster, `written` by identity, `generations` by
    cluster and topic: how often it was deleted and re-created. `is_repeated` knows by its identity
    which record its producer may have written twice. Raises AdminGaveUp, LogUnreadable.
    """
    judgement = Judgement()
    flows = await asyncio.to_thread(_flows, topics, admins, judgement)
    logs = await asyncio.to_thread(_read, flows, admins)
    deadline = time.monotonic() + seconds_max
    while True:
        published = await _published(topics, admins)
        behind = [flow for flow in flows if not _has_reached(published, flow, logs[flow.source])]
        if not behind or time.monotonic() > deadline:
            break
        await asyncio.sleep(POLL_SECONDS)
    for flow in behind:
        text = f"the map has not reached the source's end {seconds_max:.0f} s after the load"
        judgement.find(Promise.PROGRESS, "behind", flow, text)
    # The copies are as long as they will be only now.
    logs |= await asyncio.to_thread(_read, flows, admins)
    by_name = {(each.link, each.topic): each for each in topics}
    truths = [
        _truth(flow, by_name[flow.link, flow.source.topic], logs, written, published,
               (generations or {}).get((flow.source.cluster, flow.source.topic), 0),
               stands_still=flow in behind)
        for flow in flows
    ]  # fmt: skip
    into: dict[Partition, list[FlowTruth]] = defaultdict(list)
    for truth in truths:
        judgement.add(check_source(truth, is_repeated))
        judgement.add(check_copy(truth))
        judgement.add(check_journal(truth))
        judgement.add(_judge_forward(truth, published))
        into[truth.flow.target].append(truth)
    for target, merged in into.items():
        judgement.add(_judge_reverse(target, merged, published))
        if not any(by_name[each.flow.link, each.flow.source.topic].is_shared for each in merged):
            told = [entry for each in merged for entry, _ in each.entries]
            sources = {each.flow.source for each in merged}
            faults = list(foreign_faults(logs[target], written, sources, told))
            judgement.add(check_foreign(logs[target], faults))
    return judgement


def _flows(
    topics: Sequence[JudgedTopic], admins: Mapping[str, Admin], judgement: Judgement
) -> list[Flow]:
    counts = {name: admin.partition_counts() for name, admin in admins.items()}
    flows = []
    for each in topics:
        for number in range(counts[each.source][each.topic]):
            source = Partition(each.source, each.topic, number)
            target = Partition(each.target, each.copy, number)
            if number < counts[each.target].get(each.copy, 0):
                flows.append(Flow(each.link, source, target))
            else:
                judgement.find(Promise.COPY, "missing", source, f"{target} does not exist")
    return flows


def _read(flows: Sequence[Flow], admins: Mapping[str, Admin]) -> dict[Partition, Log]:
    partitions = {flow.source for flow in flows} | {flow.target for flow in flows}
    logs: dict[Partition, Log] = {}
    for name, admin in admins.items():
        places = sorted((each.topic, each.number) for each in partitions if each.cluster == name)
        wait_without_open_transactions(admin, places)
        logs |= read_logs(admin, name, places)
    return logs


async def _published(topics: Sequence[JudgedTopic], admins: Mapping[str, Admin]) -> _Published:
    maps: dict[tuple[str, str, int], OffsetMap] = {}
    entries: dict[tuple[str, str, int], list[JournalEntry]] = defaultdict(list)
    for link, target in dict.fromkeys((each.link, each.target) for each in topics):
        async with KafkaClient(admins[target].bootstrap) as client:
            map_topic, journal = MapTopic(), GapJournal()
            try:
                async for record in read_topic(client, map_topic_name(link)):
                    map_topic.replay(record.key, record.value)
                async for record in read_topic(client, gaps_topic_name(link)):
                    journal.replay(record.key, record.value)
            except KafkaError:
                pass  # a topic that is not there yet, or not at all
            for at in {(each.source_topic, each.partition) for each in map_topic.every_flow()}:
                flow = map_topic.latest_flow(*at)
                found = None if flow is None else map_topic.offset_map(flow)
                if found is not None:
                    maps[link, *at] = found
            for gap in journal.all_entries():
                place = link, gap.flow.source_topic, gap.flow.partition
                entries[place].append(
                    JournalEntry(
                        kind=EntryKind(gap.kind.value),
                        link=link,
                        topic=gap.flow.source_topic,
                        partition=gap.flow.partition,
                        source_from=gap.source_from,
                        source_to=gap.source_to,
                        records_count=gap.records_count,
                        reason=gap.reason,
                        target_topic=gap.target_topic,
                        target_offset=gap.target_offset,
                        target_to=gap.target_to,
                        copied_count=gap.copied_count,
                        noticed_at_ms=gap.noticed_at_ms,
                    )
                )
    return _Published(maps, entries)


def _place(flow: Flow) -> tuple[str, str, int]:
    return flow.link, flow.source.topic, flow.source.number


def _has_reached(published: _Published, flow: Flow, source: Log) -> bool:
    offset_map = published.maps.get(_place(flow))
    if offset_map is None:
        return source.end_offset == source.start_offset
    return offset_map.translate(source.end_offset).state.value != PENDING


def _truth(
    flow: Flow,
    topic: JudgedTopic,
    logs: Mapping[Partition, Log],
    written: Mapping[str, Written],
    published: _Published,
    generation: int,
    *,
    stands_still: bool,
) -> FlowTruth:
    return FlowTruth(
        Evidence(
            flow=flow,
            written=[each for each in written.values() if each.partition == flow.source],
            source=logs[flow.source],
            target=logs[flow.target],
            generation=generation,
            journal=published.entries.get(_place(flow), []),
            source_compacts=topic.source_compacts,
            target_compacts=topic.target_compacts,
            stands_still=stands_still,
        )
    )


def _judge_forward(truth: FlowTruth, published: _Published) -> Judgement:
    judgement = Judgement()
    offset_map = published.maps.get(_place(truth.flow))
    if offset_map is None:
        return judgement
    check = ForwardCheck(truth)
    flow = truth.flow
    for offset in range(truth.evidence.source.end_offset + 2):
        state, target_offset = offset_map.translate(offset)
        said = (flow.link, flow.source.topic, offset, flow.target.topic, target_offset)
        judgement.add(check.judge(offset, Answer(state.value, *said)))
    return judgement


def _judge_reverse(
    target: Partition, truths: Sequence[FlowTruth], published: _Published
) -> Judgement:
    judgement = Judgement()
    check = ReverseCheck(target, truths)
    maps = {truth: published.maps[_place(truth.flow)] for truth in truths
            if _place(truth.flow) in published.maps}  # fmt: skip
    for offset in range(truths[0].evidence.target.end_offset + 1):
        judgement.add(check.judge(offset, _reverse(maps, target, offset)))
    return judgement


def _reverse(maps: Mapping[FlowTruth, OffsetMap], target: Partition, offset: int) -> Answer:
    for truth, offset_map in maps.items():
        source = truth.flow.source.topic
        place = truth.flow.link, source
        known = offset_map.source_of(offset)
        if known is not None:
            return Answer(EXACT, *place, known, target.topic, offset)
        hole = offset_map.hole_of(offset)
        if hole is not None:
            return Answer(INEXACT, *place, None, target.topic, offset, *hole)
    is_behind = all(offset >= each.target_next for each in maps.values())
    return Answer(PENDING if is_behind else UNMAPPED, None, None, None, target.topic, offset)
