"""The findings of the audit that the journal explains. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mirror_maker.formats import Gap
from mirror_maker.formats.gaps import GapKind
from mirror_maker.formats.verdicts import Finding, Verdict
from mirror_maker.rules.gap_ranges import GapRanges

Explain = Callable[[Finding], Verdict | None]
"""Returns the verdict that replaces a finding; None if nothing explains it."""


def explainer(entries: Sequence[Gap], log_start_offset: int) -> Explain:
    """Return what explains findings, by the flow's journal entries and the copy's log start."""
    accepted = GapRanges(
        (each.target_offset, each.target_to or 0)
        for each in entries
        if each.kind is GapKind.FOREIGN
    )
    lost = [each for each in entries if each.kind is GapKind.LOST]
    given_up = GapRanges(
        (each.source_from, each.source_to) for each in lost if each.source_to is not None
    )
    again = [each for each in lost if each.source_to is None]

    def explain(finding: Finding) -> Verdict | None:
        if accepted.covers(finding.target_from, finding.target_to):
            return Verdict.EXPECTED_GAP
        start, end = finding.source_from, finding.source_to
        if start is not None and end is not None:
            if given_up.covers(start, end):
                return Verdict.EXPECTED_GAP
            for entry in again:  # what followed it was copied again
                if entry.source_from <= start and finding.target_from < entry.target_offset:
                    return Verdict.EXPECTED_GAP
        if finding.target_to <= log_start_offset:
            return Verdict.CLEANED
        return None

    return explain
