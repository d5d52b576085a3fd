"""The audit of a link, put together from what its mirror published. Pure.

The mirror compares the target's log with what was acknowledged (`mirror_maker/audit/`) and
publishes its verdicts; the journal says what was not copied, and why; the map says how far the
copies reach. From the three come the rows of `/api/v1/audit`:

    verdict        from
    COMPLETE       verdicts: read back, byte for byte as acknowledged
    LOST, DUPLICATED, ALTERED, FOREIGN   verdicts, with a finding for each batch
    CLEANED        verdicts, and whatever lies below the target's log start by now
    EXPECTED GAP   journal: not copied, or accepted, with the reason
    UNVERIFIED     map: copies above `audited_to`, or from before the audit began
    LATE           the source's end: offsets that the map does not reach yet

What was not read is never COMPLETE: a row of that verdict counts batches that the auditor has seen.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from mirror_maker.formats import FlowKey, Gap, OffsetMap
from mirror_maker.formats.gaps import GapKind
from mirror_maker.formats.verdicts import (
    BUCKET_MS,
    FAULTS,
    Finding,
    FlowVerdicts,
    Progress,
    Tally,
    Verdict,
)

RUNS_COUNTED_MAX: Final = 10_000
"""Runs of a map that are counted through; beyond, the number of records is unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRow:
    """Records of one verdict; offsets of a side that has nothing, or is unknown, are None."""

    verdict: Verdict
    start_ms: int | None
    """Start of the bucket of record time; None where the records' times are unknown."""
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
    """Target offsets [from, to) were compared; None before the audit began."""
    audited_at_ms: int | None
    """Everything acknowledged before was compared; None before the audit began."""
    is_current: bool
    """Whether everything that is mapped was compared."""
    batches_waiting: int
    rows: tuple[AuditRow, ...]
    findings: tuple[Finding, ...]

    def age_ms(self, now_ms: int) -> int | None:
        """How old the oldest acknowledgement that was not compared may be; 0 where all were."""
        if self.is_current:
            return 0
        return None if self.audited_at_ms is None else max(0, now_ms - self.audited_at_ms)


def audit_partition(
    flow: FlowKey,
    target_topic: str,
    offset_map: OffsetMap,
    verdicts: FlowVerdicts,
    entries: Sequence[Gap],
    source_end: int | None,
) -> PartitionAudit:
    """Put one partition together. `entries` are the flow's in the journal; `source_end` is where
    the source ends now, None where that is unknown."""
    progress = verdicts.progress
    told = source_end, None if progress is None else progress.source_end
    ends = [each for each in told if each is not None]
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


def _log_start(offset_map: OffsetMap, progress: Progress | None) -> int:
    """Where the target's log is known to begin at the earliest."""
    known = 0 if progress is None else progress.target_log_start or 0
    return max(known, offset_map.target_start)


def _unaudited(offset_map: OffsetMap, progress: Progress | None) -> Iterator[AuditRow]:
    """Copies that nobody compared: from before the audit began, and those at the end."""
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
                continue  # the journal explains it, and has a row of its own
            if verdict is Verdict.COMPLETE and (tally.target_to or 0) <= log_start:
                reason = f"it was complete; the target's log begins at {log_start} by now"
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
            continue  # they are on the target, and compared like any others
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
    """Offsets, not records: control records and aborted ones are among them."""
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
    """Those whose bucket ends after a time; rows without a time are kept."""
    return [
        row
        for row in rows
        if since_ms is None or row.start_ms is None or row.start_ms + BUCKET_MS > since_ms
    ]


def records_by_verdict(rows: Sequence[AuditRow]) -> dict[Verdict, int]:
    """Sums of records; a row whose number is unknown counts for nothing."""
    sums: dict[Verdict, int] = {}
    for row in rows:
        sums[row.verdict] = sums.get(row.verdict, 0) + (row.records_count or 0)
    return {verdict: sums[verdict] for verdict in Verdict if verdict in sums}
