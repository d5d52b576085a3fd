"""The sums of the audit: published, taken over, forgotten."""

from __future__ import annotations

from uuid import UUID

import pytest

from mirror_maker.audit.evidence import Judged
from mirror_maker.audit.tally import (
    BUCKETS_GROWING_MAX,
    BUCKETS_KEPT_MAX,
    FINDINGS_KEPT_MAX,
    FlowTally,
)
from mirror_maker.formats import FlowKey
from mirror_maker.formats.verdict_topic import FlowVerdicts, VerdictTopic
from mirror_maker.formats.verdicts import (
    BUCKET_MS,
    AuditPlace,
    Bucket,
    Finding,
    Progress,
    Tally,
    Verdict,
    VerdictRecord,
)

FLOW = FlowKey("t", 0, UUID(int=1), UUID(int=2))
NOW_MS = 1_000


def judged(verdict: Verdict, at: int, timestamp_ms: int, count: int = 2) -> Judged:
    return Judged(
        verdict=verdict,
        source_from=at + 50,
        source_to=at + 50 + count,
        target_from=at,
        target_to=at + count,
        records_count=count,
        timestamp_ms=timestamp_ms,
        detail="as planted",
    )


def progress(growing: dict[int, Bucket]) -> Progress:
    return Progress(
        target_topic="a.t",
        worker_id="w",
        audited_from=0,
        place=AuditPlace(10, 0, 10, 60, 0, 10),
        audited_at_ms=NOW_MS,
        waiting=0,
        receipts_topic_id="id",
        receipts_offset=3,
        source_end=None,
        target_log_start=0,
        written_at_ms=NOW_MS,
        buckets=dict(growing),
    )


class Topic:
    """Return what was published, replayed."""

    def __init__(self) -> None:
        self.topic = VerdictTopic()

    def write(self, records: list[VerdictRecord]) -> None:
        for key, value in records:
            self.topic.replay(key, value)

    @property
    def known(self) -> FlowVerdicts:
        return self.topic.flow(FLOW)

    def count(self, verdict: Verdict) -> int:
        found = (bucket.get(verdict) for bucket in self.known.buckets().values())
        return sum(tally.records_count for tally in found if tally is not None)


def new_tally() -> FlowTally:
    return FlowTally(FLOW, FlowVerdicts())


def test_sums_and_offsets_grow_by_bucket_of_record_time() -> None:
    tally, topic = new_tally(), Topic()
    for at, timestamp_ms in ((0, 5), (2, BUCKET_MS - 1), (4, BUCKET_MS)):
        tally.add(judged(Verdict.COMPLETE, at, timestamp_ms), NOW_MS)
    topic.write(tally.take_records(progress))
    assert topic.known.buckets() == {
        0: {Verdict.COMPLETE: Tally(4, 2, 50, 54, 0, 4)},
        BUCKET_MS: {Verdict.COMPLETE: Tally(2, 1, 54, 56, 4, 6)},
    }
    assert not tally.is_changed


def test_jumping_timestamps_lose_nothing() -> None:
    tally, topic = new_tally(), Topic()
    buckets = BUCKETS_GROWING_MAX * 3
    for at in range(500):
        tally.add(judged(Verdict.COMPLETE, 2 * at, (at * 7 % buckets) * BUCKET_MS), NOW_MS)
        if at % 20 == 0:
            topic.write(tally.take_records(progress))
    topic.write(tally.take_records(progress))
    assert topic.count(Verdict.COMPLETE) == 1000
    assert len(topic.known.buckets()) == buckets


def test_a_successor_takes_over_what_was_published() -> None:
    first, topic = new_tally(), Topic()
    for at in range(0, 40, 2):
        first.add(judged(Verdict.COMPLETE, at, at * BUCKET_MS), NOW_MS)
    first.add(judged(Verdict.LOST, 40, 0), NOW_MS)
    topic.write(first.take_records(progress))
    second = FlowTally(FLOW, topic.known)
    assert [each.verdict for each in second.findings] == [Verdict.LOST]
    second.add(judged(Verdict.COMPLETE, 42, 0), NOW_MS)
    topic.write(second.take_records(progress))
    assert (topic.count(Verdict.COMPLETE), topic.count(Verdict.LOST)) == (42, 2)


def test_the_oldest_of_too_many_buckets_are_added_up() -> None:
    tally, topic = new_tally(), Topic()
    count = BUCKETS_KEPT_MAX + BUCKETS_GROWING_MAX + 3
    for at in range(1, count + 1):
        tally.add(judged(Verdict.COMPLETE, 2 * at, at * BUCKET_MS), NOW_MS)
        topic.write(tally.take_records(progress))
    kept = topic.known.buckets()
    assert list(kept) == [0, *(at * BUCKET_MS for at in range(4, count + 1))]
    assert kept[0] == {Verdict.COMPLETE: Tally(6, 3, 52, 58, 2, 8)}
    assert topic.count(Verdict.COMPLETE) == 2 * count


def test_complete_records_are_subtracted_if_the_log_was_truncated() -> None:
    tally, topic = new_tally(), Topic()
    for at in range(0, 40, 2):
        tally.add(judged(Verdict.COMPLETE, at, at // 8 * BUCKET_MS), NOW_MS)
    tally.take_back(11)
    topic.write(tally.take_records(progress))
    assert topic.count(Verdict.COMPLETE) == 11
    left = [bucket[Verdict.COMPLETE] for bucket in topic.known.buckets().values() if bucket]
    assert max(each.target_to or 0 for each in left) == 11


def test_a_batch_that_comes_late_is_not_lost_any_more() -> None:
    tally, topic = new_tally(), Topic()
    tally.add(judged(Verdict.LOST, 4, 0), NOW_MS)
    topic.write(tally.take_records(progress))
    tally.add(judged(Verdict.COMPLETE, 4, 0), NOW_MS)
    topic.write(tally.take_records(progress))
    assert not topic.known.findings
    assert topic.known.buckets() == {0: {Verdict.COMPLETE: Tally(2, 1, 54, 56, 4, 6)}}


def test_the_oldest_of_too_many_findings_are_deleted_and_stay_counted() -> None:
    tally, topic = new_tally(), Topic()
    for at in range(FINDINGS_KEPT_MAX + 5):
        tally.add(judged(Verdict.FOREIGN, 2 * at, 0), NOW_MS)
    topic.write(tally.take_records(progress))
    assert min(each.target_from for each in topic.known.findings.values()) == 10
    assert topic.count(Verdict.FOREIGN) == 2 * (FINDINGS_KEPT_MAX + 5)


@pytest.mark.parametrize("is_closed", [False, True])
def test_findings_that_the_journal_explains_are_withdrawn(is_closed: bool) -> None:
    tally, topic = new_tally(), Topic()
    tally.add(judged(Verdict.LOST, 0, 0), NOW_MS)
    tally.add(judged(Verdict.LOST, 2, 0), NOW_MS)
    if is_closed:
        for at in range(1, BUCKETS_GROWING_MAX + 1):
            tally.add(judged(Verdict.COMPLETE, 100 + at, at * BUCKET_MS), NOW_MS)
    topic.write(tally.take_records(progress))

    def explain_first(finding: Finding) -> Verdict | None:
        return Verdict.EXPECTED_GAP if finding.target_from == 0 else None

    tally.settle(explain_first)
    topic.write(tally.take_records(progress))
    assert [each.target_from for each in topic.known.findings.values()] == [2]
    assert (topic.count(Verdict.LOST), topic.count(Verdict.EXPECTED_GAP)) == (2, 2)
    tally.settle(lambda _: Verdict.EXPECTED_GAP)
    topic.write(tally.take_records(progress))
    assert not topic.known.findings
    assert (topic.count(Verdict.LOST), topic.count(Verdict.EXPECTED_GAP)) == (0, 4)


def test_a_write_that_failed_is_written_again() -> None:
    tally, topic = new_tally(), Topic()
    tally.add(judged(Verdict.ALTERED, 0, 0), NOW_MS)
    tally.put_back(tally.take_records(progress))
    assert tally.is_changed
    topic.write(tally.take_records(progress))
    assert len(topic.known.findings) == 1


def test_records_that_somebody_else_wrote_are_replaced() -> None:
    tally, theirs, topic = new_tally(), new_tally(), Topic()
    for at in range(2 * BUCKETS_GROWING_MAX):
        tally.add(judged(Verdict.COMPLETE, 2 * at, at * BUCKET_MS), NOW_MS)
    tally.add(judged(Verdict.LOST, 40, 0), NOW_MS)
    topic.write(tally.take_records(progress))
    wanted = topic.known.buckets()
    for at in range(20, 20 + 2 * BUCKETS_GROWING_MAX):
        theirs.add(judged(Verdict.COMPLETE, 2 * at, at * BUCKET_MS), NOW_MS)
    theirs.add(judged(Verdict.FOREIGN, 90, 0), NOW_MS)
    topic.write(theirs.take_records(progress))
    assert topic.known.buckets() != wanted
    tally.publish_again(topic.known)
    topic.write(tally.take_records(progress))
    assert topic.known.buckets() == wanted
    assert [each.verdict for each in topic.known.findings.values()] == [Verdict.LOST]


def test_what_was_written_does_not_differ_and_queued_records_are_not_compared() -> None:
    tally, topic = new_tally(), Topic()
    for at in range(2 * BUCKETS_GROWING_MAX):
        tally.add(judged(Verdict.COMPLETE, 2 * at, at * BUCKET_MS), NOW_MS)
    tally.add(judged(Verdict.LOST, 40, 0), NOW_MS)
    assert not tally.differs_from(topic.known)
    topic.write(tally.take_records(progress))
    assert not tally.differs_from(topic.known)
    tally.settle(lambda _: Verdict.EXPECTED_GAP)
    assert not tally.differs_from(topic.known)


def test_a_late_finding_of_somebody_else_is_noticed_behind_a_newer_progress() -> None:
    tally, theirs, topic = new_tally(), new_tally(), Topic()
    theirs.add(judged(Verdict.FOREIGN, 2, 0), NOW_MS)
    topic.write(theirs.take_records(progress))
    topic.write(tally.take_records(progress))
    assert tally.differs_from(topic.known)
    tally.publish_again(topic.known)
    topic.write(tally.take_records(progress))
    assert not topic.known.findings
    assert not tally.differs_from(topic.known)
