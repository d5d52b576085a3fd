"""Readers know after each round exactly what the worker knew, whatever was lost between."""

from __future__ import annotations

import uuid

from hypothesis import given
from hypothesis import strategies as st

from local_cluster.client.model import TopicPartition
from mirror_maker.completeness.statements import VECTOR_MS, Statements
from mirror_maker.formats.completeness.listing import ListedTopic, Listing
from mirror_maker.formats.completeness.replayed_topic import CompletenessTopic
from mirror_maker.formats.completeness.statement import NO_HOLD, Entry
from mirror_maker.metrics.lag import LastAnswer

NOW_MS = 1_700_000_000_000
TOPIC_ID = uuid.UUID(int=1)
TOPICS = [ListedTopic("t", TOPIC_ID, 1, 1, None)]


def entry(at: TopicPartition, end: int, sampled_ms: int, session: int | None) -> Entry:
    return Entry(
        *(at.topic, TOPIC_ID, at.partition, 0, end, session, 2),
        *(sampled_ms, end, sampled_ms, None, 0, NO_HOLD),
    )


@given(
    st.lists(
        st.tuples(
            st.dictionaries(st.integers(0, 3), st.integers(0, 50), max_size=4), st.booleans()
        ),
        min_size=1,
        max_size=12,
    )
)
def test_a_reader_knows_what_was_stated(rounds: list[tuple[dict[int, int], bool]]) -> None:
    """A round is changes by partition, and whether its write fails."""
    statements, topic = Statements("w", 1), CompletenessTopic()
    session = LastAnswer(1)
    index = statements.session_index(session)
    ends: dict[int, int] = {}
    for number, (steps, has_failed) in enumerate(rounds):
        now_ms = NOW_MS + 1_000 * number
        session.asked_ms = now_ms
        changed = {}
        for partition, step in steps.items():
            ends[partition] = ends.get(partition, 0) + step
            at = TopicPartition("t", partition)
            changed[at] = entry(at, ends[partition], now_ms, index)
        records = statements.next_round(changed, Listing(now_ms, TOPICS), now_ms, now_ms)
        if has_failed:
            statements.failed()
            continue
        for record in records:
            topic.apply(record)
        stated = [each for each in topic.partitions() if each.is_stated]
        assert {each.partition: each.end for each in stated} == ends
        assert {each.complete_through_ms for each in stated} <= {now_ms}


def test_rounds_have_what_changed_and_vectors_everything() -> None:
    statements = Statements("w", 1)
    one, two = TopicPartition("t", 0), TopicPartition("t", 1)
    first = statements.next_round(
        {one: entry(one, 1, 0, None), two: entry(two, 1, 0, None)}, None, 0, 0
    )
    assert [each.is_vector for each in first] == [True]
    same = statements.next_round({one: entry(one, 1, 0, None)}, None, 0, 1_000)
    assert [(each.is_vector, each.entries) for each in same] == [(False, ())]
    news = statements.next_round({one: entry(one, 2, 0, None)}, None, 0, 2_000)
    assert [len(each.entries) for each in news] == [1]
    statements.forget(two)
    later = statements.next_round({}, None, 0, VECTOR_MS)
    assert [(each.is_vector, len(each.entries)) for each in later] == [(True, 1)]
