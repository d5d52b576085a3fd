"""Listings of a source: their bytes, what earlier versions make of them, and what they prove."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror_maker.formats import MapFormatError
from mirror_maker.formats.completeness.cut import CutReader, CutRefusal
from mirror_maker.formats.completeness.listed_partitions import AGE_MS_MAX, ListedPartitions
from mirror_maker.formats.completeness.listing import (
    PARTITIONS_MAX,
    TOPICS_PER_RECORD_MAX,
    ListedTopic,
    Listing,
    listed_ms,
    listing_part,
    listing_statements,
)
from mirror_maker.formats.completeness.replayed_topic import CompletenessTopic
from mirror_maker.formats.completeness.runs import continued
from mirror_maker.formats.completeness.statement import (
    NO_HOLD,
    Entry,
    SourceSession,
    Statement,
    decode_statement,
    encode_statement,
)
from tests.support.listed_statements import with_listing

ID, OTHER_ID = uuid.UUID(int=5), uuid.UUID(int=6)
NOW_MS = 1_700_000_000_000


def topic(count: int, added_from: int | None = None, absent_ms: int | None = None) -> ListedTopic:
    return ListedTopic("t", ID, count, count if added_from is None else added_from, absent_ms)


def entry(partition: int, through_ms: int, **changed: Any) -> Entry:
    found = Entry(
        *("t", ID, partition, 0, 9, 0, 1, through_ms, 9, through_ms, through_ms, 0, NO_HOLD)
    )
    return found._replace(**changed)


def vector(
    *entries: Entry, asked_ms: int, worker: str = "w", number: int = 1, run: int = 1
) -> Statement:
    return Statement(
        *(True, worker, run, number, 0, 1, asked_ms + 5),
        sessions=(SourceSession(4, asked_ms),),
        entries=entries,
    )


def replayed(*statements: Statement) -> CompletenessTopic:
    found = CompletenessTopic()
    for each in statements:
        found.replay(None, encode_statement(each))
    return found


def through(found: CompletenessTopic) -> list[int | None]:
    return [each.complete_through_ms for each in found.partitions()]


@given(
    st.lists(st.tuples(st.integers(1, 99), st.none() | st.integers(0, NOW_MS)), max_size=5),
    st.integers(0, 2**64 - 1),
)
def test_a_listing_survives_its_bytes(found: list[tuple[int, int | None]], run: int) -> None:
    topics = tuple(
        ListedTopic(f"t{index}", ID, count, count // 2, absent_ms)
        for index, (count, absent_ms) in enumerate(found)
    )
    (statement,) = listing_statements(
        Listing(NOW_MS, topics), worker_id="w", run=run, round_number=3, written_ms=NOW_MS + 9
    )
    part = listing_part(decode_statement(encode_statement(statement)))
    assert part is not None
    assert (part.worker_id, part.run, part.round, part.topics) == ("w", run, 3, topics)


def test_golden_bytes() -> None:
    """As written by this version: later versions must read it."""
    first, second = with_listing(
        vector(entry(0, NOW_MS), asked_ms=NOW_MS), topic(3, 2, NOW_MS - 70), asked_ms=NOW_MS + 1
    )
    assert [encode_statement(each).hex() for each in (first, second)] == GOLDEN
    assert listed_ms(decode_statement(bytes.fromhex(GOLDEN[1]))) == NOW_MS + 1


def test_versions_without_listings_skip_them() -> None:
    """Such a version replays statements by runs, and takes each session for a fetch session."""
    listing, proved = with_listing(vector(entry(0, NOW_MS), asked_ms=NOW_MS), topic(3))
    assert continued(None, decode_statement(encode_statement(listing))) is None
    assert (listing.worker_id, listing.run) != (proved.worker_id, proved.run)
    run = continued(None, decode_statement(encode_statement(proved)))
    assert run is not None
    run.asked_ms = [each.asked_ms for each in proved.sessions]
    assert run.session_ms(proved.entries[0]) == NOW_MS


def test_nothing_is_complete_beyond_the_listing() -> None:
    late = entry(0, NOW_MS + 400)
    found = replayed(*with_listing(vector(late, asked_ms=NOW_MS + 500), topic(1), asked_ms=NOW_MS))
    (known,) = found.partitions()
    assert (known.complete_through_ms, known.proved_through_ms) == (NOW_MS, NOW_MS)
    assert (known.sampled_ms, known.listed_ms) == (NOW_MS + 500, NOW_MS)


def test_a_listed_partition_that_nobody_states_is_unknown_or_was_absent() -> None:
    stated = vector(entry(0, NOW_MS), asked_ms=NOW_MS)
    assert through(replayed(*with_listing(stated, topic(2)))) == [NOW_MS, None]
    added = topic(3, 1, NOW_MS - 800)
    found = replayed(*with_listing(stated, added))
    assert through(found) == [NOW_MS, NOW_MS - 800, NOW_MS - 800]
    assert [each.is_stated for each in found.partitions()] == [True, False, False]


def test_statements_of_an_older_worker_count_until_the_listing_of_another_one() -> None:
    older = vector(entry(0, NOW_MS), asked_ms=NOW_MS, worker="older")
    assert through(replayed(older)) == [None], "nobody has listed anything"
    other = vector(entry(1, NOW_MS), asked_ms=NOW_MS)
    newer = with_listing(other, topic(2), asked_ms=NOW_MS - 300)
    assert through(replayed(older, *newer)) == [NOW_MS - 300] * 2


def test_a_vector_whose_listing_was_not_read_proves_nothing() -> None:
    _, proved = with_listing(vector(entry(0, NOW_MS), asked_ms=NOW_MS), topic(1))
    assert through(replayed(proved)) == [None]


def test_a_listing_in_parts_counts_when_it_is_whole() -> None:
    topics = [
        ListedTopic(f"t{index:05d}", ID, 1, 1, None) for index in range(TOPICS_PER_RECORD_MAX + 1)
    ]
    first, second, proved = with_listing(vector(asked_ms=NOW_MS), *topics)
    listed = ListedPartitions()
    assert listed.take(first)
    assert listed.prove(proved) is None
    assert listed.take(second)
    assert listed.prove(proved) == NOW_MS + 5
    assert len(listed.topics()) == len(topics)


def test_a_listing_that_arrives_late_takes_nothing_back() -> None:
    """A write whose response was lost may be done after the next one."""
    late = with_listing(vector(asked_ms=NOW_MS, number=1), topic(1))[0]
    listing, proved = with_listing(vector(entry(0, NOW_MS), asked_ms=NOW_MS, number=2), topic(2))
    assert through(replayed(listing, late, proved)) == [NOW_MS, None]


def test_what_several_workers_list_counts_together_until_one_is_silent() -> None:
    def listed(worker: str, asked_ms: int, *topics: ListedTopic) -> list[Statement]:
        return with_listing(vector(asked_ms=asked_ms, worker=worker), *topics, asked_ms=asked_ms)

    gone = ListedTopic("gone", ID, 1, 1, None)
    found = replayed(*listed("a", NOW_MS, topic(3), gone), *listed("b", NOW_MS + 900, topic(2)))
    assert len(found.partitions()) == 4, "b may not have seen yet what a has"
    later_ms = NOW_MS + AGE_MS_MAX + 1
    found = replayed(*listed("a", NOW_MS, topic(3), gone), *listed("b", later_ms, topic(2)))
    assert len(found.partitions()) == 2


def test_a_clock_that_was_far_ahead_hides_nothing_that_others_list_later() -> None:
    ahead = with_listing(
        vector(asked_ms=NOW_MS, worker="a"), topic(1), asked_ms=NOW_MS + 60 * AGE_MS_MAX
    )
    later = with_listing(vector(asked_ms=NOW_MS + 900, worker="b"), topic(2))
    assert len(replayed(*ahead, *later).partitions()) == 2


def test_a_topic_that_was_deleted_and_re_created_is_unknown_until_it_is_stated() -> None:
    old = with_listing(vector(entry(0, NOW_MS), asked_ms=NOW_MS), topic(1))
    new = ListedTopic("t", OTHER_ID, 1, 1, None)
    listing = with_listing(vector(asked_ms=NOW_MS + 900, number=2), new)
    assert through(replayed(*old, *listing)) == [None]
    stated = entry(0, NOW_MS + 1_500, topic_id=OTHER_ID)
    last = with_listing(vector(stated, asked_ms=NOW_MS + 1_500, number=3), new)
    assert through(replayed(*old, *listing, *last)) == [NOW_MS + 1_500]


def test_a_cut_needs_a_listing_at_or_after_its_time() -> None:
    statements = [
        *with_listing(vector(entry(0, NOW_MS), asked_ms=NOW_MS), topic(1), asked_ms=NOW_MS - 100),
        *with_listing(
            vector(entry(0, NOW_MS + 900), asked_ms=NOW_MS + 900, number=2),
            topic(3, 1, NOW_MS + 400),
            asked_ms=NOW_MS + 500,
        ),
    ]

    def cut(as_of_ms: int) -> list[object]:
        reader = CutReader(as_of_ms)
        for each in statements:
            reader.replay(encode_statement(each))
        return [
            each.refusal or (each.sample and each.sample.end) for each in reader.cuts().values()
        ]

    assert cut(NOW_MS + 300) == [9, 0, 0], "the others did not exist yet"
    assert cut(NOW_MS + 450) == [9, CutRefusal.NO_SAMPLE, CutRefusal.NO_SAMPLE]
    assert cut(NOW_MS + 600)[0] is CutRefusal.NOT_LISTED


def test_damaged_counts_are_refused() -> None:
    listing = with_listing(vector(asked_ms=NOW_MS), topic(PARTITIONS_MAX + 1))[0]
    with pytest.raises(MapFormatError, match="partitions"):
        listing_part(listing)


GOLDEN = [
    (
        "0100017780000000000000010100010000018bcfe56805018180808008090101740000000000000000000000"
        "0000000005010300020000009701000000"
    ),
    (
        "0101017700000000000000010100010000018bcfe5680502040b808080800809010174000000000000000000"
        "000000000000050100000901020b090b0b0000"
    ),
]
