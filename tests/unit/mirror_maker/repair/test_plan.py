"""The effects of each way to repair a copy, when it is not possible, and its journal entries."""

from __future__ import annotations

import uuid
from dataclasses import replace

from mirror_maker.formats import FlowKey, Gap, Opening
from mirror_maker.formats.gaps import GapKind
from mirror_maker.repair.orders import order_entries
from mirror_maker.repair.plan import FAULTS_MAX, Diagnosis, Fault, FaultKind, How, Way, ways

FLOW = FlowKey("t", 0, uuid.UUID(int=1), uuid.UUID(int=2))
OPENING = Opening(
    flow=FLOW,
    producer_id=7,
    producer_epoch=3,
    nonce=1,
    target_topic="a.t",
    source_offset=0,
    target_offset=0,
    opened_at_ms=0,
    worker_id="w",
)
WELL = Diagnosis(
    opening=OPENING,
    faults=(),
    stop=None,
    wrong_from=100,
    mapped_to=100,
    source_start=0,
    source_first=0,
    source_end=120,
    target_first=0,
    target_end=90,
    next_epoch=4,
    is_shared=False,
    is_compacted=False,
)
TEMPLATE = Gap(
    flow=FLOW,
    producer_epoch=3,
    nonce=0,
    link="a-b",
    target_topic="a.t",
    source_from=0,
    source_to=0,
    records_count=None,
    reason="",
    detail="",
    target_offset=0,
    noticed_at_ms=5,
    worker_id="w",
)
FOREIGN = Fault(FaultKind.FOREIGN, 88, 90, None, None, None, "others wrote it")
LOST = Fault(FaultKind.LOST, 40, 44, 50, 54, 4, "nothing there")
ALTERED = Fault(FaultKind.ALTERED, 60, 62, 70, 72, 2, "another CRC")
DIVERGED = Fault(FaultKind.DIVERGED, 80, 92, 85, 100, 12, "it lost records")
UNEXPLAINED = Fault(FaultKind.UNEXPLAINED, 90, 93, None, None, None, "whose?")
TRUNCATED = Fault(FaultKind.TRUNCATED, 80, 92, 85, 100, 12, "cut back")
STOPPED = replace(WELL, faults=(DIVERGED, FOREIGN), stop="it lost records", wrong_from=85)
Order = tuple[GapKind, int, int, int | None, int, int | None]


def way(found: Diagnosis, how: How) -> Way:
    return next(each for each in ways(found) if each.how is how)


def ordered(found: Diagnosis, how: How, *known: Gap) -> list[Order]:
    """(kind, epoch, source from, to, target offset, to) of the entries."""
    made = order_entries(found, how, known, TEMPLATE)
    assert all(each.reason == f"repair_{how}" for each in made)
    return [
        (e.kind, e.producer_epoch, e.source_from, e.source_to, e.target_offset, e.target_to)
        for e in made
    ]


def test_a_copy_without_faults_has_no_repair() -> None:
    assert WELL.is_well
    assert ways(WELL) == []


def test_recopy_begins_at_the_first_wrong_record_and_lists_what_stays() -> None:
    found = replace(WELL, faults=(LOST, ALTERED, FOREIGN), wrong_from=50)
    assert way(found, How.RECOPY).again == (50, 100)
    assert way(found, How.RECOPY).given_up == ()
    assert ordered(found, How.RECOPY) == [
        (GapKind.FOREIGN, 3, 100, 100, 60, 62),
        (GapKind.FOREIGN, 3, 100, 100, 88, 90),
        (GapKind.LOST, 3, 50, None, 90, None),
    ]


def test_recopy_writes_lost_source_records_under_the_next_epoch() -> None:
    found = replace(STOPPED, source_first=95)
    assert way(found, How.RECOPY).again == (95, 100)
    assert way(found, How.RECOPY).given_up == ((85, 95),)
    assert ordered(found, How.RECOPY) == [
        (GapKind.LOST, 4, 85, 95, 90, None),
        (GapKind.FOREIGN, 3, 100, 100, 88, 90),
        (GapKind.LOST, 3, 85, None, 92, None),
    ]


def test_a_source_that_ends_before_the_map_has_less_to_copy_again() -> None:
    found = replace(WELL, faults=(TRUNCATED,), stop="cut back", wrong_from=85, source_end=88)
    assert way(found, How.RECOPY).again == (85, 88)


def test_fresh_begins_where_the_flow_began() -> None:
    found = replace(STOPPED, source_start=10)
    assert way(found, How.FRESH).again == (10, 100)
    assert ordered(found, How.FRESH) == [(GapKind.LOST, 3, 10, None, 92, None)]
    with_others = replace(found, opening=replace(OPENING, has_older_copies=True))
    assert way(with_others, How.FRESH).again == (0, 100), "foreign copies are deleted too"
    shorter = replace(found, source_first=30)
    assert way(shorter, How.FRESH).given_up == ((10, 30),)
    assert ordered(shorter, How.FRESH)[0] == (GapKind.LOST, 4, 10, 30, 90, None)


def test_fresh_is_refused_for_shared_copies_and_undeletable_ones() -> None:
    assert way(STOPPED, How.FRESH).refusal is None
    assert "others" in (way(replace(STOPPED, is_shared=True), How.FRESH).refusal or "")
    assert "compact" in (way(replace(STOPPED, is_compacted=True), How.FRESH).refusal or "")


def test_skip_leaves_the_copy_and_continues_under_its_epoch_if_possible() -> None:
    found = replace(WELL, faults=(LOST, ALTERED, FOREIGN), wrong_from=50)
    assert way(found, How.SKIP).given_up == ((50, 54), (70, 72))
    assert way(found, How.SKIP).again == (100, 100)
    assert ordered(found, How.SKIP) == [
        (GapKind.LOST, 3, 50, 54, 40, None),
        (GapKind.LOST, 3, 70, 72, 60, None),
        (GapKind.FOREIGN, 3, 100, 100, 60, 62),
        (GapKind.FOREIGN, 3, 100, 100, 88, 90),
    ]


def test_skip_opens_another_generation_if_the_flow_cannot_continue() -> None:
    assert way(STOPPED, How.SKIP).given_up == ((85, 100),)
    assert ordered(STOPPED, How.SKIP) == [
        (GapKind.LOST, 4, 85, 100, 90, None),
        (GapKind.FOREIGN, 3, 100, 100, 88, 90),
        (GapKind.LOST, 3, 85, None, 92, None),
    ]


def test_skip_is_refused_if_nobody_knows_what_follows() -> None:
    unexplained = replace(WELL, faults=(UNEXPLAINED,), stop="cannot be paired")
    assert "no offset after" in (way(unexplained, How.SKIP).refusal or "")
    assert way(unexplained, How.RECOPY).refusal is None
    truncated = replace(WELL, faults=(TRUNCATED,), stop="cut back", wrong_from=85)
    assert "new log" in (way(truncated, How.SKIP).refusal or "")


def test_entries_in_the_journal_are_not_written_again() -> None:
    found = replace(WELL, faults=(LOST, FOREIGN), wrong_from=50)
    skipped = replace(TEMPLATE, source_from=50, source_to=52)
    foreign = replace(TEMPLATE, kind=GapKind.FOREIGN, target_offset=88, target_to=89)
    assert ordered(found, How.SKIP, skipped, foreign) == [
        (GapKind.LOST, 3, 52, 54, 40, None),
        (GapKind.FOREIGN, 3, 100, 100, 89, 90),
    ]
    of_another_epoch = replace(skipped, producer_epoch=2)
    assert len(ordered(found, How.SKIP, of_another_epoch)) == 2


def test_with_too_many_faults_only_a_fresh_copy_is_possible() -> None:
    faults = tuple(
        FOREIGN._replace(target_from=n, target_to=n + 1) for n in range(0, 2 * FAULTS_MAX, 2)
    )
    found = replace(WELL, faults=faults)
    assert "or more are known" in (way(found, How.RECOPY).refusal or "")
    assert "or more are known" in (way(found, How.SKIP).refusal or "")
    assert way(found, How.FRESH).refusal is None
