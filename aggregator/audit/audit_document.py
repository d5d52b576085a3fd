"""The audit of a link as a JSON document; an unknown value is null, never 0. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from aggregator.audit.link_audit import AuditRow, PartitionAudit, records_by_verdict, rows_since
from mirror_maker.formats.verdicts import FAULTS, AuditorState, Finding

Document = dict[str, Any]
AUDITOR_SHOWN_MS: Final = 600_000
"""A worker that has not reported for so long is gone."""


def link_document(
    names: Mapping[str, str],
    audits: Sequence[PartitionAudit],
    auditors: Mapping[str, AuditorState],
    *,
    problem: str | None,
    now_ms: int,
    with_rows: bool,
    since_ms: int | None = None,
) -> Document:
    """Return the document of one link.

    `names` has its link, datacenter, source and target. `with_rows` adds the rows without a fault.
    `since_ms` excludes buckets of earlier record times.
    """
    partitions = [_partition(each, now_ms, with_rows, since_ms) for each in audits]
    rows = [row for each in audits for row in rows_since(each.rows, since_ms)]
    ages = [each["age_seconds"] for each in partitions]
    running = [each for each in auditors.values() if now_ms - each.at_ms < AUDITOR_SHOWN_MS]
    if problem is None:
        problem = next((_failure(each) for each in running if each.failure is not None), None)
    return {
        **names,
        "problem": problem,
        "is_well": problem is None and not any(row.is_fault for row in rows),
        "age_seconds": None if None in ages else max(ages, default=None),
        "records": _by_verdict(rows),
        "findings": sum(len(each["findings"]) for each in partitions),
        "auditors": [
            {
                "worker_id": state.worker_id,
                "age_seconds": max(0, now_ms - state.at_ms) / 1000,
                "cpu_share": state.cpu_share,
                "failure": state.failure,
            }
            for state in running
        ],
        "partitions": partitions,
    }


def _failure(state: AuditorState) -> str:
    return f"the audit of worker {state.worker_id} has stopped: {state.failure}"


def _partition(
    audit: PartitionAudit, now_ms: int, with_rows: bool, since_ms: int | None
) -> Document:
    age_ms = audit.age_ms(now_ms)
    rows = rows_since(audit.rows, since_ms)
    shown = [row for row in rows if with_rows or row.is_fault]
    findings = [
        each
        for each in audit.findings
        if since_ms is None or each.start_ms is None or each.noticed_at_ms >= since_ms
    ]
    return {
        "topic": audit.flow.source_topic,
        "partition": audit.flow.partition,
        "target_topic": audit.target_topic,
        "audited_from": audit.audited_from,
        "audited_to": audit.audited_to,
        "audited_at_ms": audit.audited_at_ms,
        "age_seconds": None if age_ms is None else age_ms / 1000,
        "batches_waiting": audit.batches_waiting,
        "records": _by_verdict(rows),
        "rows": [_row(row) for row in shown],
        "findings": [_finding(each) for each in findings],
    }


def _by_verdict(rows: Sequence[AuditRow]) -> dict[str, int]:
    return {verdict.value: count for verdict, count in records_by_verdict(rows).items()}


def _row(row: AuditRow) -> Document:
    return {
        "verdict": row.verdict.value,
        "start_ms": row.start_ms,
        "records": row.records_count,
        "batches": row.batches_count,
        "source_from": row.source_from,
        "source_to": row.source_to,
        "target_from": row.target_from,
        "target_to": row.target_to,
        "reason": row.reason,
    }


def _finding(finding: Finding) -> Document:
    return {
        "verdict": finding.verdict.value,
        "records": finding.records_count,
        "source_from": finding.source_from,
        "source_to": finding.source_to,
        "target_from": finding.target_from,
        "target_to": finding.target_to,
        "start_ms": finding.start_ms,
        "detail": finding.detail,
        "noticed_at_ms": finding.noticed_at_ms,
    }


def faults(document: Document) -> dict[str, int]:
    """Return the number of records by fault in a link's document."""
    known = {verdict.value for verdict in FAULTS}
    return {name: count for name, count in document["records"].items() if name in known}
