"""What the mirror workers of a link know of it, out of their status, as bounded JSON. Pure.

A key that a worker's version does not have yet is unknown, so it is null. A list has a maximum of
entries, and beside it the number of the others. The probe topic is excluded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from aggregator.maps.group_translation import SharedPosition, SharedPositions
from mirror_maker.formats.probe import is_probe_topic

TROUBLES_MAX: Final = 100
"""Partitions in trouble that are listed per link."""
NAMES_MAX: Final = 100
"""Missing rights, paused partitions and topics that are not copied, listed per worker."""
GROUPS_MAX: Final = 200
"""Positions of groups that are listed per worker."""

Status = Mapping[str, Any]
Document = dict[str, Any]


def link_state(link: str, workers: Iterable[Status]) -> Document:
    """Return what the workers report of a link."""
    reports = [
        (worker, each) for worker in workers for each in worker["links"] if each["name"] == link
    ]
    troubles = sorted(
        (_trouble(worker, flow) for worker, each in reports for flow in _in_trouble(each)),
        key=lambda each: (each["topic"], each["partition"], each["worker_id"] or ""),
    )
    gaps: Counter[str] = Counter()
    for _, each in reports:
        for flow in _flows(each):
            gaps.update(flow.get("gaps_by_reason") or {})
    return {
        "link": link,
        "troubles": troubles[:TROUBLES_MAX],
        "troubles_more": max(0, len(troubles) - TROUBLES_MAX),
        "gaps_by_reason": dict(gaps),
        "workers": [_worker(worker, each) for worker, each in reports],
    }


def shared_positions(link: str, group: str, workers: Iterable[Status]) -> SharedPositions:
    """Return the positions of a group that the sync of the link has found.

    A worker's status has so many positions at most; the others are unknown.
    """
    found: dict[tuple[str, int], SharedPosition] = {}
    for worker in workers:
        for each in worker["links"]:
            groups = (each.get("groups") or {}) if each["name"] == link else {}
            for position in groups.get("positions") or []:
                offsets = position.get("source_offset"), position.get("target_offset")
                if position.get("group") == group and None not in offsets:
                    at = str(position["topic"]), int(position["partition"])
                    found[at] = SharedPosition(int(offsets[0]), int(offsets[1]))
    return found


def _in_trouble(report: Status) -> list[Status]:
    return [flow for flow in _flows(report) if flow.get("trouble") or flow.get("reason")]


def _flows(report: Status) -> list[Status]:
    return [flow for flow in report["flows"] if not is_probe_topic(str(flow["topic"]))]


def _trouble(worker: Status, flow: Status) -> Document:
    return {
        "worker_id": worker.get("worker_id"),
        "topic": flow["topic"],
        "partition": flow["partition"],
        "target_topic": flow["target_topic"],
        "state": flow["state"],
        "trouble": flow.get("trouble"),
        "reason": flow.get("reason"),
        "restarts": flow.get("restarts"),
        "last_gap": flow.get("last_gap"),
    }


def _worker(worker: Status, report: Status) -> Document:
    rights = report.get("rights_missing")
    left_out = report.get("topics_left_out")
    return {
        "worker_id": worker.get("worker_id"),
        "state": report.get("state"),
        "reason": report.get("reason"),
        "partitions": report.get("partitions"),
        "rights_missing": None if rights is None else list(rights)[:NAMES_MAX],
        "rights_missing_more": _more(rights, NAMES_MAX),
        "topics_left_out": None if left_out is None else list(left_out)[:NAMES_MAX],
        "topics_left_out_more": _more(left_out, NAMES_MAX),
        "controls": _controls(report.get("controls")),
        "groups": _groups(report.get("groups")),
        "latency_ms": _latency(_flows(report)),
    }


def _controls(found: Status | None) -> Document | None:
    if found is None:
        return None
    paused: Sequence[Status] = found.get("paused") or []
    return {
        "paused": [dict(each) for each in paused[:NAMES_MAX]],
        "paused_more": _more(paused, NAMES_MAX),
        "source_bytes_per_second": found.get("source_bytes_per_second"),
        "target_bytes_per_second": found.get("target_bytes_per_second"),
    }


def _groups(found: Status | None) -> Document | None:
    if found is None:
        return None
    positions: Sequence[Status] = found.get("positions") or []
    states: Mapping[str, int] = found.get("states") or {}
    shown = [dict(each) for each in positions[:GROUPS_MAX]]
    return {
        "enabled": found.get("enabled"),
        "failure": found.get("failure"),
        "states": dict(states),
        "positions": shown,
        "positions_more": max(0, sum(states.values()) - len(shown)),
    }


def _latency(flows: Iterable[Status]) -> Document:
    """Return the latency of records that the worker has copied; null before the first one."""
    found = [flow["latency"] for flow in flows if flow.get("latency")]
    known = [each for each in found if each.get("max_ms") is not None]
    records = sum(sum(each["counts"]) for each in known)
    return {
        "records": records,
        "min": min((each["min_ms"] for each in known), default=None),
        "mean": sum(each["sum_ms"] for each in known) / records if records else None,
        "max": max((each["max_ms"] for each in known), default=None),
    }


def _more(entries: Sequence[Any] | None, shown: int) -> int:
    return max(0, len(entries or ()) - shown)
