"""Check the copy: every source record once, in order, unchanged, and nothing else. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

from tests.referee.checks.finding import Judgement, Promise
from tests.referee.checks.flow_truth import FlowTruth
from tests.referee.history import EntryKind, Fate, JournalEntry, Log, Partition, Written


class Fault(NamedTuple):
    """Something wrong with the copy of a partition, with its place."""

    kind: str
    """lost, doubled, altered, swapped, aborted or foreign."""
    generation: int
    source_offset: int | None
    """None where no client was told it."""
    target_offset: int | None
    """None where the target has nothing."""
    text: str


def check_copy(truth: FlowTruth) -> Judgement:
    """Compare what the source partition had with its copies on the target."""
    judgement = Judgement()
    for fault in copy_faults(truth):
        judgement.find(Promise.COPY, fault.kind, truth.flow, fault.text)
    judgement.figures["records compared"] += len(truth.copies)
    judgement.figures["copies without a known source offset"] += len(truth.unplaced_copies)
    for original in truth.originals:
        if original.is_readable and not truth.is_copied(original):
            excuse = truth.excuse(original)
            if excuse is not None:
                judgement.figures[f"not copied: {excuse}"] += 1
    return judgement


def copy_faults(truth: FlowTruth) -> Iterator[Fault]:
    """Everything that is wrong with the copies of a flow."""
    yield from _wrong_copies(truth)
    yield from _swapped(truth)
    yield from _lost(truth)


def foreign_faults(
    target: Log,
    born: Mapping[str, Written],
    sources: Collection[Partition],
    told: Collection[JournalEntry] = (),
) -> Iterator[Fault]:
    """Every record of a target partition that is of none of its sources, and not told.

    `born` has every record that any outside producer sent, by identity. `sources` are the
    partitions whose records may be here: those of the flows into the target, and the target itself
    where outside producers write into it. `told` are entries of the journals about foreign records.
    """
    for record in target.records:
        if any(each.kind is EntryKind.FOREIGN and each.holds(record.offset) for each in told):
            continue
        written = born.get(record.identity or "")
        if written is None:
            text = f"nobody produced the record at offset {record.offset}: {record.content}"
            yield Fault("foreign", 0, None, record.offset, text)
        elif written.partition not in sources:
            text = (
                f"{written.identity} at offset {record.offset} was produced to"
                f" {written.partition}, which no link copies to here"
            )
            yield Fault("foreign", 0, None, record.offset, text)


def check_foreign(target: Log, faults: Collection[Fault]) -> Judgement:
    """Check that a target partition has nothing but records of its sources."""
    judgement = Judgement()
    for fault in faults:
        judgement.find(Promise.COPY, fault.kind, target.partition, fault.text)
    judgement.figures["target records"] += len(target.records)
    return judgement


def _wrong_copies(truth: FlowTruth) -> Iterator[Fault]:
    places: dict[str, list[int]] = {}
    for copy in truth.copies:
        identity, generation = copy.written.identity, copy.written.generation
        source_offset = None if copy.original is None else copy.original.offset
        offsets = places.setdefault(identity, [])
        offsets.append(copy.offset)
        if copy.written.fate is Fate.NEVER:
            text = f"{identity} at target offset {copy.offset}; its transaction was aborted"
            yield Fault("aborted", generation, source_offset, copy.offset, text)
        if copy.content != copy.written.content:
            text = (
                f"{identity} at target offset {copy.offset} was sent as {copy.written.content},"
                f" is {copy.content}"
            )
            yield Fault("altered", generation, source_offset, copy.offset, text)
        if len(offsets) > max(1, len(truth.originals_of(identity))):
            text = f"{identity} is at the target offsets {offsets}"
            yield Fault("doubled", generation, source_offset, copy.offset, text)


def _swapped(truth: FlowTruth) -> Iterator[Fault]:
    highest: tuple[int, int] | None = None
    seen: set[tuple[int, int]] = set()
    for copy in truth.copies:
        if copy.original is None:
            continue
        place = copy.original.generation, copy.original.offset
        if place in seen:
            continue  # doubled, which is a fault of its own
        seen.add(place)
        if highest is not None and place < highest:
            text = (
                f"{copy.written.identity} of source offset {place[1]} is at target offset"
                f" {copy.offset}, behind the copy of source offset {highest[1]}"
            )
            yield Fault("swapped", *place, copy.offset, text)
        highest = max(place, highest or place)


def _lost(truth: FlowTruth) -> Iterator[Fault]:
    for original in truth.originals:
        is_missing = original.is_readable and not truth.is_copied(original)
        if not is_missing or truth.excuse(original) is not None:
            continue
        there = "and is still there" if original.is_in_log else "and is not there any more"
        told = "" if original.generation == truth.generation else ", before the re-creation"
        text = (
            f"{original.identity} was at source offset {original.offset}{told} {there};"
            " it is not on the target, and no journal entry says so"
        )
        yield Fault("lost", original.generation, original.offset, None, text)
