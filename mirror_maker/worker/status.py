"""The status of a worker as plain JSON values. Pure.

Unknown is null: a 0 that means "unknown" would hide an outage.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from mirror_maker.audit.auditor import LinkAuditor
from mirror_maker.audit.findings import describe_finding
from mirror_maker.audit.flow_audit import FlowAudit
from mirror_maker.flow.flow import Flow
from mirror_maker.formats.controls import Controls
from mirror_maker.formats.gaps import gap_as_json
from mirror_maker.group_sync.group_syncer import GroupSyncer
from mirror_maker.group_sync.source_group import SourceGroupCommitter
from mirror_maker.link.link import LinkWorker
from mirror_maker.metrics.lag import Lag
from mirror_maker.model import FlowState
from mirror_maker.rights_sync.rights_syncer import RightsSyncer
from mirror_maker.topic_sync.copy_deletion import CopyDeleter
from mirror_maker.topic_sync.topic_syncer import TopicSyncer

JsonObject = dict[str, Any]
LEFT_OUT_SHOWN_MAX: Final = 200
"""Topics that are not copied, listed by name."""
FINDINGS_SHOWN_MAX: Final = 20


def flow_status(flow: Flow, now_ms: int, auditor: LinkAuditor | None, wall_ms: int) -> JsonObject:
    """Return one partition's status; `now_ms` is monotonic, `wall_ms` is since the epoch."""
    audit = None if auditor is None else auditor.audit(flow.source)
    lag = flow.lag()
    replicator = flow.replicator
    totals = flow.totals()
    gaps = flow.gaps()
    measures = flow.measures
    return {
        "topic": flow.source.topic,
        "partition": flow.source.partition,
        "target_topic": flow.target.topic,
        "state": flow.current_state().value,
        "trouble": flow.trouble.value if flow.trouble else None,
        "reason": flow.reason,
        "source_high_watermark": flow.history.high_watermark,
        "source_next": replicator.source_next if replicator else None,
        "lag_records": lag.records,
        "lag_bytes": lag.bytes,
        "lag_seconds": lag.seconds,
        "records_copied": totals.records,
        "bytes_copied": totals.bytes,
        "records_per_second": measures.record_rate.per_second(now_ms),
        "bytes_per_second": measures.byte_rate.per_second(now_ms),
        "latency": {
            "counts": list(measures.latency.counts),
            "sum_ms": measures.latency.sum_ms,
            **measures.latency.as_json(),
        },
        "record_age": measures.age.as_json(),
        "batches": {path.value: count for path, count in totals.batches.items()},
        "batches_left_out": totals.left_out,
        "restarts": flow.restarts,
        "gaps": len(gaps),
        "gaps_by_reason": dict(Counter(gap.reason for gap in gaps)),
        "last_gap": gap_as_json(gaps[-1]) if gaps else None,
        "audit": audit_status(auditor, audit, wall_ms) if auditor and audit else None,
    }


def link_status(
    link: LinkWorker,
    group_sync: GroupSyncer | None = None,
    topic_sync: TopicSyncer | None = None,
    rights_sync: RightsSyncer | None = None,
    deletions: CopyDeleter | None = None,
    source_positions: SourceGroupCommitter | None = None,
) -> JsonObject:
    """Return one link's status: totals over what this worker mirrors, and each flow, the probe's
    too.
    """
    clock, auditor = link.clock, link.auditor
    now_ms, wall_ms = clock.monotonic_ms(), clock.now_ms()
    flows = link.mirrored_flows
    lag = total_lag([flow.lag() for flow in flows if flow.state is not FlowState.SOURCE_GONE])
    totals = [flow.totals() for flow in flows]
    stalled = link.stalled()
    return {
        "name": link.name,
        "source": link.settings.source_alias,
        "state": link.state().value,
        "reason": link.reason,
        "standing_still": [each.as_json() for each in stalled.worst],
        "standing_still_more": stalled.more,
        "rights_missing": link.missing_rights(),
        "map_unwritten_seconds": link.map_writes.unwritten_ms(now_ms) / 1000,
        "topics": len({flow.source.topic for flow in flows}),
        "topics_left_out": link.left_out[:LEFT_OUT_SHOWN_MAX],
        "partitions": len(flows),
        "partitions_known": link.mirrored_partitions,
        "partitions_failed": sum(flow.state is FlowState.FAILED for flow in flows),
        "gaps": sum(len(flow.gaps()) for flow in flows),
        "partitions_paused": sum(flow.state is FlowState.PAUSED for flow in flows),
        "lag_records": lag.records,
        "lag_bytes": lag.bytes,
        "lag_seconds": lag.seconds,
        "records_copied": sum(each.records for each in totals),
        "bytes_copied": sum(each.bytes for each in totals),
        "controls": controls_status(link.map_store.state.controls),
        "groups": group_sync.status() if group_sync is not None else None,
        "topic_sync": topic_sync.status() if topic_sync is not None else None,
        "rights_sync": rights_sync.status() if rights_sync is not None else None,
        "deletions": deletions.status() if deletions is not None else None,
        "source_group": source_positions.status() if source_positions is not None else None,
        "audit": None if auditor is None else auditor_status(auditor, now_ms),
        "flows": [
            flow_status(flow, now_ms, auditor, wall_ms) for _, flow in sorted(link.flows.items())
        ],
    }


def auditor_status(auditor: LinkAuditor, now_ms: int) -> JsonObject:
    """Return the status of a link's audit on this worker."""
    findings = list(auditor.findings())
    return {
        "failure": auditor.failure,
        "cpu_share": round(auditor.cpu_share(now_ms), 4),
        "findings": dict(Counter(finding.verdict.value for _, finding in findings)),
        "first_findings": [
            describe_finding(at, finding) for at, finding in findings[:FINDINGS_SHOWN_MAX]
        ],
    }


def audit_status(auditor: LinkAuditor, audit: FlowAudit, wall_ms: int) -> JsonObject:
    """Return how far the audit of a partition has come, and its findings."""
    check, audited_at_ms = audit.check, auditor.audited_at_ms(audit)
    return {
        "audited_to": check.audited_to,
        "batches_waiting": check.waiting_receipts,
        "age_seconds": max(0, wall_ms - audited_at_ms) / 1000 if audited_at_ms else None,
        "findings": dict(Counter(each.verdict.value for each in audit.tally.findings)),
    }


def controls_status(controls: Controls) -> JsonObject:
    """Return an operator's orders to a link; a rate of null means the configured one."""
    return {
        "paused": [
            {"topic": part.topic, "partition": part.partition}
            for part in sorted(controls.paused, key=str)
        ],
        "source_bytes_per_second": controls.source_bytes_per_second,
        "target_bytes_per_second": controls.target_bytes_per_second,
    }


def total_lag(lags: Sequence[Lag]) -> Lag:
    """Return the sums of records and bytes and the largest seconds; None if any part is unknown."""
    if not lags:
        return Lag(None, None, None)
    return Lag(
        _total([lag.records for lag in lags]),
        _total([lag.bytes for lag in lags]),
        None if any(lag.seconds is None for lag in lags) else max(lag.seconds or 0 for lag in lags),
    )


def _total(values: Sequence[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None
