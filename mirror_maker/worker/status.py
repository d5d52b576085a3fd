"""What a worker says about itself, as plain JSON values and as Prometheus text. Pure.

Unknown is null in JSON and absent in the metrics: a 0 that means "unknown" hides an outage.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from mirror_maker.audit.auditor import LinkAuditor
from mirror_maker.audit.findings import describe_finding
from mirror_maker.audit.flow_audit import FlowAudit
from mirror_maker.flow.flow import Flow
from mirror_maker.formats.controls import Controls
from mirror_maker.formats.gaps import gap_as_json
from mirror_maker.group_sync.group_syncer import GroupSync
from mirror_maker.group_sync.source_positions import SourcePositions
from mirror_maker.link.link import LinkWorker
from mirror_maker.metrics.lag import Lag
from mirror_maker.metrics.latency_text import (
    checkpoint_lines,
    latency_lines,
    latency_status,
    mm2_lines,
)
from mirror_maker.model import FlowState
from mirror_maker.topic_sync.copy_deletion import TopicDeletions
from mirror_maker.topic_sync.topic_syncer import TopicSync

JsonObject = dict[str, Any]
LEFT_OUT_SHOWN_MAX: Final = 200
"""Topics that are not copied, listed by name."""
FINDINGS_SHOWN_MAX: Final = 20


def flow_status(flow: Flow, now_ms: int, auditor: LinkAuditor | None, wall_ms: int) -> JsonObject:
    """One partition; `now_ms` is of the monotonic clock, `wall_ms` since the epoch."""
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
            **latency_status(measures.latency),
        },
        "record_age": latency_status(measures.age),
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
    group_sync: GroupSync | None = None,
    topic_sync: TopicSync | None = None,
    deletions: TopicDeletions | None = None,
    source_positions: SourcePositions | None = None,
) -> JsonObject:
    """One link: totals over what this worker mirrors, and each flow, the probe's included."""
    clock, auditor = link.clock, link.auditor
    now_ms, wall_ms = clock.monotonic_ms(), clock.now_ms()
    flows = link.mirrored_flows
    lag = total_lag([flow.lag() for flow in flows if flow.state is not FlowState.SOURCE_GONE])
    totals = [flow.totals() for flow in flows]
    still = link.standing_still()
    return {
        "name": link.name,
        "source": link.settings.source_alias,
        "state": link.state().value,
        "reason": link.reason,
        "standing_still": [each.as_json() for each in still.worst],
        "standing_still_more": still.more,
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
        "deletions": deletions.status() if deletions is not None else None,
        "source_group": source_positions.status() if source_positions is not None else None,
        "audit": None if auditor is None else auditor_status(auditor, now_ms),
        "flows": [
            flow_status(flow, now_ms, auditor, wall_ms) for _, flow in sorted(link.flows.items())
        ],
    }


def auditor_status(auditor: LinkAuditor, now_ms: int) -> JsonObject:
    """The audit of a link on this worker."""
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
    """How far the audit of a partition has come, and what it found to be wrong."""
    check, audited_at_ms = audit.check, auditor.audited_at_ms(audit)
    return {
        "audited_to": check.audited_to,
        "batches_waiting": check.waiting_receipts,
        "age_seconds": max(0, wall_ms - audited_at_ms) / 1000 if audited_at_ms else None,
        "findings": dict(Counter(each.verdict.value for each in audit.tally.findings)),
    }


def controls_status(controls: Controls) -> JsonObject:
    """What an operator has told a link; a rate of null is what the settings say."""
    return {
        "paused": [
            {"topic": part.topic, "partition": part.partition}
            for part in sorted(controls.paused, key=str)
        ],
        "source_bytes_per_second": controls.source_bytes_per_second,
        "target_bytes_per_second": controls.target_bytes_per_second,
    }


def total_lag(lags: Sequence[Lag]) -> Lag:
    """Sums of records and bytes, the worst of the seconds; unknown where any part is unknown."""
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


_GAUGES = {
    "lag_records": "Source records not yet on the target.",
    "lag_bytes": "Source bytes not yet on the target.",
    "lag_seconds": "Age of the oldest source record not yet on the target.",
}
_COUNTERS = {
    "records_copied": "Records acknowledged by the target.",
    "bytes_copied": "Bytes of batches acknowledged by the target, as compressed.",
    "batches_left_out": "Source batches not to be copied: control, aborted, empty.",
    "restarts": "How often the flow had to prove its position again.",
}


def render_metrics(status: Mapping[str, Any]) -> str:
    """The Prometheus exposition of a worker's status."""
    return "\n".join(_metric_lines(status)) + "\n"


def _metric_lines(status: Mapping[str, Any]) -> Iterator[str]:
    links = status["links"]
    yield from _link_lines(links)
    for kind, metrics in (("gauge", _GAUGES), ("counter", _COUNTERS)):
        for name, text in metrics.items():
            full = f"heliograph_mirror_{name}{'_total' if kind == 'counter' else ''}"
            yield f"# HELP {full} {text}"
            yield f"# TYPE {full} {kind}"
            for link, flow in _flows(links):
                if flow[name] is not None:
                    yield f"{full}{_flow_labels(link, flow)} {flow[name]}"
    yield "# HELP heliograph_mirror_batches_total Batches copied, by path."
    yield "# TYPE heliograph_mirror_batches_total counter"
    for link, flow in _flows(links):
        for path, count in flow["batches"].items():
            yield f"heliograph_mirror_batches_total{_flow_labels(link, flow, path=path)} {count}"
    yield from latency_lines(links, _labels)
    yield from mm2_lines(status["target"], links, _labels)
    yield from checkpoint_lines(status["target"], links, _labels)
    yield from _trouble_lines(links)
    yield from _audit_lines(links)
    yield "# HELP heliograph_mirror_group_positions Positions of consumer groups, by sync state."
    yield "# TYPE heliograph_mirror_group_positions gauge"
    for link in links:
        for state, count in ((link.get("groups") or {}).get("states") or {}).items():
            labels = _labels(link=link["name"], state=state)
            yield f"heliograph_mirror_group_positions{labels} {count}"


def _link_lines(links: Sequence[JsonObject]) -> Iterator[str]:
    yield "# HELP heliograph_mirror_link_state 1 for the state that the link is in."
    yield "# TYPE heliograph_mirror_link_state gauge"
    for link in links:
        yield f"heliograph_mirror_link_state{_labels(link=link['name'], state=link['state'])} 1"
    yield "# HELP heliograph_mirror_rights_missing Operations that a cluster refused."
    yield "# TYPE heliograph_mirror_rights_missing gauge"
    for link in links:
        if "rights_missing" in link:
            missing = len(link["rights_missing"])
            yield f"heliograph_mirror_rights_missing{_labels(link=link['name'])} {missing}"
    yield "# HELP heliograph_mirror_map_unwritten_seconds How long the map could not be written."
    yield "# TYPE heliograph_mirror_map_unwritten_seconds gauge"
    for link in links:
        if "map_unwritten_seconds" in link:
            seconds = link["map_unwritten_seconds"]
            yield f"heliograph_mirror_map_unwritten_seconds{_labels(link=link['name'])} {seconds}"
    yield "# HELP heliograph_mirror_partitions Partitions that this worker copies."
    yield "# TYPE heliograph_mirror_partitions gauge"
    for link in links:
        yield f"heliograph_mirror_partitions{_labels(link=link['name'])} {link['partitions']}"


def _trouble_lines(links: Sequence[JsonObject]) -> Iterator[str]:
    yield "# HELP heliograph_mirror_failed 1 where a partition has stopped."
    yield "# TYPE heliograph_mirror_failed gauge"
    for link, flow in _flows(links):
        failed = int(flow["state"] == FlowState.FAILED.value)
        yield f"heliograph_mirror_failed{_flow_labels(link, flow)} {failed}"
    yield "# HELP heliograph_mirror_trouble 1 for what a partition stands still for."
    yield "# TYPE heliograph_mirror_trouble gauge"
    for link, flow in _flows(links):
        if flow["trouble"] is not None:
            yield f"heliograph_mirror_trouble{_flow_labels(link, flow, trouble=flow['trouble'])} 1"
    yield "# HELP heliograph_mirror_gaps Gaps in the journal: what was skipped, by reason."
    yield "# TYPE heliograph_mirror_gaps gauge"
    for link, flow in _flows(links):
        for reason, count in flow["gaps_by_reason"].items():
            yield f"heliograph_mirror_gaps{_flow_labels(link, flow, reason=reason)} {count}"


def _audit_lines(links: Sequence[JsonObject]) -> Iterator[str]:
    yield "# HELP heliograph_mirror_audit_age_seconds How old the oldest batch not compared is."
    yield "# TYPE heliograph_mirror_audit_age_seconds gauge"
    for link, flow in _flows(links):
        if flow.get("audit") is not None:
            age = flow["audit"]["age_seconds"]
            if age is not None:
                yield f"heliograph_mirror_audit_age_seconds{_flow_labels(link, flow)} {age}"
    yield "# HELP heliograph_mirror_audit_findings Batches that are wrong in the copy, by verdict."
    yield "# TYPE heliograph_mirror_audit_findings gauge"
    for link, flow in _flows(links):
        for verdict, count in ((flow.get("audit") or {}).get("findings") or {}).items():
            labels = _flow_labels(link, flow, verdict=verdict)
            yield f"heliograph_mirror_audit_findings{labels} {count}"
    yield "# HELP heliograph_mirror_audit_cpu_share Share of a core used by the worker's audits."
    yield "# TYPE heliograph_mirror_audit_cpu_share gauge"
    for link in links:
        if link.get("audit") is not None:
            share = link["audit"]["cpu_share"]
            yield f"heliograph_mirror_audit_cpu_share{_labels(link=link['name'])} {share}"


def _flows(links: Sequence[JsonObject]) -> Iterator[tuple[JsonObject, JsonObject]]:
    for link in links:
        for flow in link["flows"]:
            yield link, flow


def _flow_labels(link: JsonObject, flow: JsonObject, **more: str) -> str:
    return _labels(link=link["name"], topic=flow["topic"], partition=str(flow["partition"]), **more)


def _labels(**labels: str) -> str:
    escaped = {
        name: value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
        for name, value in labels.items()
    }
    return "{" + ",".join(f'{name}="{value}"' for name, value in escaped.items()) + "}"
