"""The journal's bytes, which of two entries holds, and offsets in gaps."""

from __future__ import annotations

import json
import uuid
from dataclasses import replace
from typing import Any

import pytest

from mirror_maker.formats import FlowKey, Gap, GapJournal, MapFormatError, decode_gap, encode_gap
from mirror_maker.formats.gaps import REPAIR_RECOPY_REASON, GapKind, encode_gap_key, gaps_topic_name
from mirror_maker.rules.gap_ranges import NO_GAPS, GapRanges

FLOW = FlowKey("t", 3, uuid.UUID(int=1), uuid.UUID(int=2))
GAP = Gap(
    flow=FLOW,
    producer_epoch=2,
    nonce=7,
    link="a-b",
    target_topic="a.t",
    source_from=100,
    source_to=120,
    records_count=None,
    reason="out_of_range",
    detail="gone",
    target_offset=90,
    noticed_at_ms=1_700_000_000_000,
    worker_id="w",
)


def test_golden_entry() -> None:
    key, value = encode_gap(GAP)
    assert gaps_topic_name("a-b") == "heliograph-gaps.a-b.internal"
    assert json.loads(key) == {
        "version": 1,
        "source_topic": "t",
        "partition": 3,
        "source_topic_id": "00000000-0000-0000-0000-000000000001",
        "target_topic_id": "00000000-0000-0000-0000-000000000002",
        "producer_epoch": 2,
        "source_from": 100,
        "nonce": 7,
    }
    assert json.loads(value) == {
        "version": 1,
        "link": "a-b",
        "target_topic": "a.t",
        "source_to": 120,
        "records_count": None,
        "reason": "out_of_range",
        "detail": "gone",
        "target_offset": 90,
        "noticed_at_ms": 1_700_000_000_000,
        "worker_id": "w",
    }
    assert decode_gap(key, value) == GAP


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"", b"{}"),
        (b"[1]", b"{}"),
        (encode_gap(GAP)[0], b'{"version": 1}'),
        (encode_gap(GAP)[0], encode_gap(GAP)[1].replace(b'"version": 1', b'"version": 2')),
        (encode_gap(GAP)[0].replace(b"0000-", b"zzzz-"), encode_gap(GAP)[1]),
    ],
)
def test_bytes_that_are_not_an_entry_are_refused(key: bytes, value: bytes) -> None:
    with pytest.raises(MapFormatError):
        GapJournal().replay(key, value)


@pytest.mark.parametrize(
    "changed",
    [
        {"source_to": 99},
        {"source_from": -1},
        {"source_to": 2**63},
        {"target_offset": -1},
        {"records_count": 21},
        {"records_count": -1},
        {"kind": GapKind.COPIED, "copied_count": 7, "target_to": 89},
        {"kind": GapKind.COPIED, "copied_count": None, "target_to": 97},
        {"kind": GapKind.FOREIGN, "source_to": 100, "target_to": None},
        {"flow": FLOW._replace(partition=-1)},
    ],
    ids=str,
)
def test_an_entry_that_contradicts_itself_is_refused(changed: dict[str, Any]) -> None:
    with pytest.raises(MapFormatError):
        decode_gap(*encode_gap(replace(GAP, **changed)))


def test_a_foreign_entry_under_the_key_of_another_one_is_refused() -> None:
    moved = replace(OTHERS, target_offset=91)
    with pytest.raises(MapFormatError, match="key"):
        decode_gap(encode_gap_key(OTHERS), encode_gap(moved)[1])


@pytest.mark.parametrize("number", [b"1e999", b'"100"', b"100.0", b"true", b"[" * 9_999])
def test_a_number_is_an_integer(number: bytes) -> None:
    key, value = encode_gap(GAP)
    with pytest.raises(MapFormatError):
        decode_gap(key.replace(b'"source_from": 100', b'"source_from": ' + number), value)


def test_offsets_outside_gaps_are_found() -> None:
    gaps = GapRanges([(10, 20), (30, 40)])
    assert list(gaps.uncovered(0, 50)) == [(0, 10), (20, 30), (40, 50)]
    assert list(gaps.uncovered(12, 18)) == []
    assert list(gaps.uncovered(15, 35)) == [(20, 30)]
    assert list(NO_GAPS.uncovered(3, 5)) == [(3, 5)]
    assert list(gaps.uncovered(5, 5)) == []


COPIED = replace(GAP, kind=GapKind.COPIED, copied_count=7, target_to=97, reason="source_lost")
OTHERS = replace(
    GAP, kind=GapKind.FOREIGN, source_to=100, records_count=0, target_to=92, reason="foreign"
)


@pytest.mark.parametrize("entry", [COPIED, OTHERS], ids=["copied", "foreign"])
def test_entries_that_lose_nothing_have_a_minor_version(entry: Gap) -> None:
    key, value = encode_gap(entry)
    assert json.loads(key)["kind"] == entry.kind
    assert json.loads(value)["version"] == 1, "an older reader accepts it"
    assert json.loads(value)["minor_version"] == 1
    assert decode_gap(key, value) == entry


def test_entries_of_different_kinds_hold_beside_each_other() -> None:
    journal = GapJournal()
    later = replace(OTHERS, nonce=9, source_from=120, source_to=120, target_offset=95, target_to=96)
    for entry in (COPIED, GAP, OTHERS, later, replace(later, nonce=10, target_to=99)):
        journal.replay(*encode_gap(entry))
    assert journal.gaps(FLOW, 2) == [GAP]
    assert journal.entries(FLOW, 2, GapKind.COPIED) == [COPIED]
    assert journal.entries(FLOW, 2, GapKind.FOREIGN) == [OTHERS, later]
    assert len(list(journal.all_entries())) == 4


def test_versions_without_kinds_read_foreign_records_as_an_empty_gap() -> None:
    """It hides no gap at the same source offset from them, and leaves nothing out."""
    key, value = map(json.loads, encode_gap(OTHERS))
    assert key["source_from"] == value["source_to"] == -1 - OTHERS.target_offset
    assert value["source_next"] == OTHERS.source_from


def test_an_entry_without_an_end_holds_beside_a_gap_with_one() -> None:
    journal = GapJournal()
    order = replace(GAP, nonce=9, source_to=None, reason=REPAIR_RECOPY_REASON)
    for entry in (GAP, order, replace(order, nonce=10, reason="truncated")):
        journal.replay(*encode_gap(entry))
    assert journal.gaps(FLOW, 2) == [GAP, order]
    assert journal.take_ordered() == {("t", 3)}
    assert journal.take_ordered() == set()


def test_the_first_entry_of_a_place_holds() -> None:
    journal = GapJournal()
    other = replace(GAP, nonce=8, source_to=130)
    earlier = replace(GAP, source_from=50, source_to=60, target_offset=45)
    for gap in (GAP, other, GAP, earlier):
        journal.replay(*encode_gap(gap))
    assert journal.gaps(FLOW, 2) == [earlier, GAP]
    assert list(journal.all_entries()) == [earlier, GAP]
    journal.replay(encode_gap_key(GAP), None)
    assert journal.gaps(FLOW, 2) == [earlier, other]
    assert journal.gaps(FLOW._replace(partition=4), 2) == []


@pytest.mark.parametrize(
    "grown",
    [replace(COPIED, nonce=9, source_to=130), replace(COPIED, nonce=9, copied_count=8)],
    ids=["the source lost more", "more copies were found"],
)
def test_the_largest_copied_entry_of_a_place_holds(grown: Gap) -> None:
    """A worker wrote the smaller one twice, and only one of the two was taken back."""
    again = replace(COPIED, nonce=8)
    for order in ((COPIED, again, grown), (grown, again)):
        journal = GapJournal()
        for gap in order:
            journal.replay(*encode_gap(gap))
        journal.replay(encode_gap_key(COPIED), None)
        assert journal.entries(FLOW, 2, GapKind.COPIED) == [grown]


def test_a_gap_holds_for_the_opening_that_met_it() -> None:
    journal = GapJournal()
    anew = replace(GAP, producer_epoch=3, target_offset=200)
    topic_anew = replace(GAP, flow=FLOW._replace(source_topic_id=uuid.UUID(int=9)))
    for gap in (anew, GAP, topic_anew):
        journal.replay(*encode_gap(gap))
    assert journal.gaps(FLOW, 2) == [GAP]
    assert journal.gaps(FLOW, 3) == [anew]
    assert journal.partition_gaps("t", 3) == [GAP, topic_anew, anew]


def test_ranges() -> None:
    gaps = GapRanges([(10, 12), (12, 15), (20, 30), (22, 25), (7, 7)])
    assert [gaps.first_outside(o) for o in (9, 10, 14, 15, 19, 20, 29, 30)] == [
        9, 15, 15, 15, 19, 30, 30, 30,
    ]  # fmt: skip
    assert [o for o in range(40) if gaps.contains(o)] == [*range(10, 15), *range(20, 30)]
    assert gaps.covers(10, 15)
    assert not gaps.covers(10, 16)
    assert not gaps.covers(9, 12)
    for start in range(40):
        for end in range(start + 1, 41):
            touched = any(gaps.contains(offset) for offset in range(start, end))
            assert gaps.overlaps(start, end) == touched, (start, end)
    assert not NO_GAPS
    assert NO_GAPS.first_outside(5) == 5
