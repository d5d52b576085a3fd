"""The steps of a record's way as OpenTelemetry spans, and their export.

    record TOPIC                      the whole way; its parent is the producer's span, if known
        produced, committed           from the record's time to its commit
        copied (per link)             from the commit, or from the copy before, to the copy
        complete, audited (per link)  from the copy on

A span ends at the latest moment that its step may have had; its attributes have both bounds and the
clock. A step without a known time has no span. Where a clock is behind that of the step before, the
span has no length. The span of a copy links to the span of the batch that carried it, if the link
creates such spans (`mirror_maker/metrics/batch_spans.py`).

Only a command that exports imports this module.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.trace import Link, SpanContext, SpanKind, TraceFlags

from mirror_maker.metrics.batch_ids import batch_ids
from mirror_maker.metrics.span_exporters import open_exporters
from topology.problems import DeployError
from topology.tracing.facts import Place, WayFacts
from topology.tracing.steps import Step
from topology.tracing.trace_ids import TraceIds

SERVICE_NAME: Final = "heliograph"
"""The default of OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES."""
_KINDS: Final = {"produced": SpanKind.PRODUCER, "copied": SpanKind.PRODUCER}
_NS_PER_MS: Final = 1_000_000
Attributes = dict[str, str | bool | int]


def record_spans(facts: WayFacts, steps: Sequence[Step], ids: TraceIds) -> list[ReadableSpan]:
    """Return the spans, the whole way first; [] if no time is known."""
    ours = Resource.create({"service.name": SERVICE_NAME})
    resource = ours.merge(OTELResourceDetector().detect())
    parent = ids.parent
    above = None if parent is None else _context(parent.trace_id, parent.span_id, is_remote=True)
    root = _context(ids.trace_id, ids.span_id("record"))
    ends: dict[Place, int] = {}
    """Where the way had come at a place."""
    spans: list[ReadableSpan] = []
    sources = {copy.link: copy.source for copy in facts.copies}
    for step in steps:
        end_ms = step.time.not_after_ms or step.time.not_before_ms
        if end_ms is None:
            continue
        source = sources.get(step.link or "", facts.origin.place)
        before = source if step.name == "copied" or step.place is None else step.place
        start_ms = min(ends.get(before, end_ms), end_ms)
        if step.place is not None and step.name in ("produced", "committed", "copied"):
            ends[step.place] = end_ms
        spans.append(
            ReadableSpan(
                name=f"{step.name} {_topic(step, facts)}",
                context=_context(ids.trace_id, ids.span_id(step.name, step.link or "")),
                parent=root,
                resource=resource,
                attributes=_attributes(step),
                links=_links(step),
                kind=_KINDS.get(step.name, SpanKind.INTERNAL),
                start_time=start_ms * _NS_PER_MS,
                end_time=end_ms * _NS_PER_MS,
            )
        )
    if not spans:
        return []
    whole = ReadableSpan(
        name=f"record {facts.origin.place.topic}",
        context=root,
        parent=above,
        resource=resource,
        attributes=_place_attributes(facts.origin.place),
        start_time=min(each.start_time or 0 for each in spans),
        end_time=max(each.end_time or 0 for each in spans),
    )
    return [whole, *spans]


def export(spans: Sequence[ReadableSpan]) -> None:
    """Send spans by the exporters that the environment names. Raises DeployError."""
    try:
        exporters = open_exporters()
    except ValueError as error:
        raise DeployError(str(error)) from error
    if not exporters:
        raise DeployError("spans go nowhere: OTEL_TRACES_EXPORTER is none")
    for exporter in exporters:
        result = exporter.export(spans)
        exporter.shutdown()
        if result is not SpanExportResult.SUCCESS:
            name = type(exporter).__name__
            raise DeployError(f"{name} did not take the spans; is its collector reachable?")


def _context(trace_id: int, span_id: int, *, is_remote: bool = False) -> SpanContext:
    return SpanContext(trace_id, span_id, is_remote, TraceFlags(TraceFlags.SAMPLED))


def _topic(step: Step, facts: WayFacts) -> str:
    return (step.place or facts.origin.place).topic


def _place_attributes(place: Place) -> Attributes:
    return {
        "messaging.system": "kafka",
        "messaging.destination.name": place.topic,
        "messaging.destination.partition.id": str(place.partition),
        "messaging.kafka.offset": place.offset,
        "heliograph.cluster": place.cluster,
    }


def _attributes(step: Step) -> Attributes:
    found: Attributes = {} if step.place is None else _place_attributes(step.place)
    known: Mapping[str, str | int | None] = {
        "heliograph.cluster": step.cluster,
        "heliograph.datacenter": step.datacenter,
        "heliograph.link": step.link,
        "heliograph.state": step.state,
        "heliograph.not_before_ms": step.time.not_before_ms,
        "heliograph.not_after_ms": step.time.not_after_ms,
        "heliograph.clock": None if step.clock is None else step.clock.value,
        "heliograph.what": step.sentence or None,
    }
    plain = {
        f"heliograph.{name}": value
        for name, value in step.details.items()
        if isinstance(value, str | bool | int)
    }
    return {**found, **{name: value for name, value in known.items() if value is not None}, **plain}


def _links(step: Step) -> list[Link]:
    batch_offset = step.details.get("batch_offset")
    if not step.details.get("has_batch_span") or step.place is None or step.link is None:
        return []
    ids = batch_ids(step.link, step.place.topic, step.place.partition, int(batch_offset or 0))
    return [Link(_context(ids.trace_id, ids.span_id, is_remote=True))]
