"""The formats of `--since`, and the display of payloads."""

from __future__ import annotations

import pytest

from aggregator.audit.record_audit import RecordAudit, RecordRules
from local_cluster.records.batch import Record
from mirror_maker.formats import FlowKey, OffsetMap
from mirror_maker.formats.records import NO_TOPIC_ID
from mirror_maker.rules.gap_ranges import NO_GAPS
from topology.audit.command import parse_since
from topology.audit.document import PAYLOAD_CHARACTERS_MAX, records_document

NOW_MS = 1_800_000_000_000


@pytest.mark.parametrize(
    ("text", "since_ms"),
    [
        ("90s", NOW_MS - 90_000),
        ("30m", NOW_MS - 1_800_000),
        ("2h", NOW_MS - 7_200_000),
        ("7d", NOW_MS - 604_800_000),
        ("2026-01-01T00:00:00Z", 1_767_225_600_000),
        ("2026-01-01T01:00:00+01:00", 1_767_225_600_000),
    ],
)
def test_since_is_a_duration_or_a_time(text: str, since_ms: int) -> None:
    assert parse_since(text, NOW_MS) == since_ms


@pytest.mark.parametrize("text", ["", "2", "2w", "-2h", "yesterday", "2026-01-01T00:00:00"])
def test_anything_else_is_refused_with_what_is_possible(text: str) -> None:
    with pytest.raises(ValueError, match="such as 30m, 2h or 7d, nor a time with its zone such"):
        parse_since(text, NOW_MS)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, None),
        (b"plain", "plain"),
        ("Zürich".encode(), "Zürich"),
        (b"\x00\xff\n", r"\x00\xff\n"),
        (b"a" * 300, "a" * PAYLOAD_CHARACTERS_MAX + "... (300 bytes)"),
    ],
)
def test_payloads_are_shown_as_text_that_is_cut(value: bytes | None, shown: str | None) -> None:
    offset_map = OffsetMap(0, 0)
    offset_map.advance(5)
    rules = RecordRules(producer_id=1)
    audit = RecordAudit(
        offset_map, rules, lost=NO_GAPS, foreign=NO_GAPS, target_log_start=0, target_log_end=9
    )
    audit.add_source([Record(3, 1, b"k", value, (("h", value),))])
    audit.end_source()
    audit.end_target()
    audit.judge()
    flow = FlowKey("t", 0, NO_TOPIC_ID, NO_TOPIC_ID)
    document = records_document(flow, "a.t", audit.findings, None)
    assert not document["is_well"]
    (fault,) = document["faults"]
    assert (fault["verdict"], fault["source_offset"], fault["target_offset"]) == ("LOST", 3, None)
    assert fault["source_record"] == {
        "timestamp_ms": 1,
        "key": "k",
        "value": shown,
        "headers": {"h": shown},
    }
    assert fault["target_record"] is None
