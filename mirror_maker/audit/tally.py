"""The verdicts about one flow, added up, and what of them is to be published. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ..formats import FlowKey
from ..formats.verdicts import (
    BUCKET_MS,
    FAULTS,
    Bucket,
    Finding,
    FlowVerdicts,
    Progress,
    Tally,
    Verdict,
    VerdictRecord,
    bucket_record,
    finding_record,
    progress_record,
)
from .log_check import Judged

BUCKETS_GROWING_MAX: Final = 4
"""Buckets in a progress record, about 120 bytes each; beyond, the one used least recently becomes a
record of its own."""
BUCKETS_KEPT_MAX: Final = 1_000
"""Buckets of one partition, a week; beyond, those of the oldest record times are deleted."""
FINDINGS_KEPT_MAX: Final = 200
"""Findings of one partition; beyond, the oldest are deleted. Buckets count them all."""


class FlowTally:
    """What the audit of one flow has found so far."""

    def __init__(self, flow: FlowKey, known: FlowVerdicts) -> None:
        """`known` is what was published; it is taken over."""
        self.flow = flow
        self._closed: dict[int, Bucket] = dict(known.closed)
        self._growing: dict[int, Bucket] = {}
        if known.progress is not None:
            self._growing = dict(known.progress.buckets)
        self._findings = dict(known.findings)
        self._records: list[VerdictRecord] = []
        """Of buckets and findings, to be written before the next progress."""
        self.is_changed = False

    @property
    def findings(self) -> list[Finding]:
        """What is wrong, by target offset."""
        return sorted(self._findings.values(), key=lambda each: each.target_from)

    def add(self, judged: Judged, now_ms: int) -> None:
        """Take in the verdict about one batch."""
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

    def settle(self, explain: Callable[[Finding], Verdict | None]) -> None:
        """Forget findings that are explained by now; `explain` gives the verdict instead.

        A bucket takes over the other verdict with the last finding of the fault.
        """
        for place, finding in list(self._findings.items()):
            verdict = explain(finding)
            if verdict is None:
                continue
            is_at_limit = len(self._findings) >= FINDINGS_KEPT_MAX
            del self._findings[place]
            self._records.append(finding_record(self.flow, finding, is_deleted=True))
            self.is_changed = True
            if finding.start_ms is not None and not is_at_limit:
                self._replace_verdict(finding.start_ms, finding.verdict, verdict)

    def take_records(
        self, make_progress: Callable[[dict[int, Bucket]], Progress]
    ) -> list[VerdictRecord]:
        """What is to be written now, in this order. A caller whose write failed calls
        `put_back`."""
        taken = [*self._records, progress_record(self.flow, make_progress(self._growing))]
        self._records, self.is_changed = [], False
        return taken

    def put_back(self, taken: list[VerdictRecord]) -> None:
        """The write of `take_records` is not known to have happened."""
        self._records[:0] = taken[:-1]
        self.is_changed = True

    def publish_again(self, known: FlowVerdicts) -> None:
        """The topic has this instead of what was published."""
        gone = [known.findings[place] for place in known.findings.keys() - self._findings.keys()]
        self._records[:0] = [
            *(bucket_record(self.flow, each, None) for each in known.closed.keys() - self._closed),
            *(finding_record(self.flow, each, is_deleted=True) for each in gone),
            *(bucket_record(self.flow, *entry) for entry in self._closed.items()),
            *(finding_record(self.flow, each) for each in self.findings),
        ]
        self.is_changed = True

    def _replace_verdict(self, start_ms: int, old: Verdict, new: Verdict) -> None:
        if any((each.start_ms, each.verdict) == (start_ms, old) for each in self.findings):
            return
        is_closed = start_ms in self._closed
        known = (self._closed if is_closed else self._growing).get(start_ms)
        if known is None or old not in known:
            return
        bucket = dict(known)
        tally = bucket.pop(old)
        bucket[new] = tally if new not in bucket else bucket[new].plus(tally)
        if is_closed:
            self._closed[start_ms] = bucket
            self._records.append(bucket_record(self.flow, start_ms, bucket))
        else:
            self._growing[start_ms] = bucket

    def _bucket(self, start_ms: int) -> Bucket:
        """The bucket, which becomes the one used last."""
        bucket = self._growing.pop(start_ms, None)
        if bucket is not None:
            return bucket
        if len(self._growing) >= BUCKETS_GROWING_MAX:
            oldest = next(iter(self._growing))
            closed = self._growing.pop(oldest)
            self._closed[oldest] = closed
            self._records.append(bucket_record(self.flow, oldest, closed))
            self._expire()
        return self._closed.pop(start_ms, {})

    def _expire(self) -> None:
        if len(self._closed) > BUCKETS_KEPT_MAX:
            oldest = min(self._closed)
            del self._closed[oldest]
            self._records.append(bucket_record(self.flow, oldest, None))

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
        self._records.append(finding_record(self.flow, finding))
        if len(self._findings) > FINDINGS_KEPT_MAX:
            place = next(iter(self._findings))
            expired = self._findings.pop(place)
            self._records.append(finding_record(self.flow, expired, is_deleted=True))
