"""The check of the audit's verdicts notices false alarms, silence, false excuses and counts."""

from __future__ import annotations

import pytest

from tests.referee.audit_reading import verdicts_of
from tests.referee.checks.audit import check_audit, copies_end
from tests.referee.checks.audit_verdicts import PartitionVerdicts, Span, Verdict
from tests.referee.checks.copy import copy_faults, foreign_faults
from tests.referee.history import EntryKind
from tests.unit.referee.histories import FLOW, SOURCE, History, alter, clean, content

BUCKET_MS = 600_000


def row(
    verdict: Verdict,
    count: int | None = 1,
    *,
    source: tuple[int | None, int | None] = (None, None),
    target: tuple[int | None, int | None] = (None, None),
    start_ms: int | None = 0,
) -> Span:
    """A row or a finding."""
    return Span(verdict, start_ms, count, *source, *target, "words")


def complete(count: int) -> Span:
    """A row about so many right copies, from the first target offset on."""
    return row(Verdict.COMPLETE, count, source=(0, count), target=(0, count))


def said(
    history: History, *rows: Span, findings: tuple[Span, ...] = (), to: int | None = None
) -> PartitionVerdicts:
    """All that the audit says about the flow; it has reached the end where `to` is not given."""
    end = history.target_end if to is None else to
    return PartitionVerdicts(FLOW.link, "orders", 0, 0, end, 0, (*rows, *findings), findings)


def kinds(history: History, verdicts: PartitionVerdicts | None) -> list[str]:
    """The kinds of findings about verdicts on the flow of a history, which has its copy alone."""
    truth = history.truth()
    born = {each.identity: each for each in history.written}
    foreign = list(foreign_faults(history.target_log(), born, {SOURCE}, history.journal))
    judged = check_audit(truth, list(copy_faults(truth)), foreign, verdicts)
    return [each.kind for each in judged.findings]


def lossy() -> History:
    """A copy without the third of six records, and another one at its place."""
    history = clean()
    history.forget_at_target("a.w.2")
    return history


def test_right_verdicts_on_a_right_copy_pass() -> None:
    history = clean()
    assert kinds(history, said(history, complete(6))) == []
    truth = history.truth()
    figures = check_audit(truth, [], [], said(history, complete(6))).figures
    assert figures["audit counts"] == 1 and figures["audit records: COMPLETE"] == 6


def test_each_fault_that_is_told_at_its_place_passes() -> None:
    lost = row(Verdict.LOST, source=(2, 3), target=(2, 3))
    assert kinds(lossy(), said(lossy(), complete(5), findings=(lost,))) == []
    doubled = clean()
    doubled.copy("a.w.1")
    again = row(Verdict.DUPLICATED, target=(6, 7))
    assert kinds(doubled, said(doubled, complete(6), findings=(again,))) == []
    altered = clean()
    altered.target = alter(altered.target, 1, key=b"other")
    other = row(Verdict.ALTERED, source=(1, 2), target=(1, 2))
    assert kinds(altered, said(altered, complete(5), findings=(other,))) == []
    foreign = clean()
    foreign.put("b.w.0", content("b.w.0"))
    theirs = row(Verdict.FOREIGN, target=(6, 7))
    assert kinds(foreign, said(foreign, complete(6), findings=(theirs,))) == []


def test_a_fault_that_is_not_told_is_noticed() -> None:
    assert kinds(lossy(), said(lossy(), complete(5))) == ["unnoticed"]
    elsewhere = row(Verdict.LOST, source=(3, 4), target=(3, 4))
    found = kinds(lossy(), said(lossy(), complete(5), findings=(elsewhere,)))
    assert sorted(found) == ["false alarm", "unnoticed"]


def test_what_the_audit_has_not_reached_it_need_not_tell_but_it_must_reach_the_end() -> None:
    history = clean()
    history.target = alter(history.target, 5, key=b"other")
    assert kinds(history, said(history, complete(5), to=5)) == ["behind"]
    waiting = said(clean(), complete(6))._replace(waiting=1)
    assert kinds(clean(), waiting) == ["behind"]
    assert copies_end(clean().truth()) == 6 and copies_end(History().truth()) is None


@pytest.mark.parametrize(
    "alarm", [Verdict.LOST, Verdict.DUPLICATED, Verdict.ALTERED, Verdict.FOREIGN]
)
def test_an_alarm_about_a_right_copy_is_noticed(alarm: Verdict) -> None:
    history = clean()
    finding = row(alarm, source=(2, 3), target=(6, 7))
    assert kinds(history, said(history, complete(6), findings=(finding,))) == ["false alarm"]
    assert kinds(history, said(history, complete(6), finding)) == ["false alarm"]


def test_an_alarm_of_the_wrong_kind_is_noticed() -> None:
    history = lossy()
    doubled = row(Verdict.DUPLICATED, source=(2, 3), target=(2, 3))
    lost = row(Verdict.LOST, source=(2, 3), target=(2, 3))
    found = kinds(history, said(history, complete(5), findings=(doubled, lost)))
    assert found == ["false alarm"]


def test_only_a_flow_that_stands_still_is_late() -> None:
    history = clean()
    late = row(Verdict.LATE, source=(6, 8), start_ms=None)
    assert kinds(history, said(history, complete(6), late)) == ["false alarm"]
    history.stands_still = True
    assert kinds(history, said(history, complete(6), late)) == []


def test_a_loss_at_the_end_of_a_flow_that_stands_still_is_no_false_alarm() -> None:
    history = clean()
    history.forget_at_target("a.w.5")
    history.stands_still = True
    lost = row(Verdict.LOST, source=(5, 6), target=(5, 6))
    assert kinds(history, said(history, complete(5), findings=(lost,))) == []
    elsewhere = row(Verdict.LOST, source=(2, 3), target=(2, 3))
    assert "false alarm" in kinds(history, said(history, complete(5), findings=(elsewhere,)))


def overtaken() -> History:
    """Two copies; a third record was lost, as the journal says."""
    history = clean(2)
    history.write("a.w.2")
    history.tell(2, 3, count=1)
    history.delete_before(3)
    return history


def test_an_excuse_without_a_reason_is_noticed() -> None:
    history = clean()
    gap = row(Verdict.EXPECTED_GAP, source=(2, 3), start_ms=None)
    cleaned = row(Verdict.CLEANED, 0, target=(0, 1))
    assert kinds(history, said(history, complete(6), gap)) == ["false excuse"]
    assert kinds(history, said(history, complete(6), cleaned)) == ["false excuse"]
    assert kinds(overtaken(), said(overtaken(), complete(2), gap)) == []
    compacted = clean()
    compacted.target_compacts = True
    assert kinds(compacted, said(compacted, complete(6), cleaned)) == []
    trimmed = clean()
    trimmed.target, trimmed.target_start = trimmed.target[1:], 1
    assert kinds(trimmed, said(trimmed, complete(6), cleaned)) == []
    returned = clean()
    returned.target_deleted_to = 1
    assert kinds(returned, said(returned, complete(6), cleaned)) == []
    beyond = row(Verdict.CLEANED, 0, target=(1, 2))
    assert kinds(returned, said(returned, complete(6), beyond)) == ["false excuse"]


def test_every_journal_entry_has_its_row() -> None:
    assert kinds(overtaken(), said(overtaken(), complete(2))) == ["unnoticed"]
    miscounted = row(Verdict.EXPECTED_GAP, 7, source=(2, 3), start_ms=None)
    assert kinds(overtaken(), said(overtaken(), complete(2), miscounted)) == ["unnoticed"]
    accepted = clean()
    accepted.put("b.w.0", content("b.w.0"))
    accepted.tell(6, 6, target_offset=6, target_to=7, kind=EntryKind.FOREIGN)
    gap = row(Verdict.EXPECTED_GAP, None, target=(6, 7), start_ms=None)
    assert kinds(accepted, said(accepted, complete(6), gap)) == []


def test_wrong_counts_are_noticed() -> None:
    history = clean()
    assert kinds(history, said(history, complete(4), complete(2))) == []
    assert kinds(history, said(history, complete(5))) == ["miscounted"]
    assert kinds(history, said(history, complete(7))) == ["miscounted"]
    unread = row(Verdict.UNVERIFIED, 1, target=(5, 6))
    assert kinds(history, said(history, complete(5), unread)) == []


def test_counts_of_a_compacted_copy_lie_between_what_is_there_and_what_was_sent() -> None:
    history = clean()
    history.target_compacts = True
    history.forget_at_target("a.w.1")
    assert kinds(history, said(history, complete(5))) == []
    assert kinds(history, said(history, complete(6))) == []
    assert kinds(history, said(history, complete(4))) == ["miscounted"]
    assert kinds(history, said(history, complete(7))) == ["miscounted"]


def test_records_that_count_before_their_time_are_noticed() -> None:
    history = clean()
    late_ms = BUCKET_MS + 5
    history.written[5] = history.written[5]._replace(
        content=history.written[5].content._replace(timestamp_ms=late_ms)
    )
    history.source = alter(history.source, 5, timestamp_ms=late_ms)
    history.target = alter(history.target, 5, timestamp_ms=late_ms)
    later = complete(1)._replace(start_ms=BUCKET_MS)
    assert kinds(history, said(history, complete(5), later)) == []
    nothing = complete(0)._replace(start_ms=BUCKET_MS)
    assert kinds(history, said(history, complete(6), nothing)) == ["miscounted"]


def test_a_missing_verdict_is_noticed() -> None:
    assert kinds(clean(), None) == ["missing"]
    assert kinds(History(), None) == []


def test_faults_from_before_a_re_creation_are_not_asked_for() -> None:
    history = lossy()
    history.tell(6, None, reason="recreated")
    history.recreate()
    assert kinds(history, said(history)) == []


def test_the_document_of_the_aggregator_is_read() -> None:
    offsets = {"source_from": 0, "source_to": 2, "target_from": 5, "target_to": 7}
    document = {
        "topic": "orders",
        "partition": 3,
        "audited_from": 0,
        "audited_to": 7,
        "batches_waiting": 1,
        "rows": [{"verdict": "EXPECTED GAP", "start_ms": None, "records": 2, "batches": 1}
                 | offsets | {"reason": None}],
        "findings": [{"verdict": "LOST", "start_ms": 0, "records": 2} | offsets
                     | {"detail": "nothing there"}],
    }  # fmt: skip
    read = verdicts_of("a-hub", document)
    assert read.rows == (Span(Verdict.EXPECTED_GAP, None, 2, 0, 2, 5, 7, ""),)
    assert read.findings == (Span(Verdict.LOST, 0, 2, 0, 2, 5, 7, "nothing there"),)
    assert (read.partition, read.audited_to, read.waiting) == (3, 7, 1)
