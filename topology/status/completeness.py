"""Until when the aggregates are complete, for the status document and for people. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

JsonObject = dict[str, Any]


def summary(aggregate: str, document: Mapping[str, Any] | None) -> JsonObject:
    """Return the entry of one aggregate in the status document; unknown without a response."""
    strict = (document or {}).get("strict") or {}
    return {
        "aggregate": aggregate,
        "complete_through_ms": strict.get("complete_through_ms"),
        "state": strict.get("state", "unknown"),
        "held_back_by": strict.get("held_back_by"),
    }


def sentence(entry: Mapping[str, Any]) -> str:
    """Return one line for people."""
    words = f"{entry['aggregate']}: {answer_words(entry)}"
    holder = entry["held_back_by"]
    return words if holder is None else f"{words}; {holder_words(holder)}"


def answer_words(answer: Mapping[str, Any]) -> str:
    """Return until when an answer is complete, in words."""
    through_ms = answer["complete_through_ms"]
    if through_ms is None:
        return "not known to be complete through any time"
    gaps = " with gaps" if answer["state"] == "complete_with_gaps" else ""
    return f"complete{gaps} through {time_text(through_ms)}"


def holder_words(holder: Mapping[str, Any]) -> str:
    """Return what holds an answer back, and since when."""
    partition = "" if holder["partition"] is None else f"-{holder['partition']}"
    since_ms = holder["since_ms"]
    since = "" if since_ms is None else f" (since {time_text(since_ms)})"
    return (
        f"held back by {holder['datacenter']} {holder['topic']}{partition}: "
        f"{holder['reason']}{since}"
    )


def time_text(time_ms: int | None) -> str:
    """Return a time in UTC, to the millisecond; a dash for an unknown one."""
    if time_ms is None:
        return "-"
    text = datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")
