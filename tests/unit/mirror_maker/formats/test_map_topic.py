"""A replayed map topic: the records that hold, and the resulting map."""

from __future__ import annotations

import uuid
from dataclasses import replace

import pytest

from mirror_maker.formats import (
    MapFormatError,
    MapTopic,
    Run,
    Terms,
    Translation,
    TranslationState,
    decode_record,
    encode_record,
)
from mirror_maker.formats.records import MapRecord, encode_key
from tests.unit.mirror_maker.formats.test_records import (
    BLOCK,
    COMMIT,
    FLOW,
    OPENING,
    OWNED_COPY,
    REGISTRATION,
    TERMS,
)


def topic_of(*records: MapRecord) -> MapTopic:
    topic = MapTopic()
    for record in records:
        topic.replay(*encode_record(record))
    return topic


def test_the_first_registration_holds() -> None:
    later = replace(REGISTRATION, producer_id=4001)
    assert topic_of(REGISTRATION, later, REGISTRATION).registration == REGISTRATION
    assert topic_of(later, REGISTRATION).registration == later
    assert topic_of().registration is None


def test_the_first_opening_of_the_highest_epoch_holds() -> None:
    rival = replace(OPENING, nonce=9, source_offset=77)
    raised = replace(OPENING, producer_epoch=2, source_offset=90, target_offset=80)
    assert topic_of(OPENING, rival).opening(FLOW) == OPENING
    assert topic_of(rival, OPENING, rival).opening(FLOW) == rival
    assert topic_of(OPENING, raised, rival).opening(FLOW) == raised


def test_blocks_may_overlap_in_any_order() -> None:
    shorter = replace(BLOCK, nonce=1, source_next=20, next_sequence=9, runs=(
        Run(10, 0, 1), Run(12, 1, 8)))  # fmt: skip
    further = replace(
        BLOCK,
        nonce=2,
        source_start=20,
        target_start=9,
        source_next=700,
        runs=(Run(20, 9, 292), Run(600, 301, 50)),
    )
    for blocks in ((BLOCK, shorter, further), (further, shorter, BLOCK)):
        offset_map = topic_of(OPENING, *blocks).offset_map(FLOW)
        assert offset_map is not None
        assert list(offset_map.runs()) == [
            Run(10, 0, 1),
            Run(12, 1, 300),
            Run(600, 301, 50),
        ]
        assert offset_map.source_next == 700


def test_the_last_block_is_the_one_that_reaches_furthest() -> None:
    shorter = replace(BLOCK, nonce=1, source_next=312)
    other_epoch = replace(BLOCK, producer_epoch=2, source_next=900)
    topic = topic_of(OPENING, BLOCK, shorter, other_epoch)
    assert topic.last_block(FLOW, 1) == BLOCK
    assert topic.last_block(FLOW, 2) == other_epoch
    assert topic.last_block(FLOW, 3) is None


def test_a_lost_block_leaves_a_hole_with_a_safe_place() -> None:
    later = replace(
        BLOCK, nonce=2, source_start=600, target_start=400, source_next=700, runs=(
            Run(605, 402, 10),))  # fmt: skip
    offset_map = topic_of(OPENING, BLOCK, later).offset_map(FLOW)
    assert offset_map is not None
    assert offset_map.translate(500).target_offset == 301
    assert offset_map.translate(501) == (TranslationState.INEXACT, 301)
    assert offset_map.translate(599) == (TranslationState.INEXACT, 301)
    assert list(offset_map.holes()) == [(500, 600)]
    assert offset_map.translate(600).target_offset == 400
    assert offset_map.translate(606).target_offset == 403


def test_a_trimmed_beginning_leaves_its_offsets_pending() -> None:
    offset_map = topic_of(OPENING, BLOCK).offset_map(FLOW)
    assert offset_map is not None
    later = replace(
        BLOCK, source_start=600, target_start=400, source_next=700, runs=(Run(605, 402, 10),)
    )
    offset_map = topic_of(OPENING, later).offset_map(FLOW)
    assert offset_map is not None
    assert offset_map.translate(599).state is TranslationState.PENDING
    assert offset_map.translate(600).target_offset == 400
    assert list(offset_map.holes()) == []


def test_a_tombstone_takes_a_block_away() -> None:
    topic = topic_of(OPENING, BLOCK)
    topic.replay(encode_key(BLOCK), None)
    offset_map = topic.offset_map(FLOW)
    assert offset_map is not None
    assert list(offset_map.runs()) == []
    assert topic.last_block(FLOW, 1) is None


def test_a_re_created_copy_is_another_flow() -> None:
    anew = replace(OPENING, flow=FLOW._replace(target_topic_id=uuid.UUID(int=0x33)))
    topic = topic_of(OPENING, BLOCK, anew)
    assert topic.latest_flow("flights", 3) == anew.flow
    assert topic.latest_flow("flights", 3, FLOW.target_topic_id) == FLOW
    assert topic.latest_flow("flights", 3, uuid.UUID(int=0x44)) is None
    assert list(topic.flows()) == [anew.flow]
    assert topic.target_topic(FLOW) == "jfk.flights"


def test_blocks_that_contradict_each_other_are_refused() -> None:
    liar = replace(
        BLOCK, nonce=7, source_start=20, target_start=0, source_next=600, runs=(Run(505, 3, 5),)
    )
    with pytest.raises(MapFormatError, match="contradicts"):
        topic_of(OPENING, BLOCK, liar).offset_map(FLOW)


def test_a_record_without_a_key_is_refused() -> None:
    with pytest.raises(MapFormatError):
        MapTopic().replay(None, b"\1")


def test_the_first_terms_hold() -> None:
    topic = MapTopic()
    assert topic.terms is None
    for terms in (TERMS, Terms(nonce=8, terms=())):
        topic.replay(*encode_record(terms))
    assert topic.terms == {"origin": "local"}


def test_an_opening_behind_older_copies() -> None:
    taken_over = replace(OPENING, has_older_copies=True)
    key, value = encode_record(taken_over)
    assert value == encode_record(OPENING)[1] + b"\1"
    assert decode_record(key, value) == taken_over
    topic = MapTopic()
    topic.replay(key, value)
    offset_map = topic.offset_map(OPENING.flow)
    assert offset_map is not None
    before = offset_map.translate(OPENING.source_offset - 1)
    assert before == Translation(TranslationState.INEXACT, None)
    assert offset_map.translate(OPENING.source_offset).target_offset == OPENING.target_offset


@pytest.mark.parametrize(
    ("source_offset", "has_older_copies"), [(10, True), (4, False)], ids=["recopy", "fresh"]
)
def test_a_generation_that_copies_everything_again_starts_the_map_over(
    source_offset: int, has_older_copies: bool
) -> None:
    """Copies by others before it remain, unless the generation begins before them."""
    topic = MapTopic()
    again = replace(
        OPENING, producer_epoch=2, nonce=8, source_offset=source_offset, target_offset=301
    )
    for record in (replace(OPENING, has_older_copies=True), BLOCK, again):
        topic.replay(*encode_record(record))
    offset_map = topic.offset_map(FLOW)
    assert offset_map is not None
    assert list(offset_map.runs()) == []
    assert (offset_map.source_start, offset_map.target_start) == (source_offset, 301)
    assert offset_map.translate(source_offset) == Translation(TranslationState.EXACT, 301)
    assert offset_map.has_older_copies is has_older_copies
    assert topic.opening_after(FLOW, 1) == again
    assert topic.opening_after(FLOW, 2) is None


def test_a_generation_that_copies_a_part_again_leaves_what_is_before_it() -> None:
    topic = MapTopic()
    again = replace(OPENING, producer_epoch=2, nonce=8, source_offset=20, target_offset=400)
    for record in (OPENING, BLOCK, again):
        topic.replay(*encode_record(record))
    offset_map = topic.offset_map(FLOW)
    assert offset_map is not None
    assert list(offset_map.runs()) == [Run(10, 0, 1), Run(12, 1, 8)]
    assert offset_map.source_next == 20


def test_the_last_mark_of_a_link_holds_until_it_is_deleted() -> None:
    topic = MapTopic()
    for record in (COMMIT, OWNED_COPY, replace(COMMIT, before=300, wanted=400)):
        topic.replay(*encode_record(record))
    found = topic.mirrored_commit("g", "t", 3)
    assert found is not None
    assert [found.explains(offset) for offset in (299, 300, 400, 401)] == [False, True, True, False]
    assert not COMMIT.explains(-1)
    assert topic.mirrored_commit("g", "t", 2) is None
    assert topic.owned_copy("t") == OWNED_COPY
    assert (list(topic.mirrored_commits()), list(topic.owned_copies())) == ([found], [OWNED_COPY])
    for record in (COMMIT, OWNED_COPY):
        topic.replay(encode_key(record), None)
    assert topic.mirrored_commit("g", "t", 3) is None
    assert topic.owned_copy("t") is None


def test_a_late_opening_of_a_former_topic_does_not_count() -> None:
    recreated = replace(OPENING, flow=FLOW._replace(source_topic_id=uuid.UUID(int=77)), nonce=3)
    topic = topic_of(recreated, OPENING)
    assert topic.latest_flow(FLOW.source_topic, FLOW.partition) == recreated.flow
    assert list(topic.flows()) == [recreated.flow]
    assert topic.latest_flow(*FLOW[:2], FLOW.target_topic_id) == recreated.flow
    assert topic.opening(FLOW) is None


def test_a_recreated_topic_is_opened_at_a_higher_epoch() -> None:
    recreated = replace(
        OPENING,
        flow=FLOW._replace(source_topic_id=uuid.UUID(int=77)),
        producer_epoch=OPENING.producer_epoch + 1,
    )
    topic = topic_of(OPENING, recreated)
    assert topic.latest_flow(*FLOW[:2], FLOW.target_topic_id) == recreated.flow
    assert topic.opening(FLOW) == OPENING


def test_an_opening_into_another_target_counts_at_any_epoch() -> None:
    elsewhere = replace(OPENING, flow=FLOW._replace(target_topic_id=uuid.UUID(int=78)))
    topic = topic_of(OPENING, elsewhere)
    assert topic.latest_flow(*FLOW[:2]) == elsewhere.flow
    assert topic.latest_flow(*FLOW[:2], FLOW.target_topic_id) == FLOW
