"""The topics that a mirror publishes about `flights` partition 0, for tests of the audit."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

from mirror_maker.formats import FlowKey
from mirror_maker.formats.gaps import Gap, GapKind
from mirror_maker.formats.verdict_topic import FlowVerdicts
from mirror_maker.formats.verdicts import AuditPlace, Bucket, Finding, Progress, Tally, Verdict
from tests.unit.aggregator.fakes import SOURCE_TOPIC_ID

FLIGHTS_ID = uuid.UUID(int=4)
FLOW = FlowKey("flights", 0, SOURCE_TOPIC_ID, FLIGHTS_ID)


def complete(source_from: int, target_from: int, count: int) -> Tally:
    """Return the tally of one batch with this many records."""
    return Tally(count, 1, source_from, source_from + count, target_from, target_from + count)


def progress(audited_to: int, buckets: Mapping[int, Bucket], **changed: Any) -> Progress:
    """Return the progress of an audit from target offset 100 on."""
    fields: dict[str, Any] = {
        "target_topic": "jfk.flights",
        "worker_id": "w",
        "audited_from": 100,
        "place": AuditPlace(audited_to=audited_to, receipt_to=audited_to),
        "audited_at_ms": 40_000,
        "waiting": 0,
        "receipts_topic_id": "-",
        "receipts_offset": 7,
        "source_end": None,
        "target_log_start": 0,
        "written_at_ms": 40_000,
        "buckets": buckets,
    }
    return Progress(**{**fields, **changed})


def verdicts(known: Progress | None, *findings: Finding) -> FlowVerdicts:
    """Return the published verdicts of the flow."""
    made = FlowVerdicts()
    made.progress = known
    made.findings = {(each.verdict, each.target_from): each for each in findings}
    return made


def finding(verdict: Verdict, target_from: int, target_to: int) -> Finding:
    """Return a faulty batch; its source offsets are 100 lower."""
    return Finding(
        verdict=verdict,
        target_from=target_from,
        target_to=target_to,
        source_from=target_from - 100,
        source_to=target_to - 100,
        records_count=target_to - target_from,
        start_ms=0,
        detail="the target has nothing at that offset",
        noticed_at_ms=41_000,
    )


def gap(kind: GapKind, source_from: int, source_to: int, **changed: Any) -> Gap:
    """An entry of the journal."""
    fields: dict[str, Any] = {
        "flow": FLOW,
        "producer_epoch": 0,
        "nonce": 1,
        "link": "jfk-nyc",
        "target_topic": "jfk.flights",
        "source_from": source_from,
        "source_to": source_to,
        "records_count": source_to - source_from,
        "reason": "retention",
        "detail": "the source begins later",
        "target_offset": 150,
        "noticed_at_ms": 0,
        "worker_id": "w",
        "kind": kind,
    }
    return Gap(**{**fields, **changed})
