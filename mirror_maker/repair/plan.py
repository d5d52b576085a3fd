"""What is wrong in a copy, the ways to continue, and the effects of each. Pure.

    recopy   copy again from the first wrong record on, after everything that lies in the copy
    fresh    delete everything in the copy, and copy again from the first source offset on
    skip     leave the copy as it is, and continue after what is wrong

`orders.py` has the orders.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

from mirror_maker.formats import Opening
from mirror_maker.rules.gap_ranges import GapRanges

FAULTS_MAX: Final = 100
"""Faults of one partition. An order cannot list more of them, so then only `fresh` is possible."""


class How(StrEnum):
    """A way to continue."""

    RECOPY = "recopy"
    FRESH = "fresh"
    SKIP = "skip"


class FaultKind(StrEnum):
    """What is wrong with a part of a copy."""

    LOST = "LOST"
    ALTERED = "ALTERED"
    DUPLICATED = "DUPLICATED"
    FOREIGN = "FOREIGN"
    """The audit found it; a proof finds FOREIGN too."""
    DIVERGED = "DIVERGED"
    """The copy is not what the map says, from there on."""
    UNEXPLAINED = "UNEXPLAINED"
    """The link's own records, which a proof cannot pair with the source."""
    TRUNCATED = "TRUNCATED"
    """The source has other records, or none, at the copied offsets."""


_MISSING: Final = frozenset({FaultKind.LOST, FaultKind.ALTERED, FaultKind.DIVERGED})
"""Records that should be in the copy and are not."""


class Fault(NamedTuple):
    """Target offsets [target_from, target_to) are wrong.

    `source_from` and `source_to` are None if no source records belong there.
    """

    kind: FaultKind
    target_from: int
    target_to: int
    source_from: int | None
    source_to: int | None
    records_count: int | None
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """What the map, the journal, the audit and both logs show."""

    opening: Opening
    """The valid one."""
    faults: tuple[Fault, ...]
    stop: str | None
    """Why the flow cannot continue under its producer epoch, whatever the journal says."""
    wrong_from: int
    """The first source offset whose copy is wrong, or was copied after something wrong."""
    mapped_to: int
    """The map covers every source offset below it."""
    source_start: int
    """The source offset at which the flow began."""
    source_first: int
    source_end: int
    target_first: int
    target_end: int
    next_epoch: int
    """Producer epoch of the next generation."""
    is_shared: bool
    """Whether others may write into the copy."""
    is_compacted: bool
    """Whether the target refuses DeleteRecords in the copy."""

    @property
    def is_well(self) -> bool:
        return not self.faults and self.stop is None

    @property
    def copied_to(self) -> int:
        """The source offset after what is mapped and still exists at the source."""
        return min(self.mapped_to, self.source_end)

    @property
    def diverged_from(self) -> int | None:
        """The first mapped source offset whose copy is not where the map says."""
        return next(
            (each.source_from for each in self.faults if each.kind is FaultKind.DIVERGED), None
        )

    @property
    def fresh_from(self) -> int:
        """The first source offset that a fresh copy has."""
        if self.opening.has_older_copies:
            return self.source_first  # what others copied is deleted too
        return max(self.source_first, self.source_start)


class Way(NamedTuple):
    """One way to continue."""

    how: How
    refusal: str | None
    """Why it is not possible; None if it is."""
    again: tuple[int, int]
    """Source offsets [from, to) that were copied and would be copied again."""
    given_up: tuple[tuple[int, int], ...]
    """Source offsets [from, to) that the copy would not have."""
    effects: tuple[str, ...]


def ways(found: Diagnosis) -> list[Way]:
    """Return every way, also those not possible; none if nothing is wrong."""
    if found.is_well:
        return []
    return [_recopy(found), _fresh(found), _skip(found)]


def _recopy(found: Diagnosis) -> Way:
    start = found.wrong_from
    first = max(start, found.source_first)
    end = max(first, found.copied_to)
    effects = [
        f"source offsets from {first} on are copied again, to target offsets from "
        f"{found.target_end} on; what lies there stays",
        f"readers of the copy see the records of source offsets {first}..{end - 1} again"
        if first < end
        else "no mapped record is copied again",
        "the map points at the new copies; positions of groups after source offset "
        f"{start} move forward to them as they are copied",
    ]
    return Way(How.RECOPY, _too_many(found), (first, end), _gone(found, start), tuple(effects))


def _fresh(found: Diagnosis) -> Way:
    start = found.fresh_from
    refusal = None
    if found.is_shared:
        refusal = "others may write into this copy, and their records would be deleted with it"
    elif found.is_compacted:
        refusal = (
            "the copy has cleanup.policy=compact, for which Kafka refuses to delete records; "
            "add `delete` to it first"
        )
    gone = ((found.source_start, start),) if start > found.source_start else ()
    effects = [
        f"target offsets {found.target_first}..{found.target_end - 1} are deleted from the copy",
        f"source offsets from {start} on are copied again, to target offsets from "
        f"{found.target_end} on",
        f"readers of the copy that stand below target offset {found.target_end} get "
        "OFFSET_OUT_OF_RANGE and follow their auto.offset.reset",
        "the map points at the new copies; positions of groups move forward to them as they are "
        "copied",
    ]
    return Way(How.FRESH, refusal, (start, max(start, found.copied_to)), gone, tuple(effects))


def _skip(found: Diagnosis) -> Way:
    refusal = _too_many(found)
    kinds = {fault.kind for fault in found.faults}
    if FaultKind.TRUNCATED in kinds:
        refusal = (
            "the source has a new log from source offset "
            f"{found.wrong_from} on, and skipping would leave records of it out for ever"
        )
    elif found.stop is not None and found.diverged_from is None:
        refusal = (
            "nobody knows which source records the unexplained copies are, so there is no offset "
            "after them to continue from"
        )
    lost = _given_up(found)
    effects = [
        "the copy stays as it is; readers and positions of groups notice nothing",
        *(f"source offsets {a}..{b - 1} stay wrong or missing in the copy" for a, b in lost),
        f"copying continues at source offset {found.mapped_to}",
    ]
    if found.stop is not None:
        effects[-1] += f", to target offsets from {found.target_end} on"
    return Way(How.SKIP, refusal, (found.mapped_to, found.mapped_to), lost, tuple(effects))


def _too_many(found: Diagnosis) -> str | None:
    if len(found.faults) < FAULTS_MAX:
        return None
    return f"{FAULTS_MAX} faults or more are known, too many to list in the journal"


def _gone(found: Diagnosis, start: int) -> tuple[tuple[int, int], ...]:
    """Return what would be copied again, but is gone by the source's retention."""
    return ((start, found.source_first),) if start < found.source_first else ()


def _given_up(found: Diagnosis) -> tuple[tuple[int, int], ...]:
    """Return the source offsets whose copies `skip` leaves wrong or missing."""
    return tuple(
        GapRanges(
            (fault.source_from, min(fault.source_to, found.mapped_to))
            for fault in found.faults
            if fault.kind in _MISSING
            and fault.source_from is not None
            and fault.source_to is not None
        )
    )
