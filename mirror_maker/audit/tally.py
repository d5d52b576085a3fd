"""The verdicts about one flow, added up, and the records that publish them. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from mirror_maker.audit.evidence import Judged
from mirror_maker.formats import FlowKey
from mirror_maker.formats.verdict_topic import FlowVerdicts
from mirror_maker.formats.verdicts import (
    BUCKET_MS,
    FAULTS,
    Bucket,
    Finding,
    Progress,
    Tally,
    Verdict,
    VerdictRecord,
    bucket_record,
    finding_record,
    progress_record,
)

BUCKETS_GROWING_MAX: Final = 6
"""Buckets in a progress record, about 120 bytes each; beyond, the least recently used one gets its
own record."""
BUCKETS_KEPT_MAX: Final = 144
"""Buckets of one partition, a day; beyond, the oldest ones by record time are added to the bucket
that starts at 0."""
OLDER_START_MS: Final = 0
"""Start of the bucket for older batches and those without a time."""
FINDINGS_KEPT_MAX: Final = 200
"""Findings of one partition; beyond, the oldest are deleted. Buckets count all of them."""


class FlowTally:
    """The result of the audit of one flow so far."""

    def __init__(self, flow: FlowKey, known: FlowVerdicts) -> None:
        """Continue from `known`, what was published."""
        self.flow = flow
        self._closed: dict[int, Bucket] = dict(known.closed)
        self._growing: dict[int, Bucket] = {}
        if known.progress is not None:
            self._growing = dict(known.progress.buckets)
        self._findings = dict(known.findings)
        self._records: dict[bytes, bytes | None] = {}
        """Records of buckets and findings by key, to be written before the next progress."""
        self.is_changed = False
        self.findings_count = 0
        """Findings since this object was made."""

    @property
    def has_findings(self) -> bool:
        """Whether something is wrong."""
        return bool(self._findings)

    @property
    def findings(self) -> list[Finding]:
        """What is wrong, by target offset."""
        return sorted(self._findings.values(), key=lambda each: each.target_from)

    def add(self, judged: Judged, now_ms: int) -> None:
        """Add the verdict about one batch."""
        self.is_changed = True
        timestamp_ms = judged.timestamp_ms
        start_ms = 0 if timestamp_ms is None else timestamp_ms - timestamp_ms % BUCKET_MS
        bucket = dict(self._bucket(start_ms))
        tally = Tally(
            judged.records_count,
            1,
            judged.source_from,
            judged.source_to,
            judged.target_from,
            judged.target_to,
        )
        known = bucket.get(judged.verdict)
        bucket[judged.verdict] = tally if known is None else known.plus(tally)
        self._growing[start_ms] = bucket
        if judged.verdict in FAULTS:
            self._find(judged, start_ms, now_ms)
        elif judged.verdict is Verdict.COMPLETE and self._findings:
            late = self._findings.get((Verdict.LOST, judged.target_from))
            if late is not None and late.target_to == judged.target_to:
                self._withdraw(late, None)

    def settle(self, explain: Callable[[Finding], Verdict | None]) -> None:
        """Withdraw findings that are explained; `explain` returns the verdict instead."""
        for finding in list(self._findings.values()):
            verdict = explain(finding)
            if verdict is not None:
                self._withdraw(finding, verdict)

    def take_back(self, target_offset: int) -> None:
        """Subtract what was complete from this target offset on: it is not there any more."""
        for start_ms, bucket in (*self._closed.items(), *self._growing.items()):
            tally = bucket.get(Verdict.COMPLETE)
            if tally is None or (tally.target_to or 0) <= target_offset:
                continue
            first, end = tally.target_from or 0, tally.target_to or 0
            gone = min(tally.records_count, end - max(first, target_offset))
            left = dict(bucket)
            if gone < tally.records_count and first < target_offset:
                left[Verdict.COMPLETE] = tally._replace(
                    records_count=tally.records_count - gone, target_to=target_offset
                )
            else:
                del left[Verdict.COMPLETE]
            self._put(start_ms, left)

    def take_records(
        self, make_progress: Callable[[dict[int, Bucket]], Progress]
    ) -> list[VerdictRecord]:
        """Return what is to be written now, in this order. If that fails, call `put_back`."""
        progress = progress_record(self.flow, make_progress(self._growing))
        taken = [*self._records.items(), progress]
        self._records, self.is_changed = {}, False
        return taken

    def put_back(self, taken: list[VerdictRecord]) -> None:
        """Queue the result of `take_records` again: its write may not have happened."""
        self._records = dict(taken[:-1]) | self._records
        self.is_changed = True

    def differs_from(self, known: FlowVerdicts) -> bool:
        """Return whether the topic has other closed buckets or findings; False while some are
        queued."""
        if self._records:
            return False
        if known.findings != self._findings:
            return True
        # A bucket that grows again still has a record of its own, which the progress replaces.
        closed = {at: each for at, each in known.closed.items() if at not in self._growing}
        return closed != self._closed

    def publish_again(self, known: FlowVerdicts) -> None:
        """Publish again: the topic has `known` instead of what was published."""
        gone = [known.findings[place] for place in known.findings.keys() - self._findings.keys()]
        again = [
            *(bucket_record(self.flow, each, None) for each in known.closed.keys() - self._closed),
            *(finding_record(self.flow, each, is_deleted=True) for each in gone),
            *(bucket_record(self.flow, *entry) for entry in self._closed.items()),
            *(finding_record(self.flow, each) for each in self.findings),
        ]
        self._records = dict(again) | self._records
        self.is_changed = True

    def _withdraw(self, finding: Finding, verdict: Verdict | None) -> None:
        """Remove a finding: its records have the other verdict, or were counted already."""
        del self._findings[finding.verdict, finding.target_from]
        self._note(finding_record(self.flow, finding, is_deleted=True))
        self.is_changed = True
        start_ms = finding.start_ms
        known = self._growing.get(start_ms) if start_ms is not None else None
        if known is None and start_ms is not None:
            known = self._closed.get(start_ms)
        if start_ms is not None and known is None:  # it is counted in the bucket for older ones
            start_ms, known = OLDER_START_MS, self._closed.get(OLDER_START_MS)
        if start_ms is None or known is None or finding.verdict not in known:
            return
        bucket = dict(known)
        tally = bucket.pop(finding.verdict)
        left = tally._replace(
            records_count=max(0, tally.records_count - finding.records_count),
            batches_count=tally.batches_count - 1,
        )
        if left.batches_count > 0:
            bucket[finding.verdict] = left
        if verdict is not None:
            other = Tally(finding.records_count, 1, *_offsets(finding))
            bucket[verdict] = bucket[verdict].plus(other) if verdict in bucket else other
        self._put(start_ms, bucket)

    def _put(self, start_ms: int, bucket: Bucket) -> None:
        """Replace a bucket."""
        self.is_changed = True
        if start_ms in self._closed:
            self._closed[start_ms] = bucket
            self._note(bucket_record(self.flow, start_ms, bucket))
        else:
            self._growing[start_ms] = bucket

    def _note(self, record: VerdictRecord) -> None:
        """Queue a record; it replaces an earlier one with the same key."""
        self._records.pop(record[0], None)
        self._records[record[0]] = record[1]

    def _bucket(self, start_ms: int) -> Bucket:
        """Take the bucket out; the caller stores it as the most recently used one."""
        bucket = self._growing.pop(start_ms, None)
        if bucket is not None:
            return bucket
        if len(self._growing) >= BUCKETS_GROWING_MAX:
            oldest = next(iter(self._growing))
            closed = self._growing.pop(oldest)
            self._closed[oldest] = closed
            self._note(bucket_record(self.flow, oldest, closed))
            self._expire()
        return self._closed.pop(start_ms, {})

    def _expire(self) -> None:
        """Add the oldest bucket to the one for everything older."""
        dated = self._closed.keys() - {OLDER_START_MS}
        if len(dated) <= BUCKETS_KEPT_MAX:
            return
        oldest = min(dated)
        expired = self._closed.pop(oldest)
        self._note(bucket_record(self.flow, oldest, None))
        place = self._growing if OLDER_START_MS in self._growing else self._closed
        older = dict(place.get(OLDER_START_MS, {}))
        for verdict, tally in expired.items():
            older[verdict] = older[verdict].plus(tally) if verdict in older else tally
        place[OLDER_START_MS] = older
        if place is self._closed:
            self._note(bucket_record(self.flow, OLDER_START_MS, older))

    def _find(self, judged: Judged, start_ms: int, now_ms: int) -> None:
        finding = Finding(
            verdict=judged.verdict,
            target_from=judged.target_from,
            target_to=judged.target_to,
            source_from=judged.source_from,
            source_to=judged.source_to,
            records_count=judged.records_count,
            start_ms=start_ms,
            detail=judged.detail,
            noticed_at_ms=now_ms,
        )
        self._findings[judged.verdict, judged.target_from] = finding
        self.findings_count += 1
        self._note(finding_record(self.flow, finding))
        if len(self._findings) > FINDINGS_KEPT_MAX:
            place = next(iter(self._findings))
            expired = self._findings.pop(place)
            self._note(finding_record(self.flow, expired, is_deleted=True))


def _offsets(finding: Finding) -> tuple[int | None, int | None, int, int]:
    return finding.source_from, finding.source_to, finding.target_from, finding.target_to
