"""MirrorMaker 2's records: golden bytes made by its own Java classes."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror_maker.formats.mm2 import (
    Checkpoint,
    Heartbeat,
    Mm2FormatError,
    OffsetSync,
    checkpoints_topic,
    decode_checkpoint,
    decode_heartbeat,
    decode_offset_sync,
    encode_checkpoint,
    encode_heartbeat,
    encode_offset_sync,
    is_heartbeats_topic,
    offset_syncs_topic,
)

GOLDEN = Path(__file__).parents[3] / "golden" / "mm2_records.txt"
"""Lines "name key value" in hex, written by generate/Mm2Records.java with connect-mirror 4.3.0."""

SYNC = OffsetSync("topic1", 3, 100, 42)
CHECKPOINT = Checkpoint("g1", "A.topic1", 3, 100, 43, "")
CHECKPOINT_WITH_METADATA = Checkpoint("gr\u00fc\u00dfe", "A.t", 0, 2**40, 2**41, "m\u00e9ta")
HEARTBEAT = Heartbeat("A", "B", 1_700_000_000_000)


def golden() -> dict[str, tuple[bytes, bytes]]:
    lines = [line.split() for line in GOLDEN.read_text().splitlines() if not line.startswith("#")]
    return {name: (bytes.fromhex(key), bytes.fromhex(value)) for name, key, value in lines}


def test_records_are_those_of_mirror_maker_2() -> None:
    expected = golden()
    assert encode_offset_sync(SYNC) == expected["offset-sync"]
    assert encode_checkpoint(CHECKPOINT) == expected["checkpoint"]
    assert encode_checkpoint(CHECKPOINT_WITH_METADATA) == expected["checkpoint-metadata"]
    assert encode_heartbeat(HEARTBEAT) == expected["heartbeat"]
    assert len(expected) == 4
    assert decode_offset_sync(*expected["offset-sync"]) == SYNC
    assert decode_checkpoint(*expected["checkpoint-metadata"]) == CHECKPOINT_WITH_METADATA
    assert decode_heartbeat(*expected["heartbeat"]) == HEARTBEAT


@given(st.binary(max_size=60), st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(key: bytes, value: bytes) -> None:
    for decode in (decode_offset_sync, decode_checkpoint, decode_heartbeat):
        try:
            decode(key, value)
        except Mm2FormatError:
            continue


@pytest.mark.parametrize(
    ("topic", "expected"),
    [
        ("heartbeats", True),
        ("A.heartbeats", True),
        ("B.A.heartbeats", True),
        ("myheartbeats", False),
    ],
)
def test_heartbeats_topics(topic: str, expected: bool) -> None:
    assert is_heartbeats_topic(topic) is expected


def test_names_of_topics() -> None:
    assert offset_syncs_topic("B") == "mm2-offset-syncs.B.internal"
    assert checkpoints_topic("A") == "A.checkpoints.internal"
