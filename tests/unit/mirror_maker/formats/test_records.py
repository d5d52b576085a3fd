"""The published bytes of the offset-map topic's records."""

from __future__ import annotations

import uuid
from dataclasses import replace

import pytest

from mirror_maker.formats import (
    Block,
    FlowKey,
    MapFormatError,
    Opening,
    Registration,
    Run,
    Terms,
    decode_record,
    encode_record,
    map_topic_name,
)
from mirror_maker.formats.controls import Controls, PausedPart
from mirror_maker.formats.marks import MirroredCommit, OwnedCopy
from mirror_maker.formats.records import MapRecord

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
OWNED_COPY = OwnedCopy(
    topic="t",
    target_topic_id=uuid.UUID(int=0x22),
    source_topic="s",
    source_topic_id=uuid.UUID(int=0x11),
    is_created=True,
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
            OWNED_COPY,
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
    [REGISTRATION, CONTROLS, TERMS, COMMIT, OWNED_COPY, OPENING, BLOCK],
    ids=lambda r: type(r).__name__,
)
def test_truncated_and_extended_bytes_are_refused(record: MapRecord) -> None:
    key, value = encode_record(record)
    for size in range(len(key)):
        with pytest.raises(MapFormatError):
            decode_record(key[:size], value)
    for size in range(len(value)):
        with pytest.raises(MapFormatError):
            decode_record(key, value[:size])
    with pytest.raises(MapFormatError):
        decode_record(key, value + b"\0")


@pytest.mark.parametrize(
    "record",
    [
        replace(BLOCK, source_start=2**63 - 1, source_next=2**63 + 5, runs=()),
        replace(BLOCK, target_start=2**63 - 1, runs=(Run(10, 2**63 - 1, 5),)),
        replace(BLOCK, source_start=-5, source_next=20, runs=()),
        replace(BLOCK, target_start=-1, runs=()),
        replace(OPENING, source_offset=-1),
        replace(OPENING, target_offset=-1),
        replace(OPENING, flow=FLOW._replace(partition=-1)),
        replace(COMMIT, wanted=-1),
        replace(CONTROLS, paused=frozenset({PausedPart(None, 3)})),
    ],
    ids=str,
)
def test_a_record_that_contradicts_itself_is_refused(record: MapRecord) -> None:
    with pytest.raises(MapFormatError):
        decode_record(*encode_record(record))


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
