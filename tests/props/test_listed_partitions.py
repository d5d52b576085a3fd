"""Several workers share the partitions of a topic that grows: no time is claimed too early.

Each partition has records at every moment since it exists. So a time is complete if and only if the
owner of each partition that existed before has copied it to that time.
"""

from __future__ import annotations

import uuid
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from local_cluster.client.model import PartitionMetadata, TopicMetadata, TopicPartition
from local_cluster.wire.errors import ErrorCode
from mirror_maker.clusters.source_listing import SourceListing
from mirror_maker.completeness.statements import Statements
from mirror_maker.formats.completeness.listed_partitions import ListedPartitions
from mirror_maker.formats.completeness.replayed_topic import CompletenessTopic
from mirror_maker.formats.completeness.statement import NO_HOLD, Entry, encode_statement

START_MS = 1_700_000_000_000
TOPIC_ID = uuid.UUID(int=1)
WORKERS = 3

workers = st.integers(0, WORKERS - 1)
events = st.one_of(
    st.tuples(st.just("wait"), st.integers(1, 2_000)),
    st.tuples(st.just("add"), st.just(0)),
    st.tuples(st.sampled_from(["ask", "hear", "state", "state", "lose", "restart"]), workers),
)


class Worker:
    """What one worker knows; it owns every third partition of those that it has listed."""

    def __init__(self, index: int, run: int) -> None:
        self.index = index
        self.listing = SourceListing()
        self.statements = Statements(f"w{index}", run)
        self.asked: tuple[int, int] | None = None
        """When its pending request was written, and how many partitions the response names."""


class Link:
    """A source, its workers, and a reader of what they state."""

    def __init__(self) -> None:
        self.now_ms = START_MS
        self.created_ms = [START_MS]
        self.copied_ms: dict[int, int] = {}
        self.workers = [Worker(index, index) for index in range(WORKERS)]
        self.runs = WORKERS
        self.topic = CompletenessTopic()
        self.claims_count = 0

    def play(self, what: str, number: int) -> None:
        if what == "wait":
            self.now_ms += number
            return
        self.now_ms += 1
        if what == "add":
            self.created_ms.append(self.now_ms)
            return
        worker = self.workers[number]
        match what:
            case "ask":
                worker.asked = self.now_ms, len(self.created_ms)
            case "hear" if worker.asked is not None:
                asked_ms, count = worker.asked
                worker.listing.note({"t": described(count)}, asked_ms)
            case "restart":
                self.workers[number] = Worker(number, self.runs)
                self.runs += 1
            case "state" | "lose":
                self.state(worker, is_lost=what == "lose")

    def state(self, worker: Worker, *, is_lost: bool) -> None:
        newest = worker.listing.newest
        count = 0 if newest is None else newest.topics[0].partitions_count
        owned = [index for index in range(count) if index % WORKERS == worker.index]
        changed = {TopicPartition("t", index): entry(index, self.now_ms) for index in owned}
        records = worker.statements.next_round(changed, newest, self.now_ms, self.now_ms)
        self.copied_ms.update(dict.fromkeys(owned, self.now_ms))
        if is_lost:
            worker.statements.failed()
            return
        for each in records:
            self.topic.replay(None, encode_statement(each))
            self.check()

    def check(self) -> None:
        times = [each.complete_through_ms for each in self.topic.partitions()]
        known = [time_ms for time_ms in times if time_ms is not None]
        if not known or len(known) < len(times):
            return
        for index, created_ms in enumerate(self.created_ms):
            if created_ms < min(known):
                assert self.copied_ms.get(index, 0) >= min(known), f"partition {index}"
        self.claims_count += 1


def described(count: int) -> TopicMetadata:
    partitions = {
        index: PartitionMetadata(index, 0, 0, (), (), ErrorCode.none) for index in range(count)
    }
    return TopicMetadata("t", TOPIC_ID, ErrorCode.none, False, partitions)


def entry(partition: int, now_ms: int) -> Entry:
    return Entry(
        *("t", TOPIC_ID, partition, 0, now_ms, None, 1),
        *(now_ms, now_ms, now_ms, now_ms, 0, NO_HOLD),
    )


@settings(max_examples=300)
@given(st.lists(events, max_size=60))
def test_no_time_is_claimed_before_all_that_existed_is_copied(
    played: list[tuple[str, int]],
) -> None:
    link = Link()
    for what, number in played:
        link.play(what, number)


ADDED_BETWEEN_LISTINGS = [
    *(("ask", 0), ("hear", 0), ("state", 0), ("add", 0), ("wait", 100), ("state", 0)),
]


def test_a_time_is_claimed_while_nothing_is_added() -> None:
    link = Link()
    for what, number in ADDED_BETWEEN_LISTINGS:
        link.play(what, number)
    assert link.claims_count > 0


def test_a_reader_that_counts_known_partitions_only_is_found_out() -> None:
    link = Link()
    with patch.object(
        ListedPartitions, "prove", lambda listed, statement: setattr(listed, "newest_ms", 1 << 60)
    ):
        for what, number in ADDED_BETWEEN_LISTINGS[:-1]:
            link.play(what, number)
        with pytest.raises(AssertionError, match="partition 1"):
            link.play(*ADDED_BETWEEN_LISTINGS[-1])
