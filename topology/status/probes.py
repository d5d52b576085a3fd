"""The results of the aggregators' probes, for the status document and for people. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from topology.deployment.deployment import Deployment

JsonObject = dict[str, Any]
DEGRADED: Final = "degraded"
UNKNOWN: Final = "unknown"
"""State of a probe whose aggregator does not report it."""

_FAULTS: Final = ("lost", "doubled", "out_of_order", "altered")
_SHOWN: Final = (
    "state",
    "reason",
    "sent",
    "received",
    *_FAULTS,
    "last_arrival_age_seconds",
)


def probed_targets(deployment: Deployment) -> set[str]:
    """Return the clusters whose aggregators probe links."""
    return {link.target for link in deployment.links if link.is_probed}


def probes_by_link(responses: Iterable[Any]) -> dict[str, Mapping[str, Any]]:
    """Return the probes in responses of `/api/v1/probe`, by link; other documents are ignored."""
    found: dict[str, Mapping[str, Any]] = {}
    for response in responses:
        links = response.get("links") if isinstance(response, dict) else None
        for probe in links if isinstance(links, list) else ():
            if isinstance(probe, dict) and "link" in probe:
                found[str(probe["link"])] = probe
    return found


def probe_status(target: str, report: Mapping[str, Any] | None) -> JsonObject:
    """Return the entry of one probe in the status document; unknown figures are null."""
    if report is None:
        report = {"state": UNKNOWN, "reason": f"the aggregator of {target} does not answer"}
    latency = report.get("latency_ms") or {}
    return {
        **{key: report.get(key) for key in _SHOWN},
        "latency_ms": {key: latency.get(key) for key in ("p50", "p99", "last")},
    }


def probe_sentence(link: str, probe: Mapping[str, Any]) -> str:
    """Return one line for people."""
    words = [f"probe of {link}: {probe['state']}"]
    if probe["reason"] is not None:
        words.append(str(probe["reason"]))
    if probe["sent"] is not None:
        words.append(f"{probe['received']} of {probe['sent']} records arrived")
    latency = probe["latency_ms"]
    if latency["p50"] is not None:
        words.append(f"p50 {latency['p50']:.1f} ms, p99 {latency['p99']:.1f} ms")
    return "; ".join(words)
