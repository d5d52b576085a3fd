"""The journal entries that order a repair. Pure.

An order consists of these entries, written in one batch: it exists as a whole or not at all. Any
worker that copies the flow then or later does the rest, and each step can be repeated:

    recopy   a LOST entry without an end: the flow continues from `source_from` under the next
             producer epoch, after everything that lies in the copy
    fresh    the same from the first source offset on; what the copy had before is deleted
    skip     LOST and FOREIGN entries for what is wrong. If the flow cannot continue under its
             producer epoch, a LOST entry without an end as well
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from mirror_maker.formats import Gap
from mirror_maker.formats.gaps import (
    REPAIR_FRESH_REASON,
    REPAIR_RECOPY_REASON,
    REPAIR_SKIP_REASON,
    GapKind,
)
from mirror_maker.repair.plan import Diagnosis, Fault, FaultKind, How, ways
from mirror_maker.rules.gap_ranges import GapRanges

_STAYING: Final = frozenset(
    {FaultKind.ALTERED, FaultKind.DUPLICATED, FaultKind.FOREIGN, FaultKind.UNEXPLAINED}
)
"""Records that are in the copy and should not be."""
_REASONS: Final = {
    How.RECOPY: REPAIR_RECOPY_REASON,
    How.FRESH: REPAIR_FRESH_REASON,
    How.SKIP: REPAIR_SKIP_REASON,
}


def order_entries(found: Diagnosis, how: How, known: Sequence[Gap], template: Gap) -> list[Gap]:
    """Return the entries of an order; the one that opens the next generation comes last.

    `known` are the flow's entries in the journal. `template` has what all entries have in common
    (link, target topic, time, worker); each needs its own nonce.
    """
    return [
        *_missing_entries(found, how, known, template),
        *_staying_entries(found, how, known, template),
        *_opening_entries(found, how, template),
    ]


def _missing_entries(found: Diagnosis, how: How, known: Sequence[Gap], template: Gap) -> list[Gap]:
    way = next(each for each in ways(found) if each.how is how)
    is_opening = _opens(found, how)
    # What the next generation leaves out must be written under its own epoch.
    epoch = found.next_epoch if is_opening else found.opening.producer_epoch
    written = GapRanges(
        (each.source_from, each.source_to)
        for each in known
        if each.kind is GapKind.LOST and each.source_to is not None and each.producer_epoch == epoch
    )
    reasons = {
        How.RECOPY: "the source no longer has them, so they are not copied again",
        How.FRESH: "the source no longer has them, and their copies are deleted",
        How.SKIP: "their copies are wrong or missing, and stay so",
    }[how]
    return [
        replace(
            template,
            producer_epoch=epoch,
            source_from=start,
            source_to=end,
            reason=_REASONS[how],
            detail=f"source offsets {start}..{end - 1}: {reasons}{_why(found, start, end)}",
            target_offset=found.target_end if is_opening else _place(found, start),
        )
        for each in way.given_up
        for start, end in written.uncovered(*each)
    ]


def _staying_entries(found: Diagnosis, how: How, known: Sequence[Gap], template: Gap) -> list[Gap]:
    if how is How.FRESH:
        return []  # they are deleted
    accepted = GapRanges(
        (each.target_offset, each.target_to or 0)
        for each in known
        if each.kind is GapKind.FOREIGN and each.producer_epoch == found.opening.producer_epoch
    )
    staying = []
    for fault in found.faults:
        if fault.kind in _STAYING:
            for start, end in accepted.uncovered(fault.target_from, fault.target_to):
                staying.append(
                    replace(
                        template,
                        kind=GapKind.FOREIGN,
                        source_from=found.mapped_to,
                        source_to=found.mapped_to,
                        records_count=0,
                        reason=_REASONS[how],
                        detail=f"{fault.kind}: {fault.detail}",
                        target_offset=start,
                        target_to=end,
                    )
                )
            accepted = accepted.with_range(fault.target_from, fault.target_to)
    return staying


def _opening_entries(found: Diagnosis, how: How, template: Gap) -> list[Gap]:
    if not _opens(found, how):
        return []
    start = found.fresh_from if how is How.FRESH else found.wrong_from
    if how is How.SKIP:
        assert found.diverged_from is not None, "else `skip` is not possible"
        start = found.diverged_from
    reasons = {
        How.RECOPY: f"from source offset {start} on it is copied again",
        How.FRESH: f"the copy is deleted, and copied again from source offset {start} on",
        How.SKIP: f"the copy from source offset {start} on stays as it is, and copying continues "
        f"at {found.mapped_to}",
    }[how]
    ends = [fault.target_to for fault in found.faults]
    return [
        replace(
            template,
            source_from=start,
            source_to=None,
            records_count=None,
            reason=_REASONS[how],
            detail=f"an operator has ordered `{how}`: {reasons} ({_first_fault(found)})",
            target_offset=max([found.target_end, *ends]),
        )
    ]


def _opens(found: Diagnosis, how: How) -> bool:
    """Return whether the way opens a new generation."""
    return how is not How.SKIP or found.stop is not None


def _place(found: Diagnosis, source_from: int) -> int:
    """Return the target offset of the fault at a source offset."""
    fault = _fault_at(found, source_from, source_from + 1)
    return found.target_end if fault is None else fault.target_from


def _why(found: Diagnosis, start: int, end: int) -> str:
    fault = _fault_at(found, start, end)
    return "" if fault is None else f" ({fault.kind}: {fault.detail})"


def _fault_at(found: Diagnosis, start: int, end: int) -> Fault | None:
    """Return the first fault about any of these source offsets."""
    for fault in found.faults:
        source_from, source_to = fault.source_from, fault.source_to
        if source_from is None or source_to is None:
            continue
        if source_from < end and start < source_to:
            return fault
    return None


def _first_fault(found: Diagnosis) -> str:
    if not found.faults:
        return found.stop or ""
    fault, more = found.faults[0], len(found.faults) - 1
    return f"{fault.kind}: {fault.detail}{f'; {more} more' if more else ''}"
