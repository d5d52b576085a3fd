"""What is wrong in the copy of one partition: map, journal, audit and both logs are read. Shell.

Nothing is written. Any worker of the link can look: what counts is on the clusters.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from local_cluster.client.model import TopicPartition
from local_cluster.records.header import iter_headers
from local_cluster.wire.errors import ErrorCode, KafkaError
from mirror_maker.audit.explained_findings import explainer
from mirror_maker.context import LinkContext
from mirror_maker.formats import FlowKey, Gap, OffsetMap, Opening
from mirror_maker.formats.gaps import GapKind
from mirror_maker.formats.verdicts import Finding
from mirror_maker.model import FlowFailedError, PairingError
from mirror_maker.repair.batch_owners import own_to, scan
from mirror_maker.repair.plan import FAULTS_MAX, Diagnosis, Fault, FaultKind
from mirror_maker.resume.divergence import TruncatedError, find_divergence
from mirror_maker.resume.foreign_records import may_hold_others
from mirror_maker.resume.generations import next_epoch
from mirror_maker.resume.lost_source import fetch_committed
from mirror_maker.resume.prove import ReadLogs, read_logs, replaced_from
from mirror_maker.rules.gap_ranges import GapRanges

RUNS_COUNTED_MAX: Final = 1_000_000
MEASURE_BYTES_MAX: Final = 4 * 1024 * 1024
"""Of the source, read to tell how large what would be copied again is."""


class NoRepairError(Exception):
    """Nothing can be said or done about this partition, and why."""


class Volume(NamedTuple):
    """How much would be copied again."""

    records_count: int | None
    """None where the map does not know."""
    bytes_count: int | None
    is_estimate: bool
    """Whether the bytes are reckoned from the first `MEASURE_BYTES_MAX` of them."""


async def diagnose(context: LinkContext, source: TopicPartition) -> Diagnosis:
    """Look at one partition. Raises NoRepairError, KafkaError to try again."""
    target = source._replace(topic=context.settings.copy_name(source.topic))
    opening, journal = await _read_state(context, source, target)
    state = context.map_store.state
    flow = opening.flow
    offset_map = state.build_offset_map(flow)
    assert offset_map is not None, "the flow has an opening"
    source_first, source_end = await context.source_logs.bounds(source)
    target_first, target_end = await context.sink_logs.bounds(target)
    faults, stop = await _compare_logs(context, opening, offset_map, source, target)
    faults += await _audit_faults(context, flow, journal, target_first, faults)
    faults = _unaccepted(faults, journal, opening)
    faults.sort(key=lambda each: each.target_from)
    return Diagnosis(
        opening=opening,
        faults=tuple(faults[:FAULTS_MAX]),
        stop=stop,
        wrong_from=_wrong_from(faults, offset_map),
        mapped_to=offset_map.source_next,
        source_start=offset_map.source_start,
        source_first=source_first,
        source_end=source_end,
        target_first=target_first,
        target_end=target_end,
        next_epoch=next_epoch(state.highest_epoch(flow)),
        is_shared=may_hold_others(context, source.topic),
        is_compacted=await _refuses_deletion(context, target.topic),
    )


async def measure(context: LinkContext, found: Diagnosis, start: int, behind: int) -> Volume:
    """Of the source offsets [start, behind). Raises KafkaError."""
    flow = found.opening.flow
    offset_map = context.map_store.state.offset_map(flow)
    if start >= behind or offset_map is None:
        return Volume(0, 0, is_estimate=False)
    records_count = offset_map.count_sources(start, behind, runs_max=RUNS_COUNTED_MAX)
    source = TopicPartition(flow.source_topic, flow.partition)
    fetched = await fetch_committed(context, source, start, MEASURE_BYTES_MAX)
    sizes, position = 0, start
    for _, header in iter_headers(fetched.records):
        if header.base_offset >= behind:
            break
        sizes += header.size_bytes
        position = header.next_offset
    if position == start:
        return Volume(records_count, None, is_estimate=False)
    if position >= behind:
        return Volume(records_count, sizes, is_estimate=False)
    bytes_count = sizes * (behind - start) // (position - start)
    return Volume(records_count, bytes_count, is_estimate=True)


async def _read_state(
    context: LinkContext, source: TopicPartition, target: TopicPartition
) -> tuple[Opening, list[Gap]]:
    """The opening that holds, and the journal's entries of its flow."""
    directory, state = context.directory, context.map_store.state
    if not context.map_store.is_open or not directory.is_loaded:
        raise KafkaError(ErrorCode.coordinator_not_available, "the link has not begun")
    source_topic_id = directory.source_topic_id(source.topic)
    target_topic_id = directory.target_topic_id(target.topic)
    for at, topic_id in ((source, source_topic_id), (target, target_topic_id)):
        if topic_id is None:
            side = "source" if at is source else "target"
            raise NoRepairError(f"{at.topic} is not there at the {side}")
    assert source_topic_id is not None and target_topic_id is not None
    await context.map_store.catch_up()
    await context.gap_store.catch_up()
    flow = FlowKey(source.topic, source.partition, source_topic_id, target_topic_id)
    opening = state.opening(flow)
    if opening is None:
        raise NoRepairError(
            f"nothing of {source} was copied into {target} since both topics were created, so "
            "there is no copy to repair"
        )
    if replaced_from(context, opening) is not None:
        raise NoRepairError(
            f"a new generation of {target} is ordered already; it begins when no write of the old "
            f"one has arrived for {context.limits.epoch_quiet_ms // 1000} s"
        )
    entries = context.gap_store.state.partition_entries(*source)
    return opening, [each for each in entries if each.flow == flow]


async def _compare_logs(
    context: LinkContext,
    opening: Opening,
    offset_map: OffsetMap,
    source: TopicPartition,
    target: TopicPartition,
) -> tuple[list[Fault], str | None]:
    """What a resume would meet: faults, and why it could not go on."""
    last = context.map_store.state.last_block(opening.flow, opening.producer_epoch)
    try:
        logs = await read_logs(context, opening, last, source, target)
    except (PairingError, TruncatedError) as error:
        return await _find_faults(context, opening, offset_map, target, error), str(error)
    except FlowFailedError as error:
        raise NoRepairError(f"it is not the copy that is wrong: {error}") from error
    if may_hold_others(context, source.topic):
        return [], None
    return list(_foreign_faults(logs)), None


def _foreign_faults(logs: ReadLogs) -> Iterator[Fault]:
    for start, end in logs.tail.others:
        detail = "the link did not write these records"
        yield Fault(FaultKind.FOREIGN, start, end, None, None, None, detail)


async def _find_faults(
    context: LinkContext,
    opening: Opening,
    offset_map: OffsetMap,
    target: TopicPartition,
    error: FlowFailedError,
) -> list[Fault]:
    """Where the copy stops being what the map says, and what lies behind that place."""
    common_end = error.common_end if isinstance(error, TruncatedError) else None
    flow, mapped_to = opening.flow, offset_map.source_next
    same_to = await find_divergence(context, flow, target, offset_map, common_end)
    target_first, target_end = await context.sink_logs.bounds(target)
    same_to = min(same_to, mapped_to)
    same_to = await own_to(context, opening, target, offset_map, same_to)
    if offset_map.target_next > target_end:
        same_to = min(same_to, max(offset_map.source_start, offset_map.source_place(target_end)))
    wrong = offset_map.next_mapped(same_to)
    faults: list[Fault] = []
    scan_from = offset_map.target_next
    if wrong is not None:
        scan_from = wrong[1]
        kind = FaultKind.TRUNCATED if isinstance(error, TruncatedError) else FaultKind.DIVERGED
        count = offset_map.count_sources(same_to, mapped_to, runs_max=RUNS_COUNTED_MAX)
        target_to = offset_map.target_next
        faults.append(Fault(kind, wrong[1], target_to, same_to, mapped_to, count, str(error)))
        if kind is FaultKind.TRUNCATED:
            return faults  # the copy itself is as the map says
    behind = await scan(context, opening, target, max(scan_from, target_first))
    for start, end, is_ours in behind:
        if is_ours:
            detail = "these records of the link cannot be paired with the source"
            faults.append(Fault(FaultKind.UNEXPLAINED, start, end, None, None, None, detail))
        elif not may_hold_others(context, flow.source_topic):
            detail = "the link did not write these records"
            faults.append(Fault(FaultKind.FOREIGN, start, end, None, None, None, detail))
    return faults


async def _audit_faults(
    context: LinkContext,
    flow: FlowKey,
    journal: list[Gap],
    target_first: int,
    known: list[Fault],
) -> list[Fault]:
    """What the audit has found and the journal does not explain, beside what is `known`."""
    await context.audit_topics.read_verdicts()
    findings = context.audit_topics.verdicts.flow(flow).findings.values()
    explain = explainer(journal, target_first)
    covered = GapRanges((each.target_from, each.target_to) for each in known)
    return [
        _audit_fault(each)
        for each in findings
        if explain(each) is None and not covered.covers(each.target_from, each.target_to)
    ]


def _audit_fault(finding: Finding) -> Fault:
    return Fault(
        FaultKind(finding.verdict.value),
        finding.target_from,
        finding.target_to,
        finding.source_from,
        finding.source_to,
        finding.records_count,
        f"the audit found it: {finding.detail}",
    )


def _unaccepted(faults: list[Fault], journal: list[Gap], opening: Opening) -> list[Fault]:
    """Without foreign records that the journal has already."""
    accepted = GapRanges(
        (each.target_offset, each.target_to or 0)
        for each in journal
        if each.kind is GapKind.FOREIGN and each.producer_epoch == opening.producer_epoch
    )
    return [
        part
        for each in faults
        for part in (
            [each]
            if each.kind is not FaultKind.FOREIGN
            else [
                each._replace(target_from=start, target_to=end)
                for start, end in accepted.uncovered(each.target_from, each.target_to)
            ]
        )
    ]


def _wrong_from(faults: list[Fault], offset_map: OffsetMap) -> int:
    places = [offset_map.source_next]
    for fault in faults:
        if fault.source_from is not None:
            places.append(fault.source_from)
        elif fault.target_from < offset_map.target_next:
            places.append(offset_map.source_place(fault.target_from))
    return max(min(places), offset_map.source_start)


async def _refuses_deletion(context: LinkContext, topic: str) -> bool:
    configs = (await context.sink.ask_topic_configs([topic])).get(topic)
    if configs is None or isinstance(configs, KafkaError):
        return False  # not known: the target says so when it is asked to delete
    return "delete" not in (configs.get("cleanup.policy", (None, True))[0] or "delete")
