"""The audit of a link, assembled from the topics that its mirror publishes. Pure.

The mirror compares the target's log with the acknowledged batches (`mirror_maker/audit/`) and
publishes verdicts. The journal has the offsets that were not copied, with the reason. The map has
the end of the copies. The rows of `/api/v1/audit` come from these three:

    verdict        from
    COMPLETE       verdicts: read back, byte for byte as acknowledged
    LOST, DUPLICATED, ALTERED, FOREIGN   verdicts, with a finding for each batch
    CLEANED        verdicts, and everything below the target's current log start
    EXPECTED GAP   journal: not copied, or accepted, with the reason
    UNVERIFIED     map: copies above `audited_to`, or from before the start of the audit
    LATE           the source's end: offsets that the map does not reach yet

Guarantees: COMPLETE counts only batches that the auditor has read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from aggregator.maps.link_map import LinkMap, TopicIds
from mirror_maker.formats import FlowKey, Gap, GapJournal, OffsetMap
from mirror_maker.formats.gaps import GapKind
from mirror_maker.formats.probe import is_probe_topic
from mirror_maker.formats.verdict_topic import FlowVerdicts, VerdictTopic
from mirror_maker.formats.verdicts import BUCKET_MS, FAULTS, Finding, Progress, Tally, Verdict

RUNS_COUNTED_MAX: Final = 10_000
"""Most runs of a map that are counted; with more, the number of records is unknown."""

SourceEnds = Mapping[tuple[str, int], int]
"""(topic, partition) to the end of the source partition, if a worker reports it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRow:
    """Records of one verdict. Offsets are None on a side without records, or if unknown."""

    verdict: Verdict
    start_ms: int | None
    """Start of the bucket of record time; None if the records' times are unknown."""
    records_count: int | None
    batches_count: int | None
    source_from: int | None
    source_to: int | None
    target_from: int | None
    target_to: int | None
    reason: str | None = None

    @property
    def is_fault(self) -> bool:
        return self.verdict in FAULTS


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionAudit:
    """The audit of one source partition."""

    flow: FlowKey
    target_topic: str
    audited_from: int | None
    audited_to: int | None
    """Target offsets [from, to) were compared; None before the start of the audit."""
    audited_at_ms: int | None
    """Every batch that was acknowledged before this time was compared; None before the start."""
    is_current: bool
    """Whether every mapped record was compared."""
    batches_waiting: int
    rows: tuple[AuditRow, ...]
    findings: tuple[Finding, ...]

    def age_ms(self, now_ms: int) -> int | None:
        """Return the possible age of the oldest batch that was not compared; 0 if all were."""
        if self.is_current:
            return 0
        return None if self.audited_at_ms is None else max(0, now_ms - self.audited_at_ms)


BuiltAudits = dict[FlowKey, tuple[object, PartitionAudit]]
"""The last audit of each flow, with the state of its inputs."""


def audit_partition(
    flow: FlowKey,
    target_topic: str,
    offset_map: OffsetMap,
    verdicts: FlowVerdicts,
    entries: Sequence[Gap],
    source_end: int | None,
) -> PartitionAudit:
    """Assemble the audit of one partition.

    `entries` are the flow's journal entries. `source_end` is the end of the source partition, None
    if it is unknown.
    """
    progress = verdicts.progress
    reported = source_end, None if progress is None else progress.source_end
    ends = [each for each in reported if each is not None]
    rows = [
        *_unaudited(offset_map, progress),
        *_bucket_rows(verdicts, _log_start(offset_map, progress)),
        *_journal_rows(entries),
        *_late(offset_map, max(ends, default=None)),
    ]
    return PartitionAudit(
        flow=flow,
        target_topic=target_topic,
        audited_from=None if progress is None else progress.audited_from,
        audited_to=None if progress is None else progress.place.audited_to,
        audited_at_ms=None if progress is None else progress.audited_at_ms,
        is_current=progress is not None and progress.place.audited_to >= offset_map.target_next,
        batches_waiting=0 if progress is None else progress.waiting,
        rows=tuple(rows),
        findings=tuple(sorted(verdicts.findings.values(), key=lambda each: each.target_from)),
    )


def link_audit(
    link_map: LinkMap,
    verdicts: VerdictTopic | None,
    journal: GapJournal | None,
    target_ids: TopicIds,
    source_ends: SourceEnds,
    built: BuiltAudits | None = None,
) -> list[PartitionAudit]:
    """Return the audit of every mapped partition of a link, in order. Raises MapFormatError.

    `built` keeps the audits, and reuses those whose inputs have not changed.
    """
    audits = []
    for flow, target_topic, offset_map in link_map.current_flows(target_ids):
        if is_probe_topic(flow.source_topic):
            continue
        at = flow.source_topic, flow.partition
        found = FlowVerdicts() if verdicts is None else verdicts.flow(flow)
        entries = [] if journal is None else journal.partition_entries(*at)
        mine = [each for each in entries if each.flow == flow]
        inputs = (
            target_topic,
            (id(verdicts), found.version),
            (id(journal), len(mine)),
            (id(offset_map), offset_map.source_next, offset_map.target_next),
            offset_map.target_start,
            source_ends.get(at),
        )
        known = None if built is None else built.get(flow)
        if known is not None and known[0] == inputs:
            audits.append(known[1])
            continue
        audit = audit_partition(flow, target_topic, offset_map, found, mine, source_ends.get(at))
        audits.append(audit)
        if built is not None:
            built[flow] = inputs, audit
    return sorted(audits, key=lambda each: (each.flow.source_topic, each.flow.partition))


def _log_start(offset_map: OffsetMap, progress: Progress | None) -> int:
    """Return the known log start of the target."""
    known = 0 if progress is None else progress.target_log_start or 0
    return max(known, offset_map.target_start)


def _unaudited(offset_map: OffsetMap, progress: Progress | None) -> Iterator[AuditRow]:
    """Yield the copies that were not compared: before the start of the audit, and at its end."""
    if progress is None:
        yield from _unverified(
            offset_map, offset_map.target_start, offset_map.target_next, "no audit has run yet"
        )
        return
    start = _log_start(offset_map, progress)
    yield from _unverified(
        offset_map, start, progress.audited_from, "copied before the audit began"
    )
    audited_to = max(start, progress.place.audited_to)
    reason = "not compared yet" if progress.waiting else "no receipt was read for it yet"
    yield from _unverified(offset_map, audited_to, offset_map.target_next, reason)


def _unverified(
    offset_map: OffsetMap, target_from: int, target_to: int, reason: str
) -> Iterator[AuditRow]:
    if target_from >= target_to:
        return
    source_from, source_to = offset_map.source_place(target_from), offset_map.source_next
    if target_to < offset_map.target_next:
        source_to = offset_map.source_place(target_to)
    count = offset_map.count_copies(source_to, target_from, runs_max=RUNS_COUNTED_MAX)
    if count == 0:
        return
    yield AuditRow(
        verdict=Verdict.UNVERIFIED,
        start_ms=None,
        records_count=count,
        batches_count=None,
        source_from=source_from,
        source_to=source_to,
        target_from=target_from,
        target_to=target_to,
        reason=reason,
    )


def _bucket_rows(verdicts: FlowVerdicts, log_start: int) -> Iterator[AuditRow]:
    for start_ms, bucket in verdicts.buckets().items():
        for verdict, tally in bucket.items():
            if verdict is Verdict.EXPECTED_GAP:
                continue  # the row of the journal entry covers it
            if verdict is Verdict.COMPLETE and (tally.target_to or 0) <= log_start:
                reason = f"it was complete; the target's log now begins at {log_start}"
                yield _row(Verdict.CLEANED, start_ms, tally, reason)
            else:
                yield _row(verdict, start_ms, tally, _reason(verdict, start_ms, verdicts))


def _reason(verdict: Verdict, start_ms: int, verdicts: FlowVerdicts) -> str | None:
    for finding in verdicts.findings.values():
        if (finding.verdict, finding.start_ms) == (verdict, start_ms):
            return finding.detail
    return None


def _row(verdict: Verdict, start_ms: int | None, tally: Tally, reason: str | None) -> AuditRow:
    return AuditRow(
        verdict=verdict,
        start_ms=start_ms,
        records_count=tally.records_count,
        batches_count=tally.batches_count,
        source_from=tally.source_from,
        source_to=tally.source_to,
        target_from=tally.target_from,
        target_to=tally.target_to,
        reason=reason,
    )


def _journal_rows(entries: Sequence[Gap]) -> Iterator[AuditRow]:
    for entry in entries:
        if entry.kind is GapKind.COPIED:
            continue  # the records are on the target and were compared
        is_foreign = entry.kind is GapKind.FOREIGN
        yield AuditRow(
            verdict=Verdict.EXPECTED_GAP,
            start_ms=None,
            records_count=entry.records_count,
            batches_count=None,
            source_from=None if is_foreign else entry.source_from,
            source_to=None if is_foreign else entry.source_to,
            target_from=entry.target_offset if is_foreign else None,
            target_to=entry.target_to if is_foreign else None,
            reason=f"{entry.reason}: {entry.detail}",
        )


def _late(offset_map: OffsetMap, source_end: int | None) -> Iterator[AuditRow]:
    """Yield the offsets past the map; control records and aborted records count as well."""
    if source_end is None or source_end <= offset_map.source_next:
        return
    yield AuditRow(
        verdict=Verdict.LATE,
        start_ms=None,
        records_count=source_end - offset_map.source_next,
        batches_count=None,
        source_from=offset_map.source_next,
        source_to=source_end,
        target_from=None,
        target_to=None,
        reason="the source has these offsets; they are not mapped yet",
    )


def rows_since(rows: Sequence[AuditRow], since_ms: int | None) -> list[AuditRow]:
    """Return the rows whose bucket ends after a time, and the rows without a time."""
    return [
        row
        for row in rows
        if since_ms is None or row.start_ms is None or row.start_ms + BUCKET_MS > since_ms
    ]


def records_by_verdict(rows: Sequence[AuditRow]) -> dict[Verdict, int]:
    """Return the number of records by verdict; an unknown number counts as 0."""
    sums: dict[Verdict, int] = {}
    for row in rows:
        sums[row.verdict] = sums.get(row.verdict, 0) + (row.records_count or 0)
    return {verdict: sums[verdict] for verdict in Verdict if verdict in sums}
