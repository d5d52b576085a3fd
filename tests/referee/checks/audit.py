"""Check the verdicts of Heliograph's own audit against what the referee found. Pure.

By offsets:

- the audit names no fault where the referee knows of none;
- in the part that it has compared, it names every fault that the referee knows of;
- it counts as many right copies as there are;
- each of its excuses has a reason.

The audit compares the target with what the mirror believes to have written. It judges the present
generation of a source topic, so faults of copies from before a re-creation are not asked of it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

from tests.referee.checks.audit_verdicts import PartitionVerdicts, Span, Verdict
from tests.referee.checks.copy import Fault
from tests.referee.checks.finding import Judgement, Promise
from tests.referee.checks.flow_truth import Copy, FlowTruth
from tests.referee.history import EntryKind, Fate, JournalEntry

FINDINGS_MAX: Final = 200
"""The audit keeps so many findings of a partition; with more only its rows tell of all."""


ALARMS: Final[Mapping[Verdict, frozenset[str]]] = {
    Verdict.LOST: frozenset({"lost"}),
    Verdict.DUPLICATED: frozenset({"doubled", "swapped"}),
    Verdict.ALTERED: frozenset({"altered", "swapped", "lost", "doubled", "aborted"}),
    Verdict.FOREIGN: frozenset({"foreign"}),
}
"""Verdicts about something wrong, with the faults of a copy that make them right."""


def check_audit(
    truth: FlowTruth,
    faults: Collection[Fault],
    foreign: Collection[Fault],
    said: PartitionVerdicts | None,
) -> Judgement:
    """Compare the audit's verdicts on a flow with its faults.

    `foreign` are those of the target partition, where nobody but this link may write into it.
    """
    judgement = Judgement()
    current = [each for each in faults if each.generation == truth.generation]
    current += foreign
    if said is None:
        if truth.current_copies:
            judgement.find(Promise.AUDIT, "missing", truth.flow, "there is no verdict on this flow")
        return judgement
    _Comparison(truth, current, said, judgement).compare()
    return judgement


def copies_end(truth: FlowTruth) -> int | None:
    """The target offset that the audit must reach; None where the flow has no copies by now."""
    if truth.evidence.stands_still:
        return None
    return max((copy.offset + 1 for copy in _current(truth)), default=None)


class _Comparison:
    def __init__(
        self,
        truth: FlowTruth,
        faults: Sequence[Fault],
        said: PartitionVerdicts,
        judgement: Judgement,
    ) -> None:
        self._truth = truth
        self._faults = faults
        self._said = said
        self._judgement = judgement

    def compare(self) -> None:
        for row in self._said.rows:
            self._judgement.figures[f"audit records: {row.verdict}"] += row.records_count or 0
        self._judgement.figures["audit findings"] += len(self._said.findings)
        self._check_reach()
        self._check_alarms()
        self._check_noticed()
        self._check_excuses()
        self._check_journal()
        self._check_count()

    def _check_reach(self) -> None:
        said, end = self._said, copies_end(self._truth)
        is_behind = end is not None and (
            said.audited_to is None or said.audited_to < end or said.waiting > 0
        )
        if is_behind and not self._truth.evidence.stands_still:
            text = f"it has compared up to {said.audited_to}, and {said.waiting} batches wait"
            self._find("behind", f"{text}; the copies end at {end}")
        for row in said.rows:
            is_late = row.verdict is Verdict.LATE
            if is_late and not self._truth.evidence.stands_still:
                self._find("false alarm", f"{row}; the mirror says that it has caught up")

    def _check_alarms(self) -> None:
        """No fault is told where none is known."""
        alarms = [each for each in self._said.findings if each.verdict in ALARMS]
        told = {each.verdict for each in alarms}
        # Rows span whole buckets: they count where no finding says it more exactly.
        alarms += [
            row for row in self._said.rows if row.verdict in ALARMS and row.verdict not in told
        ]
        for alarm in alarms:
            right = ALARMS[alarm.verdict]
            if alarm.verdict is Verdict.LOST and self._is_excused_loss(alarm):
                continue
            if not any(
                fault.kind in right and alarm.covers(fault.source_offset, fault.target_offset)
                for fault in self._faults
            ):
                kinds = sorted({fault.kind for fault in self._faults})
                found = f"the referee found {', '.join(kinds) or 'nothing'} in this flow"
                self._find("false alarm", f"{alarm}; {found}, and no such thing there")

    def _is_excused_loss(self, alarm: Span) -> bool:
        """Whether the missing records are excused, because the flow is stopped.

        That it is stopped is a finding already.
        """
        truth = self._truth
        return truth.evidence.stands_still and any(
            alarm.covers(each.offset, None) and not truth.is_copied(each)
            for each in truth.originals
            if each.generation == truth.generation
        )

    def _check_noticed(self) -> None:
        """Every fault is told that lies in what was compared."""
        said = self._said
        alarms = [each for each in said.findings if each.verdict in ALARMS]
        if len(alarms) >= FINDINGS_MAX:
            alarms += [each for each in said.rows if each.verdict in ALARMS]
        for fault in self._faults:
            if fault.target_offset is not None and fault.target_offset >= (said.audited_to or 0):
                continue  # it has not come there, which is a finding of its own
            self._judgement.figures["audit faults compared"] += 1
            if not any(each.covers(fault.source_offset, fault.target_offset) for each in alarms):
                self._find("unnoticed", f"nothing is said about this: {fault.kind}: {fault.text}")

    def _check_excuses(self) -> None:
        evidence = self._truth.evidence
        for row in self._said.rows:
            if row.verdict is Verdict.CLEANED:
                is_trimmed = (row.target_from or 0) < self._trimmed_to
                if not (evidence.target_compacts or is_trimmed):
                    text = f"the target begins at {evidence.target.start_offset}"
                    self._find("false excuse", f"{row}; {text} and is not compacted")
            if row.verdict is Verdict.EXPECTED_GAP and not any(
                each.spans(row.source_from) if row.source_from is not None
                else row.target_from is not None and each.holds(row.target_from)
                for each in self._entries
            ):  # fmt: skip
                self._find("false excuse", f"{row}; the journal has no such entry")

    def _check_journal(self) -> None:
        """Every entry about something that is not copied, or not a copy, has its row."""
        gaps = [row for row in self._said.rows if row.verdict is Verdict.EXPECTED_GAP]
        for entry in self._entries:
            if entry.kind is EntryKind.LOST:
                place = entry.source_from, entry.source_to, entry.records_count
                told = [(row.source_from, row.source_to, row.records_count) for row in gaps]
            else:
                place = entry.target_offset, entry.target_to, entry.records_count
                told = [(row.target_from, row.target_to, row.records_count) for row in gaps]
            if place not in told:
                text = f"of the entry `{entry.kind}` from {place[0]} to {place[1]}"
                self._find("unnoticed", f"no row tells {text}, {place[2]} records")

    @property
    def _trimmed_to(self) -> int:
        """The highest log start that the target has had."""
        evidence = self._truth.evidence
        return max(evidence.target.start_offset, evidence.target_deleted_to)

    @property
    def _entries(self) -> list[JournalEntry]:
        return [
            entry
            for entry, generation in self._truth.entries
            if generation == self._truth.generation and entry.kind is not EntryKind.COPIED
        ]

    def _check_count(self) -> None:
        """As many copies are called right as lie where the audit has looked."""
        said, truth = self._said, self._truth
        if said.audited_from is None or said.audited_to is None:
            return
        wrong = [
            each for each in said.findings if each.verdict in (Verdict.ALTERED, Verdict.DUPLICATED)
        ]
        if len(said.findings) >= FINDINGS_MAX:
            return
        there = [
            copy
            for copy in _current(truth)
            if said.audited_from <= copy.offset < said.audited_to
            and not any(each.covers(None, copy.offset) for each in wrong)
        ]
        counts = {
            verdict: sum(
                row.records_count or 0
                for row in said.rows
                if row.verdict is verdict and row.start_ms is not None
            )
            for verdict in (Verdict.COMPLETE, Verdict.CLEANED, Verdict.UNVERIFIED)
        }
        self._judgement.figures["audit counts"] += 1
        words = ", ".join(f"{count} {verdict}" for verdict, count in counts.items())
        total = sum(counts.values())
        may_be_gone = truth.evidence.target_compacts or self._trimmed_to > 0
        if total < len(there) or (total > len(there) and not may_be_gone):
            self._find("miscounted", f"it counts {words}; the target has {len(there)} copies there")
        born_max = sum(
            max(1, len(truth.originals_of(each.identity)))
            for each in truth.evidence.written
            if each.generation == truth.generation and each.fate is not Fate.NEVER
        )
        if may_be_gone and total > born_max:
            self._find("miscounted", f"it counts {words}; only {born_max} records were ever sent")
        if total == len(there):
            self._check_times(there)

    def _check_times(self, there: Sequence[Copy]) -> None:
        """A batch counts with its largest timestamp, so that no record counts before its time."""
        counted = [
            row
            for row in self._said.rows
            if row.start_ms is not None
            and row.verdict in (Verdict.COMPLETE, Verdict.UNVERIFIED, Verdict.CLEANED)
        ]
        for start_ms in {row.start_ms for row in counted if row.start_ms is not None}:
            since = sum(
                row.records_count or 0 for row in counted if (row.start_ms or 0) >= start_ms
            )
            born = sum(copy.content.timestamp_ms >= start_ms for copy in there)
            if since < born:
                text = f"it counts {since} records in buckets from {start_ms} ms on"
                self._find("miscounted", f"{text}; {born} copies have such timestamps")

    def _find(self, kind: str, text: str) -> None:
        self._judgement.find(Promise.AUDIT, kind, self._truth.flow, text)


def _current(truth: FlowTruth) -> Iterator[Copy]:
    return (copy for copy in truth.copies if copy.written.generation == truth.generation)
