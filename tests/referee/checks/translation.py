"""Check translated offsets, in both directions. Pure.

Definition: translate(o) is the smallest target offset with every copied record before `o` below it
and every one from `o` on at or above it. So a reader that continues there reads exactly the next
record of the flow, and skips records of other origins.

From the logs follows an interval: the answer lies behind the copy of the record before `o` (`low`)
and not behind the copy of the next one (`high`). Where the copy of the record before `o` is
certain, the answer is `low` and nothing else. Where compaction or retention may have taken copies
in between, or before the first copy, any offset of the interval is right.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Any, NamedTuple

from tests.referee.checks.finding import Judgement, Promise
from tests.referee.checks.flow_truth import Copy, FlowTruth, is_between
from tests.referee.history import Partition

EXACT, PENDING, INEXACT, UNMAPPED = "exact", "pending", "inexact", "unmapped"
SHARED = "shared"
"""A group's position in a copy where others may have records: a safe one, if it is known."""


class Answer(NamedTuple):
    """What the aggregator answered about an offset; None where it gave null."""

    state: str
    link: str | None
    topic: str | None
    """The source topic."""
    offset: int | None
    target_topic: str | None
    target_offset: int | None
    source_from: int | None = None
    source_to: int | None = None
    """Bounds of the source offset, with `inexact` of a target offset."""

    @classmethod
    def of(cls, document: dict[str, Any]) -> Answer:
        """From the JSON document of /api/v1/translate and /api/v1/translate/reverse."""
        return cls(*(document.get(name) for name in cls._fields))  # type: ignore[arg-type]


class Bounds(NamedTuple):
    """Where the translation of a source offset may lie."""

    low: int
    high: int
    is_exact: bool
    """Whether only `low` is right."""


class ForwardCheck:
    """Judges translations of the source offsets of one flow."""

    def __init__(self, truth: FlowTruth) -> None:
        self._truth = truth
        self._sources = [source for source, _ in truth.current_copies]
        self._targets = [target for _, target in truth.current_copies]

    def bounds(self, offset: int) -> Bounds:
        """Where the translation of a source offset may lie."""
        at = bisect_left(self._sources, offset)
        end_offset = self._truth.evidence.target.end_offset
        high = self._targets[at] if at < len(self._targets) else end_offset
        if at == 0:
            return Bounds(self._truth.older_end, high, is_exact=False)
        low = self._targets[at - 1] + 1
        is_certain = not is_between(
            self._truth.uncertain_sources, self._sources[at - 1] + 1, offset
        ) and not is_between(self._truth.unplaced_copies, low, max(high, low))
        return Bounds(low, high, is_certain)

    def may_be_pending(self, offset: int) -> bool:
        """Whether nothing may be known about an offset: behind the end of what is copied, or where
        the target's retention took the copies, and the map with them."""
        evidence = self._truth.evidence
        # A stopped partition may have copies that are not mapped: the mirror says so.
        if offset > evidence.source.end_offset or evidence.stands_still:
            return True
        is_trimmed = evidence.target.start_offset > 0
        return is_trimmed and (not self._sources or offset <= self._sources[0])

    def judge(self, offset: int, answer: Answer) -> Judgement:
        """Compare an answer with both logs."""
        judgement = Judgement()
        wrong = self._wrong(offset, answer)
        if wrong is not None:
            kind, text = wrong
            where = f"{self._truth.flow}, source offset {offset}"
            judgement.find(Promise.TRANSLATION, kind, where, text)
        judgement.figures["offsets translated"] += 1
        judgement.figures[f"offsets translated: {answer.state}"] += 1
        return judgement

    def judge_position(self, offset: int, answer: Answer) -> Judgement:
        """Compare what is answered about a group's position at a source offset with both logs.

        A shared one is judged by what the group has read at all sources: see checks/groups.py.
        """
        judgement = Judgement()
        judgement.figures["group positions translated"] += 1
        judgement.figures[f"group positions translated: {answer.state}"] += 1
        is_shared = answer.state == SHARED
        wrong = self._wrong_topic(answer) if is_shared else self._wrong(offset, answer)
        if wrong is not None:
            kind, text = wrong
            where = f"{self._truth.flow}, position {offset}"
            judgement.find(Promise.GROUPS, f"answer {kind}", where, text)
        return judgement

    def _wrong_topic(self, answer: Answer) -> tuple[str, str] | None:
        target_topic = self._truth.flow.target.topic
        if answer.target_topic == target_topic:
            return None
        return "topic", f"the copy is {target_topic}, the answer names {answer.target_topic}"

    def _wrong(self, offset: int, answer: Answer) -> tuple[str, str] | None:
        if (wrong := self._wrong_topic(answer)) is not None:
            return wrong
        if answer.state == PENDING:
            return None if self.may_be_pending(offset) else ("pending", self._mirrored(offset))
        if offset > self._truth.evidence.source.end_offset:
            return "beyond", f"{answer.state}, though the source ends before"
        low, high, is_exact = self.bounds(offset)
        if answer.state not in (EXACT, INEXACT) or answer.target_offset is None:
            return "state", f"{answer} is no answer"
        if answer.target_offset > high:
            text = f"from {answer.state} target offset {answer.target_offset} on a reader skips"
            return "skips", f"{text} the copy at {high}"
        if answer.state == INEXACT:
            return None if self._is_hole(offset) else ("inexact", f"{answer}, and nothing says why")
        if answer.target_offset < low:
            text = f"from exact target offset {answer.target_offset} on a reader repeats"
            return "repeats", f"{text} the copy at {low - 1}"
        if is_exact and answer.target_offset != low:
            text = f"the exact target offset {answer.target_offset} is not the smallest"
            return "inexact", f"{text}: the record before was copied to {low - 1}"
        return None

    def _is_hole(self, offset: int) -> bool:
        return any(entry.is_hole_at(offset) for entry in self._truth.current_holes)

    def _mirrored(self, offset: int) -> str:
        source_end = self._truth.evidence.source.end_offset
        return f"pending, though the link has copied the source to its end at {source_end}"


class ReverseCheck:
    """Judges translations of the target offsets of one target partition, into which one link or
    several copy."""

    def __init__(self, target: Partition, truths: Sequence[FlowTruth]) -> None:
        self._target = target
        self._truths = truths
        self._copies = {copy.offset: (truth, copy) for truth in truths for copy in truth.copies}
        evidence = truths[0].evidence
        self._records = {record.offset for record in evidence.target.records}
        self._start_offset = evidence.target.start_offset
        self._mapped_end = max(
            (copies[-1][1] + 1 for truth in truths if (copies := truth.current_copies)), default=0
        )

    def judge(self, offset: int, answer: Answer) -> Judgement:
        """Compare an answer with both logs."""
        judgement = Judgement()
        wrong = self._wrong(offset, answer)
        if wrong is not None:
            kind, text = wrong
            where = f"{self._target}, target offset {offset}"
            judgement.find(Promise.TRANSLATION, f"reverse {kind}", where, text)
        judgement.figures["offsets translated back"] += 1
        judgement.figures[f"offsets translated back: {answer.state}"] += 1
        return judgement

    def _wrong(self, offset: int, answer: Answer) -> tuple[str, str] | None:
        if (answer.state == EXACT) != (answer.offset is not None):
            return "state", f"{answer} is no answer"
        if answer.state not in (EXACT, PENDING, UNMAPPED, INEXACT):
            return "state", f"{answer} is no answer"
        is_unsure = any(truth.evidence.stands_still for truth in self._truths)
        if is_unsure and answer.state in (PENDING, UNMAPPED):
            return None
        found = self._copies.get(offset)
        if found is None:
            return self._wrong_without_copy(offset, answer)
        truth, copy = found
        if copy.written.generation < truth.generation:
            if answer.state in (EXACT, INEXACT):
                text = f"{copy.written.identity} is a record of before the re-creation"
                return str(answer.state), text
            return None
        if answer.state == INEXACT:
            return self._wrong_inexact(offset, answer, truth, copy)
        if answer.state != EXACT:
            if offset < self._start_offset:
                return None
            return str(answer.state), f"{copy.written.identity} is there, a copy by {truth.flow}"
        said = f"the answer is {answer.link}, {answer.topic}, {answer.offset}"
        if (answer.link, answer.topic) != (truth.flow.link, truth.flow.source.topic):
            return "link", f"{copy.written.identity} is a copy by {truth.flow}; {said}"
        if copy.original is not None and answer.offset != copy.original.offset:
            return "wrong", f"the source offset is {copy.original.offset}; {said}"
        return None

    def _wrong_inexact(
        self, offset: int, answer: Answer, truth: FlowTruth, copy: Copy
    ) -> tuple[str, str] | None:
        if not any(entry.holds(offset) for entry in truth.current_holes):
            return "inexact", f"{answer}, and nothing says why"
        at = copy.original.offset if copy.original is not None else None
        low, high = answer.source_from, answer.source_to
        if at is not None and (low is None or at < low or (high is not None and at >= high)):
            return "wrong", f"source offset {at} does not lie in [{low}, {high})"
        return None

    def _wrong_without_copy(self, offset: int, answer: Answer) -> tuple[str, str] | None:
        if answer.state == EXACT:
            return self._wrong_exact(offset, answer)
        if answer.state == PENDING and self._start_offset <= offset < self._mapped_end:
            return "pending", "copies behind it are mapped, and it is none"
        return None

    def _wrong_exact(self, offset: int, answer: Answer) -> tuple[str, str] | None:
        """A copy that compaction or retention took may be known still; then it lies between the
        copies around it, at both sides."""
        assert answer.offset is not None
        if offset in self._records:
            return "exact", f"the record is no copy; the answer is {answer}"
        truth = next((each for each in self._truths if each.flow.link == answer.link), None)
        if truth is None:
            return "link", f"no such link copies to here; the answer is {answer}"
        targets = [target for _, target in truth.current_copies]
        at = bisect_left(targets, offset)
        after = truth.current_copies[at - 1][0] if at else -1
        before = truth.current_copies[at][0] if at < len(targets) else None
        if answer.offset <= after or (before is not None and answer.offset >= before):
            return "wrong", f"source offset {answer.offset} does not lie in ({after}, {before})"
        is_possible = is_between(truth.uncertain_sources, answer.offset, answer.offset + 1)
        if not is_possible and truth.evidence.target.end_offset > offset >= self._start_offset:
            return "exact", f"no copy of source offset {answer.offset} can have been there"
        return None
