"""Check the journal: what it says is lost is lost, what it says is copied is there. Pure.

The other half, that what is lost is said, is the check of the copy (`copy.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tests.referee.checks.finding import Judgement, Promise
from tests.referee.checks.flow_truth import RECREATED, Copy, FlowTruth, Original
from tests.referee.history import EntryKind, Fate, JournalEntry

_Find = Callable[[str, str], None]


def check_journal(truth: FlowTruth) -> Judgement:
    """Compare each journal entry of a flow with both logs and the delivery reports."""
    judgement = Judgement()
    for entry, generation in truth.entries:
        judgement.figures[f"journal entries: {entry.kind}"] += 1
        checked = _Entry(truth, entry, generation, judgement)
        match entry.kind:
            case EntryKind.LOST:
                checked.check_lost()
            case EntryKind.COPIED:
                checked.check_copied()
            case EntryKind.FOREIGN:
                checked.check_foreign()
    return judgement


class _Entry:
    """One entry, beside the records of its generation."""

    def __init__(
        self, truth: FlowTruth, entry: JournalEntry, generation: int, judgement: Judgement
    ) -> None:
        self._truth = truth
        self._entry = entry
        self._generation = generation
        self._judgement = judgement
        if entry.target_topic != truth.flow.target.topic:
            self._find("misplaced", f"it names the target topic {entry.target_topic}")

    def check_lost(self) -> None:
        """Nothing of the range is on the target or still at the source."""
        entry = self._entry
        if entry.source_to is not None and entry.source_to <= entry.source_from:
            self._find("empty", "it covers no offset")
        copied = []
        for original, copy in self._copies():
            if entry.spans(original.offset):
                if not self._is_told_as_copied(copy.offset):
                    copied.append(f"source offset {original.offset} at {copy.offset}")
            elif (original.offset < entry.source_from) != (copy.offset < entry.target_offset):
                text = f"source offset {original.offset} is at target offset {copy.offset}"
                self._find("misplaced", f"it is placed at {entry.target_offset}, but {text}")
        if copied:
            self._find("copied", f"{len(copied)} of them are on the target, such as {copied[0]}")
        if entry.reason != RECREATED:
            there = [each for each in self._originals() if each.is_in_log]
            if there:
                first = f"offset {there[0].offset} ({there[0].identity})"
                self._find("false", f"the source still has {len(there)} of them, such as {first}")
        elif self._generation >= self._truth.generation:
            self._find("false", "the topic was not re-created so often")
        self._check_lost_count()

    def check_copied(self) -> None:
        """The records at its target offsets are of its source offsets, and so many."""
        entry = self._entry
        held = [copy for copy in self._truth.copies if entry.holds(copy.offset)]
        elsewhere = [
            f"source offset {original.offset} at {copy.offset}"
            for original, copy in self._copies()
            if entry.holds(copy.offset) and not entry.spans(original.offset)
        ]
        if elsewhere:
            text = f"{len(elsewhere)} copies there are of other offsets, such as {elsewhere[0]}"
            self._find("misplaced", text)
        evidence = self._truth.evidence
        is_whole = not evidence.target_compacts and evidence.target.start_offset == 0
        # Between copies without a source may lie others: compaction took only some records.
        gone = [copy for copy in held if copy.original is None or not copy.original.is_in_log]
        counted = entry.copied_count or 0
        is_right = counted <= len(gone) if evidence.source_compacts else counted == len(held)
        if is_whole and not is_right:
            text = f"there are {len(held)}, of which the source has lost {len(gone)}"
            self._find("miscounted", f"it counts {counted} copies without a source, {text}")

    def check_foreign(self) -> None:
        """None of the records at its target offsets is a copy by the link."""
        ours = [copy for copy in self._truth.copies if self._entry.holds(copy.offset)]
        if ours:
            text = f"{len(ours)} of them are copies, such as {ours[0].written.identity}"
            self._find("false", f"{text} at {ours[0].offset}")

    def _check_lost_count(self) -> None:
        entry, truth = self._entry, self._truth
        if entry.records_count is None or entry.source_to is None:
            return
        covered = [
            each
            for each in self._originals()
            if not (truth.is_copied(each) and self._is_told_as_copied_source(each.offset))
        ]
        is_known = all(each.is_readable for each in covered) and not any(
            each.fate is not Fate.NEVER and not truth.originals_of(each.identity)
            for each in truth.evidence.written
        )
        if is_known and len(covered) != entry.records_count:
            text = f"it counts {entry.records_count} records, there were {len(covered)}"
            self._find("miscounted", text)

    def _originals(self) -> list[Original]:
        return [
            each
            for each in self._truth.originals
            if each.generation == self._generation and self._entry.spans(each.offset)
        ]

    def _copies(self) -> Iterable[tuple[Original, Copy]]:
        for copy in self._truth.copies:
            if copy.original is not None and copy.original.generation == self._generation:
                yield copy.original, copy

    def _told_as_copied(self) -> Iterable[JournalEntry]:
        for entry, generation in self._truth.entries:
            if generation == self._generation and entry.kind is EntryKind.COPIED:
                yield entry

    def _is_told_as_copied(self, target_offset: int) -> bool:
        return any(each.holds(target_offset) for each in self._told_as_copied())

    def _is_told_as_copied_source(self, source_offset: int) -> bool:
        return any(each.spans(source_offset) for each in self._told_as_copied())

    def _find(self, kind: str, text: str) -> None:
        entry = self._entry
        where = f"source offsets [{entry.source_from}, {entry.source_to})"
        told = f"the entry `{entry.kind}` ({entry.reason}) about {where}"
        if entry.kind is not EntryKind.LOST:
            told += f", target offsets [{entry.target_offset}, {entry.target_to})"
        self._judgement.find(Promise.JOURNAL, kind, self._truth.flow, f"{told}: {text}")
