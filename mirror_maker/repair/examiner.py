"""Finds out what is wrong in the copy of one partition. Shell; nothing is written."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from local_cluster.client.model import TopicPartition
from local_cluster.records.header import iter_headers
from local_cluster.wire.errors import ErrorCode, KafkaError
from mirror_maker.audit.explained_findings import explainer
from mirror_maker.clusters.partition_log import TargetLog
from mirror_maker.clusters.topic_directory import Directory
from mirror_maker.formats import FlowKey, Gap, OffsetMap, Opening
from mirror_maker.formats.gaps import GapKind
from mirror_maker.formats.verdicts import Finding
from mirror_maker.model import FlowFailedError, PairingError
from mirror_maker.ports import Clock, LogReader
from mirror_maker.repair.log_scan import find_own_to, scan_batches
from mirror_maker.repair.plan import FAULTS_MAX, Diagnosis, Fault, FaultKind
from mirror_maker.resume.divergence import TruncatedError, find_divergence
from mirror_maker.resume.foreign_records import may_hold_foreign
from mirror_maker.resume.generations import next_epoch
from mirror_maker.resume.journal_entries import replaced_from
from mirror_maker.resume.log_comparison import ComparedLogs, LogComparison
from mirror_maker.resume.source_log import LinkLogs, SourceLog
from mirror_maker.rules.gap_ranges import GapRanges
from mirror_maker.settings import LinkSettings
from mirror_maker.stores.link_stores import LinkStores

RUNS_COUNTED_MAX: Final = 1_000_000
MEASURE_BYTES_MAX: Final = 4 * 1024 * 1024
"""Read from the source, to estimate the size of what would be copied again."""


class NoRepairError(Exception):
    """Nothing can be said or done about this partition; the message says why."""


class Volume(NamedTuple):
    """How much would be copied again."""

    records_count: int | None
    """None if the map does not know."""
    bytes_count: int | None
    is_estimate: bool
    """Whether the bytes are extrapolated from the first `MEASURE_BYTES_MAX`."""


class Examiner:
    """Examines copies of one link."""

    def __init__(
        self,
        settings: LinkSettings,
        *,
        logs: LinkLogs,
        sink: LogReader,
        directory: Directory,
        stores: LinkStores,
        clock: Clock,
        quiet_ms: int,
    ) -> None:
        self._settings = settings
        self._logs = logs
        self._sink = sink
        self._directory = directory
        self._map_store = stores.map_store
        self._journal = stores.journal
        self._audit_topics = stores.audit_topics
        self._clock = clock
        self._quiet_ms = quiet_ms

    async def diagnose(self, at: TopicPartition) -> Diagnosis:
        """Examine one source partition. Raises NoRepairError, KafkaError to try again."""
        source = self._logs.source(at)
        target = self._logs.target(at._replace(topic=self._settings.copy_name(at.topic)))
        opening, journal = await self._read_state(source, target)
        state = self._map_store.state
        flow = opening.flow
        offset_map = state.build_offset_map(flow)
        assert offset_map is not None, "the flow has an opening"
        source_first, source_end = await source.bounds()
        target_first, target_end = await target.bounds()
        faults, stop = await self._compare_logs(opening, offset_map, source, target)
        faults += await self._audit_faults(flow, journal, target_first, faults)
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
            is_shared=may_hold_foreign(self._settings, at.topic),
            is_compacted=await self._refuses_deletion(target.at.topic),
        )

    async def measure(self, found: Diagnosis, start: int, end: int) -> Volume:
        """Return the volume of the source offsets [start, end). Raises KafkaError."""
        flow = found.opening.flow
        offset_map = self._map_store.state.offset_map(flow)
        if start >= end or offset_map is None:
            return Volume(0, 0, is_estimate=False)
        records_count = offset_map.count_sources(start, end, runs_max=RUNS_COUNTED_MAX)
        source = self._logs.source(TopicPartition(flow.source_topic, flow.partition))
        fetched = await source.fetch_committed(start, MEASURE_BYTES_MAX)
        sizes, position = 0, start
        for _, header in iter_headers(fetched.records):
            if header.base_offset >= end:
                break
            sizes += header.size_bytes
            position = header.next_offset
        if position == start:
            return Volume(records_count, None, is_estimate=False)
        if position >= end:
            return Volume(records_count, sizes, is_estimate=False)
        bytes_count = sizes * (end - start) // (position - start)
        return Volume(records_count, bytes_count, is_estimate=True)

    async def _read_state(self, source: SourceLog, target: TargetLog) -> tuple[Opening, list[Gap]]:
        """Return the valid opening, and the journal's entries of its flow."""
        directory, state = self._directory, self._map_store.state
        if not self._map_store.is_open or not directory.is_loaded:
            raise KafkaError(ErrorCode.coordinator_not_available, "the link has not started")
        source_topic_id = directory.source_topic_id(source.at.topic)
        target_topic_id = directory.target_topic_id(target.at.topic)
        for log, topic_id in ((source, source_topic_id), (target, target_topic_id)):
            if topic_id is None:
                side = "source" if log is source else "target"
                raise NoRepairError(f"{log.at.topic} does not exist at the {side}")
        assert source_topic_id is not None and target_topic_id is not None
        await self._map_store.catch_up()
        await self._journal.catch_up()
        flow = FlowKey(source.at.topic, source.at.partition, source_topic_id, target_topic_id)
        opening = state.opening(flow)
        if opening is None:
            raise NoRepairError(
                f"nothing of {source.at} was copied into {target.at} since both topics were "
                "created, so there is no copy to repair"
            )
        if replaced_from(self._journal, opening) is not None:
            raise NoRepairError(
                f"a new generation of {target.at} is ordered already; it begins when no write of "
                f"the old one has arrived for {self._quiet_ms // 1000} s"
            )
        entries = self._journal.state.partition_entries(*source.at)
        return opening, [each for each in entries if each.flow == flow]

    async def _compare_logs(
        self, opening: Opening, offset_map: OffsetMap, source: SourceLog, target: TargetLog
    ) -> tuple[list[Fault], str | None]:
        """Return the faults that a proof would meet, and why it could not continue."""
        last = self._map_store.state.last_block(opening.flow, opening.producer_epoch)
        comparison = LogComparison(
            source, target, self._journal, self._settings, self._clock, self._quiet_ms
        )
        try:
            logs = await comparison.compare(opening, last)
        except (PairingError, TruncatedError) as error:
            faults = await self._find_faults(opening, offset_map, source, target, error)
            return faults, str(error)
        except FlowFailedError as error:
            raise NoRepairError(f"it is not the copy that is wrong: {error}") from error
        if may_hold_foreign(self._settings, source.at.topic):
            return [], None
        return list(_foreign_faults(logs)), None

    async def _find_faults(
        self,
        opening: Opening,
        offset_map: OffsetMap,
        source: SourceLog,
        target: TargetLog,
        error: FlowFailedError,
    ) -> list[Fault]:
        """Find where the copy stops being what the map says, and what follows that place."""
        common_end = error.common_end if isinstance(error, TruncatedError) else None
        mapped_to = offset_map.source_next
        same_to = await find_divergence(source, target, offset_map, common_end)
        target_first, target_end = await target.bounds()
        same_to = min(same_to, mapped_to)
        same_to = await find_own_to(target, opening.producer_id, offset_map, same_to)
        if offset_map.target_next > target_end:
            known_to = max(offset_map.source_start, offset_map.source_place(target_end))
            same_to = min(same_to, known_to)
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
        scanned = await scan_batches(target, opening.producer_id, max(scan_from, target_first))
        for start, end, is_ours in scanned:
            if is_ours:
                detail = "these records of the link cannot be paired with the source"
                faults.append(Fault(FaultKind.UNEXPLAINED, start, end, None, None, None, detail))
            elif not may_hold_foreign(self._settings, source.at.topic):
                faults.append(_foreign_fault(start, end))
        return faults

    async def _audit_faults(
        self, flow: FlowKey, journal: list[Gap], target_first: int, known: list[Fault]
    ) -> list[Fault]:
        """Return the audit's findings that neither the journal nor `known` faults explain."""
        await self._audit_topics.read_verdicts()
        findings = self._audit_topics.verdicts.flow(flow).findings.values()
        explain = explainer(journal, target_first)
        covered = GapRanges((each.target_from, each.target_to) for each in known)
        return [
            _audit_fault(each)
            for each in findings
            if explain(each) is None and not covered.covers(each.target_from, each.target_to)
        ]

    async def _refuses_deletion(self, topic: str) -> bool:
        configs = (await self._sink.ask_topic_configs([topic])).get(topic)
        if configs is None or isinstance(configs, KafkaError):
            return False  # unknown: the target refuses when it is asked to delete
        return "delete" not in (configs.get("cleanup.policy", (None, True))[0] or "delete")


def _foreign_faults(logs: ComparedLogs) -> Iterator[Fault]:
    for start, end in logs.tail.foreign:
        yield _foreign_fault(start, end)


def _foreign_fault(start: int, end: int) -> Fault:
    detail = "the link did not write these records"
    return Fault(FaultKind.FOREIGN, start, end, None, None, None, detail)


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
    """Leave out foreign records that the journal has already."""
    accepted = GapRanges(
        (each.target_offset, each.target_to or 0)
        for each in journal
        if each.kind is GapKind.FOREIGN and each.producer_epoch == opening.producer_epoch
    )
    found: list[Fault] = []
    for each in faults:
        if each.kind is not FaultKind.FOREIGN:
            found.append(each)
            continue
        for start, end in accepted.uncovered(each.target_from, each.target_to):
            found.append(each._replace(target_from=start, target_to=end))
    return found


def _wrong_from(faults: list[Fault], offset_map: OffsetMap) -> int:
    places = [offset_map.source_next]
    for fault in faults:
        if fault.source_from is not None:
            places.append(fault.source_from)
        elif fault.target_from < offset_map.target_next:
            places.append(offset_map.source_place(fault.target_from))
    return max(min(places), offset_map.source_start)
