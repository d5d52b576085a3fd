"""Records of verdicts: read whole, or refused without a trace."""

from __future__ import annotations

import json
import uuid
from typing import Any

import pytest

from mirror_maker.formats import FlowKey, MapFormatError
from mirror_maker.formats.verdict_topic import VerdictTopic
from mirror_maker.formats.verdicts import (
    AuditorState,
    Finding,
    Tally,
    Verdict,
    auditor_record,
    bucket_record,
    finding_record,
)

FLOW = FlowKey("t", 3, uuid.UUID(int=1), uuid.UUID(int=2))
TALLY = Tally(5, 1, 10, 15, 0, 5)
FINDING = Finding(
    verdict=Verdict.LOST,
    target_from=0,
    target_to=5,
    source_from=10,
    source_to=15,
    records_count=5,
    start_ms=0,
    detail="gone",
    noticed_at_ms=1,
)


def written() -> VerdictTopic:
    topic = VerdictTopic()
    topic.replay(*bucket_record(FLOW, 0, {Verdict.COMPLETE: TALLY}))
    topic.replay(*finding_record(FLOW, FINDING))
    topic.replay(*auditor_record(AuditorState(worker_id="w", at_ms=1, cpu_share=0.5, failure=None)))
    return topic


def changed(record: tuple[bytes, bytes | None], **fields: Any) -> tuple[bytes, bytes]:
    key, value = record
    return key, json.dumps(json.loads(value or b"{}") | fields).encode()


BUCKET = bucket_record(FLOW, 0, {Verdict.COMPLETE: TALLY})
AUDITOR = auditor_record(AuditorState(worker_id="w", at_ms=1, cpu_share=0.5, failure=None))


@pytest.mark.parametrize(
    "record",
    [
        changed(BUCKET, bucket=[600_000, {}]),
        changed(BUCKET, bucket=[0, {"COMPLETE": [5, 1, 15, 10, 0, 5]}]),
        changed(BUCKET, bucket=[0, {"COMPLETE": [5, 1, 10, None, 0, 5]}]),
        changed(BUCKET, bucket=[0, {"COMPLETE": [-5, 1, 10, 15, 0, 5]}]),
        changed(BUCKET, bucket=[0, {"COMPLETE": [5, 1]}]),
        changed(BUCKET, bucket=[0, {"SPLENDID": [5, 1, 10, 15, 0, 5]}]),
        changed(BUCKET, bucket={"0": {}}),
        changed(finding_record(FLOW, FINDING), target_to=-1),
        changed(finding_record(FLOW, FINDING), source_to=9),
        changed(finding_record(FLOW, FINDING), records_count=1e300),
        changed(AUDITOR, cpu_share="much"),
        changed(AUDITOR, version=2),
    ],
    ids=str,
)
def test_a_refused_record_changes_nothing(record: tuple[bytes, bytes]) -> None:
    topic, before = written(), written()
    with pytest.raises(MapFormatError):
        topic.replay(*record)
    assert topic.auditors == before.auditors
    ((flow, found),) = topic.flows()
    known = before.flow(flow)
    assert (found.closed, found.findings) == (known.closed, known.findings)
