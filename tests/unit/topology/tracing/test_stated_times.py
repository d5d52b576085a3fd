"""When a record was committed and copied, by what workers stated round by round."""

from __future__ import annotations

import uuid
from typing import Any

from local_cluster.client.model import TopicPartition
from mirror_maker.formats.completeness.statement import NO_HOLD, Entry, SourceSession, Statement
from tests.support.listed_statements import with_listing
from topology.tracing.facts import Bounds, Stated
from topology.tracing.stated_times import StatedTimes

TOPIC_ID = uuid.UUID(int=1)
OFFSET = 10
EPOCH = 5


def times(offset: int = OFFSET, leader_epoch: int | None = EPOCH) -> StatedTimes:
    return StatedTimes(TopicPartition("orders", 0), offset, TOPIC_ID, leader_epoch)


def entry(position: int, end: int, sampled_ms: int, **changes: Any) -> Entry:
    found = Entry(
        topic="orders",
        topic_id=TOPIC_ID,
        partition=0,
        generation=1,
        position=position,
        session=0,
        epoch=EPOCH,
        sampled_ms=sampled_ms,
        end=end,
        complete_through_ms=None,
        proved_through_ms=None,
        gaps=0,
        hold=NO_HOLD,
    )
    return found._replace(**changes)


def said(number: int, written_ms: int, *entries: Entry, worker: str = "w1") -> Statement:
    """A round of a worker; the first is a vector. Its session was asked 5 ms before."""
    return Statement(
        is_vector=number == 1,
        worker_id=worker,
        run=1,
        round=number,
        part=0,
        parts=1,
        written_ms=written_ms,
        sessions=(SourceSession(1, written_ms - 5),),
        entries=entries,
    )


def told(found: StatedTimes, *statements: Statement) -> Stated:
    for each in statements:
        found.apply(each)
    return found.found


def test_rounds_bound_commit_and_copy_also_those_that_do_not_name_the_partition() -> None:
    found = times()
    began = told(found, said(1, 1_000, entry(10, 10, 990)), said(2, 2_000))
    assert began == Stated(committed=Bounds(1_995, None)), "an idle partition has not moved since"
    told(found, said(3, 3_000, entry(10, 12, 2_990)))
    assert found.found.committed == Bounds(1_995, 3_000)
    assert not found.found.passed.is_known
    told(found, said(4, 4_000, entry(12, 12, 3_990, complete_through_ms=2_990)))
    assert found.found.passed == Bounds(3_000, 4_000)
    assert found.found.worker_id == "w1"
    assert found.is_whole and found.found.complete_from_ms == 4_000


def test_a_copy_is_complete_through_the_commit_once_the_statement_says_so() -> None:
    """Until then strict answers do not count the record."""
    found = times()
    told(
        found,
        said(1, 1_000, entry(10, 10, 990)),
        said(2, 2_000, entry(11, 15, 1_990, complete_through_ms=995)),
    )
    assert found.found.passed == Bounds(1_000, 2_000)
    assert not found.is_whole
    told(found, said(3, 3_000, entry(15, 15, 2_990, complete_through_ms=2_990)))
    assert found.found.complete_from_ms == 3_000
    assert found.found.passed == Bounds(1_000, 2_000), "the first statement counts"


def test_a_copy_is_complete_no_later_than_its_worker_has_listed_the_partitions() -> None:
    found = times()
    done = entry(15, 15, 1_990, complete_through_ms=1_990)
    told(found, said(1, 1_000, entry(10, 10, 990)))
    told(found, *with_listing(said(2, 2_000, done), asked_ms=900))
    assert not found.is_whole
    told(found, *with_listing(said(3, 3_000), asked_ms=2_400))
    assert found.found.complete_from_ms == 3_000


def test_a_sample_of_an_earlier_leader_epoch_does_not_bound_the_commit() -> None:
    """A leader that was cut off still answers that the log ends at 10."""
    old = told(times(), said(1, 9_000, entry(10, 10, 8_990, epoch=EPOCH - 1)))
    assert old.committed == Bounds()
    unknown = told(times(leader_epoch=None), said(1, 9_000, entry(10, 10, 8_990)))
    assert unknown.committed == Bounds()
    later = told(times(), said(1, 9_000, entry(10, 10, 8_990, epoch=EPOCH + 1)))
    assert later.committed == Bounds(8_995)


def test_without_a_vector_nothing_is_known_and_a_lost_round_ends_a_life() -> None:
    assert told(times(), said(7, 7_000, entry(11, 11, 6_990))) == Stated()
    found = times()
    told(found, said(1, 1_000, entry(10, 10, 990)), said(3, 3_000, entry(11, 11, 2_990)))
    assert found.found == Stated(committed=Bounds(995))


def test_another_workers_position_is_no_lower_bound() -> None:
    """A worker that lost the partition, and does not know it, still states the old position."""
    found = times()
    told(
        found,
        said(1, 1_000, entry(10, 10, 990)),
        said(1, 1_900, entry(11, 11, 1_890), worker="w2"),
        said(2, 5_000),
    )
    assert found.found.passed == Bounds(None, 1_900)
    assert found.found.worker_id == "w2"


def test_a_partition_without_a_session_may_belong_to_another_worker() -> None:
    found = times()
    told(
        found,
        said(1, 1_000, entry(10, 10, 990)),
        said(2, 2_000, entry(10, 10, 990, session=None)),
        said(3, 9_000),
        said(4, 9_500, entry(11, 11, 9_490)),
    )
    assert found.found.passed == Bounds(1_000, 9_500)


def test_a_copy_that_started_over_counts_anew() -> None:
    found = times()
    told(
        found,
        said(1, 1_000, entry(10, 10, 990)),
        said(2, 2_000, entry(11, 20, 1_990)),
        said(3, 3_000, entry(4, 20, 2_990, generation=2)),
        said(4, 4_000, entry(20, 20, 3_990, generation=2)),
    )
    assert found.found.passed == Bounds(3_000, 4_000)
    assert found.found.committed == Bounds(995, 2_000), "the source did not start over"


def test_another_topic_of_the_name_and_other_partitions_do_not_count() -> None:
    other_topic = entry(99, 99, 990, topic_id=uuid.UUID(int=2))
    other_partition = entry(99, 99, 990, partition=1)
    assert told(times(), said(1, 1_000, other_topic, other_partition)) == Stated()


def test_a_clock_that_is_behind_gives_no_bounds_that_cross() -> None:
    found = times()
    told(
        found,
        said(1, 5_000, entry(10, 10, 4_990)),
        said(1, 3_000, entry(11, 11, 2_990), worker="behind"),
    )
    assert found.found.committed == Bounds(None, 3_000)
    assert Bounds(5, None).no_later_than(3) == Bounds(None, 3)
    assert Bounds(None, 3).no_earlier_than(2).no_earlier_than(1) == Bounds(2, 3)
