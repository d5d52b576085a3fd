"""The rows of the audit, from verdicts, journal and map."""

from __future__ import annotations

from typing import Any

import pytest

from aggregator.audit.audit_document import AUDITOR_SHOWN_MS, faults, link_document
from aggregator.audit.link_audit import (
    AuditRow,
    PartitionAudit,
    audit_partition,
    records_by_verdict,
    rows_since,
)
from mirror_maker.formats import Gap, OffsetMap, Run
from mirror_maker.formats.gaps import GapKind
from mirror_maker.formats.verdict_topic import FlowVerdicts
from mirror_maker.formats.verdicts import BUCKET_MS, AuditorState, Tally, Verdict
from tests.unit.aggregator.audit.audits import FLOW, complete, finding, gap, progress, verdicts

NAMES = {"link": "jfk-nyc", "datacenter": "jfk", "source": "jfk", "target": "nyc"}


def mapped(
    *runs: tuple[int, int, int], source_start: int = 0, target_start: int = 100
) -> OffsetMap:
    """Return the map of a flow; by default target offsets are 100 higher."""
    made = OffsetMap(source_start, target_start)
    made.begin()
    for run in runs or ((0, 100, 50),):
        made.append(Run(*run))
    return made


def audit(
    offset_map: OffsetMap, known: FlowVerdicts, *entries: Gap, source_end: int | None = None
) -> PartitionAudit:
    return audit_partition(FLOW, "jfk.flights", offset_map, known, entries, source_end)


Place = tuple[str, int | None, int | None, int | None, int | None, int | None]


def places(rows: tuple[AuditRow, ...]) -> list[Place]:
    """(verdict, records, source from, to, target from, to)."""
    return [
        (
            row.verdict.value,
            row.records_count,
            row.source_from,
            row.source_to,
            row.target_from,
            row.target_to,
        )
        for row in rows
    ]


def test_all_that_was_read_back_is_complete() -> None:
    found = audit(mapped(), verdicts(progress(150, {0: {Verdict.COMPLETE: complete(0, 100, 50)}})))
    assert places(found.rows) == [("COMPLETE", 50, 0, 50, 100, 150)]
    assert (found.is_current, found.age_ms(99_000)) == (True, 0)


def test_what_was_not_read_is_never_complete() -> None:
    known = progress(130, {0: {Verdict.COMPLETE: complete(0, 100, 30)}}, waiting=4)
    found = audit(mapped(), verdicts(known))
    assert places(found.rows) == [
        ("UNVERIFIED", 20, 30, 50, 130, 150),
        ("COMPLETE", 30, 0, 30, 100, 130),
    ]
    assert found.rows[0].reason == "not compared yet"
    assert (found.is_current, found.batches_waiting, found.age_ms(99_000)) == (False, 4, 59_000)


def test_copies_from_before_the_audit_began_are_unverified() -> None:
    known = progress(150, {0: {Verdict.COMPLETE: complete(20, 120, 30)}}, audited_from=120)
    found = audit(mapped(), verdicts(known))
    assert places(found.rows)[0] == ("UNVERIFIED", 20, 0, 20, 100, 120)
    assert found.rows[0].reason == "copied before the audit began"


def test_without_an_audit_everything_is_unverified_and_of_unknown_age() -> None:
    found = audit(mapped(), FlowVerdicts())
    assert places(found.rows) == [("UNVERIFIED", 50, 0, 50, 100, 150)]
    assert found.rows[0].reason == "no audit has run yet"
    assert (found.is_current, found.age_ms(99_000), found.audited_to) == (False, None, None)


def test_the_others_records_in_a_shared_copy_are_not_unverified() -> None:
    """Another link wrote after our copy at 109; our copies continue at 150."""
    known = progress(150, {0: {Verdict.COMPLETE: complete(0, 100, 10)}})
    found = audit(mapped((0, 100, 10)), verdicts(known))
    assert places(found.rows) == [("COMPLETE", 10, 0, 10, 100, 110)]
    known = progress(110, {0: {Verdict.COMPLETE: complete(0, 100, 10)}})
    found = audit(mapped((0, 100, 10), (10, 150, 5)), verdicts(known))
    assert places(found.rows)[0] == ("UNVERIFIED", 5, 10, 15, 110, 155)


@pytest.mark.parametrize("verdict", [Verdict.LOST, Verdict.ALTERED, Verdict.DUPLICATED])
def test_a_fault_has_its_offsets_and_reason(verdict: Verdict) -> None:
    bucket = {Verdict.COMPLETE: complete(0, 100, 40), verdict: complete(40, 140, 10)}
    found = audit(mapped(), verdicts(progress(150, {0: bucket}), finding(verdict, 140, 150)))
    (row,) = [each for each in found.rows if each.is_fault]
    assert (row.verdict, row.target_from, row.target_to) == (verdict, 140, 150)
    assert row.reason == "the target has nothing at that offset"


def test_what_retention_took_after_it_was_complete_is_cleaned() -> None:
    buckets = {
        0: {Verdict.COMPLETE: complete(0, 100, 20)},
        BUCKET_MS: {Verdict.COMPLETE: complete(20, 120, 30)},
    }
    found = audit(mapped(), verdicts(progress(150, buckets, target_log_start=130)))
    assert places(found.rows) == [
        ("CLEANED", 20, 0, 20, 100, 120),
        ("COMPLETE", 30, 20, 50, 120, 150),
    ]
    assert found.rows[0].reason == "it was complete; the target's log now begins at 130"


def test_the_journal_explains_what_is_not_there() -> None:
    entries = [
        gap(GapKind.LOST, 50, 60),
        gap(GapKind.COPIED, 60, 70, copied_count=5, target_to=155),
        gap(GapKind.FOREIGN, 70, 70, target_offset=155, target_to=158, reason="foreign"),
    ]
    known = verdicts(progress(150, {0: {Verdict.COMPLETE: complete(0, 100, 50)}}))
    found = audit(mapped(), known, *entries)
    assert places(found.rows)[1:] == [
        ("EXPECTED GAP", 10, 50, 60, None, None),
        ("EXPECTED GAP", 0, None, None, 155, 158),
    ]
    assert found.rows[1].reason == "retention: the source begins later"


@pytest.mark.parametrize(
    ("told", "published", "late"), [(None, None, None), (60, None, 60), (60, 55, 60), (50, 70, 70)]
)
def test_what_the_source_has_beyond_the_map_is_late(
    told: int | None, published: int | None, late: int | None
) -> None:
    known = progress(150, {0: {Verdict.COMPLETE: complete(0, 100, 50)}}, source_end=published)
    found = audit(mapped(), verdicts(known), source_end=told)
    rows = [each for each in found.rows if each.verdict is Verdict.LATE]
    assert [(each.source_from, each.source_to) for each in rows] == ([(50, late)] if late else [])


def test_since_leaves_out_buckets_of_earlier_times() -> None:
    buckets = {
        0: {Verdict.COMPLETE: complete(0, 100, 20)},
        BUCKET_MS: {Verdict.COMPLETE: complete(20, 120, 30)},
    }
    found = audit(mapped(), verdicts(progress(150, buckets)), gap(GapKind.LOST, 50, 60))
    assert len(rows_since(found.rows, BUCKET_MS - 1)) == 3
    assert [row.start_ms for row in rows_since(found.rows, BUCKET_MS)] == [BUCKET_MS, None]
    assert records_by_verdict(found.rows) == {Verdict.COMPLETE: 50, Verdict.EXPECTED_GAP: 10}


def document(*audits: PartitionAudit, problem: str | None = None, **options: Any) -> Any:
    states = {"w": AuditorState(worker_id="w", at_ms=49_000, cpu_share=0.01, failure=None)}
    options = {"with_rows": False, "now_ms": 50_000, **options}
    return link_document(NAMES, audits, states, problem=problem, **options)


def test_a_link_is_well_where_nothing_is_wrong() -> None:
    well = audit(mapped(), verdicts(progress(150, {0: {Verdict.COMPLETE: complete(0, 100, 50)}})))
    made = document(well)
    assert (made["is_well"], made["age_seconds"], made["findings"]) == (True, 0.0, 0)
    assert made["records"] == {"COMPLETE": 50}
    assert made["partitions"][0]["rows"] == [], "rows that are no fault only when asked for"
    assert len(document(well, with_rows=True)["partitions"][0]["rows"]) == 1
    assert made["auditors"] == [
        {"worker_id": "w", "age_seconds": 1.0, "cpu_share": 0.01, "failure": None}
    ]


def test_a_link_with_a_fault_or_a_problem_is_not_well() -> None:
    lost = Tally(10, 1, 40, 50, 140, 150)
    found = audit(
        mapped(),
        verdicts(progress(150, {0: {Verdict.LOST: lost}}), finding(Verdict.LOST, 140, 150)),
    )
    made = document(found)
    assert (made["is_well"], made["findings"], faults(made)) == (False, 1, {"LOST": 10})
    assert [row["verdict"] for row in made["partitions"][0]["rows"]] == ["LOST"]
    assert made["partitions"][0]["findings"][0]["detail"] == "the target has nothing at that offset"
    assert document(problem="broker 1 does not answer")["is_well"] is False


def test_an_unknown_age_is_null() -> None:
    assert document(audit(mapped(), FlowVerdicts()))["age_seconds"] is None


def test_an_audit_that_does_not_go_on_is_a_problem_until_its_worker_is_gone() -> None:
    state = AuditorState(worker_id="w1", at_ms=0, cpu_share=0.0, failure="nyc is away")
    document = link_document(
        NAMES, [], {"w1": state}, problem=None, now_ms=AUDITOR_SHOWN_MS - 1, with_rows=False
    )
    assert not document["is_well"]
    assert document["problem"] == "the audit of worker w1 has stopped: nyc is away"
    gone = link_document(
        NAMES, [], {"w1": state}, problem=None, now_ms=AUDITOR_SHOWN_MS, with_rows=False
    )
    assert (gone["is_well"], gone["auditors"]) == (True, [])
