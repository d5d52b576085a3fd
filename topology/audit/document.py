"""The JSON document of an audit record by record. Pure."""

from __future__ import annotations

from typing import Any, Final

from aggregator.audit.record_findings import RecordFault, RecordFindings
from local_cluster.records.batch import Record
from mirror_maker.formats import FlowKey
from mirror_maker.formats.verdicts import Verdict

PAYLOAD_CHARACTERS_MAX: Final = 200
"""Most characters of a key, a value or a header value that are shown."""

JsonObject = dict[str, Any]


def records_document(
    flow: FlowKey, target_topic: str, findings: RecordFindings, problem: str | None
) -> JsonObject:
    """Return the document of one partition.

    `problem` is the reason why it could not be read to its end, or None.
    """
    return {
        "topic": flow.source_topic,
        "partition": flow.partition,
        "target_topic": target_topic,
        "records": {
            verdict.value: findings.counts[verdict]
            for verdict in Verdict
            if verdict in findings.counts
        },
        "unverified": dict(findings.unverified),
        "problem": problem,
        "is_well": problem is None and not findings.has_faults,
        "faults": [_fault(each) for each in findings.faults],
    }


def _fault(fault: RecordFault) -> JsonObject:
    return {
        "verdict": fault.verdict.value,
        "source_offset": fault.source_offset,
        "target_offset": fault.target_offset,
        "detail": fault.detail,
        "source_record": _record(fault.original),
        "target_record": _record(fault.copy),
    }


def _record(record: Record | None) -> JsonObject | None:
    if record is None:
        return None
    return {
        "timestamp_ms": record.timestamp_ms,
        "key": _payload(record.key),
        "value": _payload(record.value),
        "headers": {name: _payload(value) for name, value in record.headers},
    }


def _payload(data: bytes | None) -> str | None:
    """Return bytes as text, with escapes for what is no text, up to `PAYLOAD_CHARACTERS_MAX`."""
    if data is None:
        return None
    part = data[: PAYLOAD_CHARACTERS_MAX * 4]
    text = part.decode(errors="backslashreplace")
    shown = "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)
    if len(shown) > PAYLOAD_CHARACTERS_MAX or len(part) < len(data):
        return f"{shown[:PAYLOAD_CHARACTERS_MAX]}... ({len(data)} bytes)"
    return shown
