"""The published bytes of the offset-map topic, and what a reader makes of them."""

from __future__ import annotations

import uuid
from dataclasses import replace

import pytest

from mirror_maker.formats import (
    Block,
    FlowKey,
    MapFormatError,
    MapTopic,
    Opening,
    Registration,
    Run,
    Terms,
    Translation,
    TranslationState,
    decode_record,
    encode_record,
    map_topic_name,
)
from mirror_maker.formats.controls import Controls, PausedPart
from mirror_maker.formats.marks import LedCopy, MirroredCommit
from mirror_maker.formats.records import MapRecord, encode_key

FLOW = FlowKey("flights", 3, uuid.UUID(int=0x11), uuid.UUID(int=0x22))
REGISTRATION = Registration(
    producer_id=4000,
    producer_epoch=0,
    link="jfk-nyc",
    source_cluster_id="S",
    target_cluster_id="T",
    registered_at_ms=1_700_000_000_000,
    worker_id="w",
)
OPENING = Opening(
    flow=FLOW,
    producer_id=4000,
    producer_epoch=1,
    nonce=5,
    target_topic="jfk.flights",
    source_offset=10,
    target_offset=0,
    opened_at_ms=1_700_000_000_000,
    worker_id="w",
)
BLOCK = Block(
    flow=FLOW,
    producer_id=4000,
    producer_epoch=1,
    nonce=6,
    target_topic="jfk.flights",
    source_start=10,
    target_start=0,
    source_next=500,
    next_sequence=301,
    runs=(Run(10, 0, 1), Run(12, 1, 300)),
)
TERMS = Terms(nonce=7, terms=(("origin", "local"),))
CONTROLS = Controls(
    paused=frozenset({PausedPart(), PausedPart("t"), PausedPart("t", 3)}), source_bytes_per_second=9
)
COMMIT = MirroredCommit(group_id="g", topic="t", partition=3, before=None, wanted=300)
LED_COPY = LedCopy(
    topic="t",
    target_topic_id=uuid.UUID(int=0x22),
    source_topic="s",
    source_topic_id=uuid.UUID(int=0x11),
    is_made=True,
)
FLOW_HEX = "07666c69676874730000000300000000000000000000000000000011" + (
    "00000000000000000000000000000022"
)


@pytest.mark.parametrize(
    ("record", "key", "value"),
    [
        (
            REGISTRATION,
            "01010000000000000fa0",
            "01076a666b2d6e7963015301540000" + "0000018bcfe56800" + "0177",
        ),
        (
            CONTROLS,
            "0105",
            "01" + "0000000000000009" + "ff" * 8 + "03"
            + "0174ffffffff" + "017400000003" + "00ffffffff",
        ),
        (TERMS, "01040000000000000007", "0101066f726967696e056c6f63616c"),
        (COMMIT, "01060167017400000003", "01" + "ff" * 8 + "000000000000012c"),
        (
            LED_COPY,
            "01070174",
            "01" + "00" * 15 + "22" + "0173" + "00" * 15 + "11" + "01",
        ),
        (
            OPENING,
            "0102" + FLOW_HEX + "0000000000000fa0" + "0001" + "0000000000000005",
            "010b6a666b2e666c6967687473"
            + "000000000000000a" + "0000000000000000" + "0000018bcfe56800" + "0177",
        ),
        (
            BLOCK,
            "0103" + FLOW_HEX + "0000000000000fa0" + "0001"
            + "000000000000000a" + "0000000000000006",
            "010b6a666b2e666c6967687473"
            + "0000000000000000" + "ea03" + "0000012d" + "02" + "000001" + "0100ac02",
        ),
    ],
    ids=["registration", "controls", "terms", "commit", "led copy", "opening", "block"],
)  # fmt: skip
def test_golden_bytes(record: MapRecord, key: str, value: str) -> None:
    assert [part.hex() for part in encode_record(record)] == [key, value]
    assert decode_record(bytes.fromhex(key), bytes.fromhex(value)) == record


@pytest.mark.parametrize(
    "record",
    [REGISTRATION, CONTROLS, TERMS, COMMIT, LED_COPY, OPENING, BLOCK],
    ids=lambda r: type(r).__name__,
)
def test_every_cut_and_every_addition_is_refused(record: MapRecord) -> None:
    key, value = encode_record(record)
    for size in range(len(key)):
        with pytest.raises(MapFormatError):
            decode_record(key[:size], value)
    for size in range(len(value)):
        with pytest.raises(MapFormatError):
            decode_record(key, value[:size])
    with pytest.raises(MapFormatError):
        decode_record(key, value + b"\0")


def test_the_last_mark_of_a_link_holds_until_it_is_deleted() -> None:
    topic = MapTopic()
    for record in (COMMIT, LED_COPY, replace(COMMIT, before=300, wanted=400)):
        topic.replay(*encode_record(record))
    found = topic.mirrored_commit("g", "t", 3)
    assert found is not None
    assert [found.explains(offset) for offset in (299, 300, 400, 401)] == [False, True, True, False]
    assert not COMMIT.explains(-1)
    assert topic.mirrored_commit("g", "t", 2) is None
    assert topic.led_copy("t") == LED_COPY
    assert (list(topic.mirrored_commits()), list(topic.led_copies())) == ([found], [LED_COPY])
    for record in (COMMIT, LED_COPY):
        topic.replay(encode_key(record), None)
    assert topic.mirrored_commit("g", "t", 3) is None
    assert topic.led_copy("t") is None


def test_a_newer_version_is_refused() -> None:
    key, value = encode_record(BLOCK)
    with pytest.raises(MapFormatError, match="version 2"):
        decode_record(key, b"\2" + value[1:])
    with pytest.raises(MapFormatError, match="version 2"):
        decode_record(b"\2" + key[1:], value)


def test_a_block_whose_runs_pass_its_end_is_refused() -> None:
    with pytest.raises(MapFormatError, match="runs end"):
        decode_record(*encode_record(replace(BLOCK, source_next=311)))


def test_topic_name_is_internal_for_mirror_maker_2() -> None:
    assert map_topic_name("jfk-nyc") == "heliograph-offset-map.jfk-nyc.internal"


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


def test_a_copy_that_was_made_anew_is_another_flow() -> None:
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
def test_a_generation_that_copies_everything_again_begins_the_map_again(
    source_offset: int, has_older_copies: bool
) -> None:
    """What others had copied before is still there, unless it begins before them."""
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
