"""The format of completeness topics, and what readers make of their records."""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror_maker.formats import MapFormatError
from mirror_maker.formats.completeness.replayed_topic import (
    PartitionCompleteness,
)
from mirror_maker.formats.completeness.statement import (
    NO_HOLD,
    Entry,
    Hold,
    HoldKind,
    SourceSession,
    Statement,
    completeness_topic_name,
    decode_statement,
    encode_statement,
    split_vector,
)
from tests.support.listed_statements import ProvedTopic, with_listing

TOPIC_ID = uuid.UUID(int=5)
NOW_MS = 1_700_000_000_000


def entry(partition: int = 0, **changed: Any) -> Entry:
    """Return an entry of an idle partition that is complete."""
    found = Entry(
        topic="flights",
        topic_id=TOPIC_ID,
        partition=partition,
        generation=0,
        position=100,
        session=0,
        epoch=3,
        sampled_ms=NOW_MS - 40,
        end=100,
        complete_through_ms=NOW_MS - 40,
        proved_through_ms=NOW_MS - 900,
        gaps=0,
        hold=NO_HOLD,
    )
    return found._replace(**changed)


def statement(
    number: int,
    *entries: Entry,
    is_vector: bool = False,
    asked_ms: int = NOW_MS,
    worker: str = "w",
    written_ms: int | None = None,
) -> Statement:
    return Statement(
        is_vector=is_vector,
        worker_id=worker,
        run=1,
        round=number,
        part=0,
        parts=1,
        written_ms=asked_ms + 5 if written_ms is None else written_ms,
        sessions=(SourceSession(4, asked_ms),),
        entries=entries,
    )


times = st.none() | st.integers(NOW_MS - 10**9, NOW_MS + 10**6)
holds = (
    st.just(NO_HOLD)
    | st.builds(
        lambda producer_id, since_ms: Hold(HoldKind.OPEN_TRANSACTION, producer_id, since_ms),
        st.integers(-1, 2**62),
        times,
    )
    | st.builds(lambda state: Hold(HoldKind.STOPPED, state=state), st.text(max_size=9))
)


@st.composite
def entries(draw: st.DrawFn) -> Entry:
    sampled_ms = draw(times)
    return Entry(
        draw(st.sampled_from(["a", "b.c", "\u00fc"])),
        TOPIC_ID,
        draw(st.integers(0, 2**31 - 1)),
        draw(st.integers(0, 32_767)),
        draw(st.integers(0, 2**62)),
        draw(st.none() | st.just(0)),
        draw(st.integers(-1, 2**31 - 1)),
        sampled_ms,
        None if sampled_ms is None else draw(st.integers(0, 2**62)),
        draw(times),
        draw(times),
        draw(st.integers(0, 99)),
        draw(holds),
    )


@given(st.lists(entries(), max_size=6), st.booleans())
def test_every_statement_survives_its_bytes(found: list[Entry], is_vector: bool) -> None:
    found.sort(key=lambda each: (each.topic, each.partition))
    whole = statement(7, *found, is_vector=is_vector)
    assert decode_statement(encode_statement(whole)) == whole


def test_golden_bytes() -> None:
    """Version 1, as written by this version: readers of later versions must know it."""
    value = encode_statement(
        statement(2, entry(), entry(1, hold=Hold(HoldKind.OPEN_TRANSACTION, 9, NOW_MS)))
    )
    assert value.hex() == GOLDEN
    with pytest.raises(MapFormatError, match="version 2"):
        decode_statement(b"\x02" + value[1:])
    with pytest.raises(MapFormatError):
        decode_statement(value[:-1])


def test_ten_thousand_idle_partitions_cost_one_small_record() -> None:
    vector = statement(1, *(entry(index) for index in range(10_000)), is_vector=True)
    topic = ProvedTopic()
    sizes = []
    for part in split_vector(vector):
        value = encode_statement(part)
        sizes.append(len(value))
        topic.replay(None, value)
    assert max(sizes) < 512 * 1024
    (proved,) = with_listing(statement(2, asked_ms=NOW_MS + 60_000))
    later = encode_statement(proved)
    assert len(later) < 60
    topic.replay(None, later)
    found = topic.partitions()
    assert len(found) == 10_000
    assert {each.complete_through_ms for each in found} == {NOW_MS + 60_000}


def test_mirror_maker_2_takes_the_topic_for_an_internal_one() -> None:
    assert completeness_topic_name("jfk-nyc").endswith(".internal")


# -- readers ----------------------------------------------------------------------------------


def known(*statements: Statement) -> PartitionCompleteness | None:
    topic = ProvedTopic()
    for each in statements:
        topic.apply(each)
    return topic.partition("flights", 0)


def through_ms(*statements: Statement) -> int | None:
    found = known(*statements)
    return None if found is None else found.complete_through_ms


def test_changes_without_a_vector_say_nothing() -> None:
    assert known(statement(4, entry())) is None


def test_a_lost_round_stops_the_time_until_the_next_vector() -> None:
    first = statement(1, entry(), is_vector=True)
    after = statement(3, asked_ms=NOW_MS + 5_000)
    assert through_ms(first, after) == NOW_MS
    again = statement(4, entry(), is_vector=True, asked_ms=NOW_MS + 6_000)
    assert through_ms(first, after, again) == NOW_MS + 6_000


def test_a_new_vector_does_not_take_back_what_sessions_have_proved() -> None:
    first = statement(1, entry(), is_vector=True)
    second = statement(2, asked_ms=NOW_MS + 5_000)
    part = statement(3, is_vector=True, asked_ms=NOW_MS + 6_000)._replace(parts=2)
    assert through_ms(first, second, part) == NOW_MS + 5_000


def test_a_copy_that_is_behind_does_not_advance_with_its_session() -> None:
    behind = entry(position=99, complete_through_ms=NOW_MS - 700)
    first = statement(1, behind, is_vector=True)
    assert through_ms(first, statement(2, asked_ms=NOW_MS + 9_000)) == NOW_MS - 700
    found = known(first, statement(2, asked_ms=NOW_MS + 9_000))
    assert found is not None and found.sampled_ms == NOW_MS + 9_000


def test_a_later_epoch_keeps_what_is_proved() -> None:
    first = statement(1, entry(), is_vector=True)
    later = entry(
        epoch=4, end=120, sampled_ms=NOW_MS + 70, complete_through_ms=None, proved_through_ms=None
    )
    assert through_ms(first, statement(2, later, asked_ms=NOW_MS + 80)) == NOW_MS - 900
    same = later._replace(end=100)
    assert through_ms(first, statement(2, same._replace(session=None))) == NOW_MS
    shorter = later._replace(end=90, position=80)
    assert through_ms(first, statement(2, shorter, asked_ms=NOW_MS + 80)) is None


def test_a_worker_that_is_cut_off_with_the_old_leader_changes_nothing() -> None:
    later = entry(
        epoch=4, end=120, sampled_ms=NOW_MS, complete_through_ms=None, proved_through_ms=None
    )
    zombie = statement(1, entry(), is_vector=True, worker="old")
    assert (
        through_ms(
            zombie,
            statement(1, later, is_vector=True),
            replace_round(zombie, 2, NOW_MS + 90_000),
            replace_round(zombie, 3, NOW_MS + 91_000, entry(sampled_ms=NOW_MS + 91_000)),
        )
        == NOW_MS - 900
    )


def replace_round(before: Statement, number: int, asked_ms: int, *found: Entry) -> Statement:
    return before._replace(
        is_vector=False,
        round=number,
        written_ms=asked_ms,
        sessions=(SourceSession(4, asked_ms),),
        entries=found,
    )


def test_a_worker_that_does_not_know_the_epoch_yet_withdraws_nothing() -> None:
    first = statement(1, entry(), is_vector=True)
    starting = entry(
        epoch=-1,
        session=None,
        sampled_ms=None,
        end=None,
        complete_through_ms=None,
        proved_through_ms=None,
    )
    taken = statement(1, starting, is_vector=True, worker="next", written_ms=NOW_MS + 2_000)
    assert through_ms(first, taken) == NOW_MS
    withdrawn = starting._replace(epoch=4)
    taken = statement(1, withdrawn, is_vector=True, worker="next", written_ms=NOW_MS + 9_000)
    assert through_ms(first, taken) == NOW_MS - 900


def test_another_generation_of_the_copy_starts_over() -> None:
    first = statement(1, entry(), is_vector=True)
    again = entry(generation=1, position=3, complete_through_ms=None, proved_through_ms=None)
    assert through_ms(first, statement(2, again, asked_ms=NOW_MS + 1)) is None
    raised = entry(generation=1)
    assert through_ms(first, statement(2, raised, asked_ms=NOW_MS + 1)) == NOW_MS + 1


def test_a_recreated_topic_starts_over() -> None:
    first = statement(1, entry(), is_vector=True)
    anew = entry(topic_id=uuid.UUID(int=6), position=0, end=9, complete_through_ms=None)
    assert through_ms(first, statement(2, anew, asked_ms=NOW_MS + 1)) is None


def test_gaps_and_holds_are_passed_on() -> None:
    held = entry(gaps=2, hold=Hold(HoldKind.STOPPED, state="FAILED"))
    found = known(statement(1, held, is_vector=True))
    assert found is not None
    assert (found.gaps, found.hold.state) == (2, "FAILED")
    assert replace(found, gaps=0).gaps == 0


GOLDEN = (
    "0100017700000000000000010200010000018bcfe5680501040b0107666c69676874730000000000"
    "00000000000000000000050200006401045b645b930e000001006401045b645b930e000100000000"
    "000000090b"
)
