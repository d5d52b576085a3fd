"""A record's way as a document, and as lines for people. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from topology.status.completeness import time_text
from topology.tracing.facts import Place, WayFacts
from topology.tracing.steps import Step
from topology.tracing.trace_ids import TRACEPARENT, TraceIds

JsonObject = dict[str, Any]


def way_document(facts: WayFacts, steps: Sequence[Step], ids: TraceIds) -> JsonObject:
    """Return the document of the command; ids are hexadecimal, as in a `traceparent`."""
    parent = ids.parent
    return {
        "asked": _place(facts.asked),
        "record": {
            **_place(facts.origin.place),
            "datacenter": facts.origin.datacenter,
            "cluster_id": ids.record.cluster_id or None,
            "topic_id": str(ids.record.topic_id) if ids.record.topic_id.int else None,
        },
        "trace_id": f"{ids.trace_id:032x}",
        "parent_span_id": None if parent is None else f"{parent.span_id:016x}",
        "steps": [_step(each) for each in steps],
        "remarks": list(facts.remarks),
        "exported_spans": None,
    }


def _place(place: Place) -> JsonObject:
    return place._asdict()


def _step(step: Step) -> JsonObject:
    return {
        "step": step.name,
        "state": step.state,
        "cluster": step.cluster,
        "datacenter": step.datacenter,
        "link": step.link,
        "topic": None if step.place is None else step.place.topic,
        "partition": None if step.place is None else step.place.partition,
        "offset": None if step.place is None else step.place.offset,
        "not_before_ms": step.time.not_before_ms,
        "not_after_ms": step.time.not_after_ms,
        "clock": None if step.clock is None else step.clock.value,
        "sentence": step.sentence,
        "details": dict(step.details),
    }


def head_lines(document: Mapping[str, Any]) -> Iterator[str]:
    """Yield what stands above the table."""
    record, asked = document["record"], document["asked"]
    yield f"record {Place(**asked)}"
    if Place(**asked) != (origin := _origin(record)):
        yield f"  is a copy of {origin} ({record['datacenter']})"
    joins = "" if document["parent_span_id"] is None else f", which its header {TRACEPARENT} names"
    yield f"trace {document['trace_id']}{joins}"


def _origin(record: Mapping[str, Any]) -> Place:
    return Place(*(record[name] for name in Place._fields))


def table_rows(document: Mapping[str, Any]) -> list[JsonObject]:
    """Return the rows of the table: each time after the first known one."""
    steps = document["steps"]
    times = [step[key] for step in steps for key in ("not_before_ms", "not_after_ms")]
    first_ms = next((time for time in times if time is not None), None)
    return [
        {
            "step": step["step"],
            "where": step["cluster"] if step["link"] is None else f"{step['link']} ->",
            "place": None
            if step["topic"] is None
            else f"{step['topic']}-{step['partition']} @{step['offset']}",
            "time": _time(step["not_before_ms"], step["not_after_ms"], first_ms),
            "clock": step["clock"],
            "state": step["state"],
            "what": step["sentence"],
        }
        for step in steps
    ]


def _time(not_before_ms: int | None, not_after_ms: int | None, first_ms: int | None) -> str | None:
    if not_before_ms == not_after_ms:
        if not_before_ms in (None, first_ms):
            return None if not_before_ms is None else time_text(not_before_ms)
        return _after(not_after_ms, first_ms)
    if not_before_ms is None:
        return f"by {_after(not_after_ms, first_ms)}"
    if not_after_ms is None:
        return f"from {_after(not_before_ms, first_ms)}"
    return f"{_after(not_before_ms, first_ms)} to {_after(not_after_ms, first_ms)}"


def _after(time_ms: int | None, first_ms: int | None) -> str:
    assert time_ms is not None and first_ms is not None
    return f"{(time_ms - first_ms) / 1000:+.3f} s"
