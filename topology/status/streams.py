"""Spark queries over the aggregates, for the status document and for people. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from topology.status.completeness import time_text

if TYPE_CHECKING:
    from spark_global.streaming.progress import Progress

JsonObject = dict[str, Any]


def entries(aggregate: str, published: Mapping[str, Sequence[Progress]]) -> list[JsonObject]:
    """Return the entries of one aggregate in the status document."""
    return [
        {
            "aggregate": aggregate,
            "group": group,
            "query": progress[0].query,
            "batch": progress[0].batch,
            "published_at_ms": progress[0].at_ms,
            "datacenters": [
                {
                    "datacenter": each.datacenter,
                    "records_behind": each.records,
                    "seconds_behind": each.seconds,
                    "is_at_least": each.at_least,
                }
                for each in progress
            ],
        }
        for group, progress in published.items()
    ]


def sentence(entry: Mapping[str, Any]) -> str:
    """Return one line for people."""
    lags = ", ".join(map(_lag, entry["datacenters"]))
    return (
        f"stream {entry['group']} of {entry['aggregate']}: {lags}"
        f" (published {time_text(entry['published_at_ms'])})"
    )


def _lag(each: Mapping[str, Any]) -> str:
    name = each["datacenter"] or "unknown origin"
    if each["records_behind"] is None or each["seconds_behind"] is None:
        return f"{name} not known"
    least = "at least " if each["is_at_least"] else ""
    return (
        f"{name} {each['records_behind']} records and {least}{each['seconds_behind']:.1f} s behind"
    )
