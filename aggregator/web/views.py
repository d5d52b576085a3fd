"""JSON documents of the HTTP API; an unknown value is null, never 0. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from aggregator.aggregate import Aggregate
from aggregator.link_lag import LinkLag
from aggregator.maps.catalog import Catalog
from aggregator.maps.group_translation import GroupTranslation
from aggregator.maps.translation import TranslatedOffset
from aggregator.probe.latencies import BOUNDS_MS
from aggregator.probe.ledger import Fault
from aggregator.probe.link_probe import LinkProbe
from aggregator.settings import LinkSettings

Document = dict[str, Any]
PROBE_OFF = "off"
"""State of a link that is not probed."""


def translated_offset(answer: TranslatedOffset) -> Document:
    """Return one offset on both sides of a link."""
    document: Document = {
        "link": answer.link,
        "datacenter": answer.datacenter,
        "topic": answer.topic,
        "partition": answer.partition,
        "offset": answer.offset,
        "state": answer.state.value,
        "target_topic": answer.target_topic,
        "target_offset": answer.target_offset,
    }
    if answer.source_hole is not None:
        document["source_from"], document["source_to"] = answer.source_hole
    return document


def group(answer: GroupTranslation) -> Document:
    """Return a group's committed offsets on both sides of a link."""
    return {
        "link": answer.link,
        "group": answer.group,
        "exact": answer.is_exact,
        "partitions": [translated_offset(part) for part in answer.partitions],
    }


def link(aggregate: Aggregate, settings: LinkSettings) -> Document:
    """Return one link with its lag and the state of its map."""
    status = aggregate.maps.topic(settings.name)
    read_at = status.read_at
    behind = aggregate.link_lag(settings.name)
    return {
        "name": settings.name,
        "datacenter": settings.datacenter,
        "source": settings.source,
        "target": aggregate.settings.aggregate,
        "lag": {"records": behind.records, "bytes": behind.bytes, "seconds": behind.seconds},
        "map": {
            "state": status.state.value,
            "problem": status.problem,
            "partitions": None if status.value is None else status.value.partitions,
            "lag_records": status.lag_records,
            "age_seconds": None if read_at is None else round(aggregate.monotonic() - read_at, 3),
        },
    }


def lag(link: str, found: LinkLag) -> Document:
    """Return the lag of a link; an unknown value is null."""
    return {
        "link": link,
        "records": found.records,
        "bytes": found.bytes,
        "seconds": found.seconds,
        "partitions_known": found.partitions_known,
        "partitions": [
            {
                "topic": part.topic,
                "partition": part.partition,
                "target_topic": part.target_topic,
                "state": part.state,
                "records": part.records,
                "bytes": part.bytes,
                "seconds": part.seconds,
            }
            for part in found.partitions
        ],
    }


def probe(link: LinkSettings, found: LinkProbe | None, now_ms: float) -> Document:
    """Return the results of a probe; `now_ms` is monotonic."""
    about = {"link": link.name, "datacenter": link.datacenter, "source": link.source}
    if found is None:
        return {**about, "state": PROBE_OFF, "reason": None}
    ledger, latencies = found.ledger, found.latencies
    verdict = found.verdict(now_ms)
    return {
        **about,
        "state": verdict.state.value,
        "reason": verdict.reason,
        "topic": found.topic,
        "target_topic": found.copy,
        "run_id": found.run_id,
        "sent": ledger.sent,
        "received": ledger.received,
        **{fault.value: ledger.faults[fault].count for fault in Fault},
        "sequences": {fault.value: list(ledger.faults[fault].sequences) for fault in Fault},
        "last_fault_age_seconds": _age_seconds(found.last_fault_ms(), now_ms),
        "under_way": ledger.under_way,
        "late": ledger.late(now_ms),
        "expired": ledger.expired,
        "unknown": ledger.unknown_count,
        "last_arrival_age_seconds": _age_seconds(ledger.last_arrival_ms, now_ms),
        "latency_ms": {
            "last": _rounded(latencies.last_ms),
            "p50": _rounded(latencies.quantile_ms(0.5)),
            "p99": _rounded(latencies.quantile_ms(0.99)),
            "bounds": list(BOUNDS_MS),
            "counts": list(latencies.counts),
        },
        "problems": [each for each in (found.send_problem, found.read_problem) if each is not None],
    }


def probes(aggregate: Aggregate, chosen: Iterable[LinkSettings]) -> Document:
    """Return the probes of these links, in this order."""
    now_ms = aggregate.monotonic() * 1000
    return {"links": [probe(each, aggregate.probes.get(each.name), now_ms) for each in chosen]}


def _age_seconds(at_ms: float | None, now_ms: float) -> float | None:
    return None if at_ms is None else round((now_ms - at_ms) / 1000, 3)


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)


def links(aggregate: Aggregate) -> Document:
    """Return all links, in the order of the settings."""
    return {"links": [link(aggregate, settings) for settings in aggregate.settings.links]}


def topics(aggregate: Aggregate, catalog: Catalog) -> Document:
    """Return the merged topics."""
    age = aggregate.topics_age_seconds
    return {
        "aggregate": aggregate.settings.aggregate,
        "age_seconds": None if age is None else round(age, 3),
        "topics": [
            {
                "name": merged.name,
                "partitions": merged.partitions,
                "parts": [
                    {
                        "topic": part.topic,
                        "datacenter": part.datacenter,
                        "link": part.link,
                        "source": part.source,
                        "source_topic": part.source_topic,
                        "partitions": part.partitions,
                    }
                    for part in merged.parts
                ],
            }
            for merged in catalog.merged.values()
        ],
        "local": [
            {"name": name, "partitions": partitions} for name, partitions in catalog.local.items()
        ],
    }
