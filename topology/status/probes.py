"""What the aggregators' probes say of the links, for the status document and in words. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from topology.deployment.deployment import Deployment

JsonObject = dict[str, Any]
DEGRADED: Final = "degraded"
UNKNOWN: Final = "unknown"
"""State of a probe that nobody tells."""

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
    """Clusters whose aggregators probe links."""
    return {link.target for link in deployment.links if link.is_probed}


def probes_by_link(answers: Iterable[Any]) -> dict[str, Mapping[str, Any]]:
    """The probes in answers of `/api/v1/probe`, by link; what is no such answer is left out."""
    found: dict[str, Mapping[str, Any]] = {}
    for answer in answers:
        links = answer.get("links") if isinstance(answer, dict) else None
        for probe in links if isinstance(links, list) else ():
            if isinstance(probe, dict) and "link" in probe:
                found[str(probe["link"])] = probe
    return found


def probe_status(target: str, said: Mapping[str, Any] | None) -> JsonObject:
    """What the status document has of one probe; figures that are not known are null."""
    if said is None:
        said = {"state": UNKNOWN, "reason": f"the aggregator of {target} does not answer"}
    latency = said.get("latency_ms") or {}
    return {
        **{key: said.get(key) for key in _SHOWN},
        "latency_ms": {key: latency.get(key) for key in ("p50", "p99", "last")},
    }


def probe_sentence(link: str, probe: Mapping[str, Any]) -> str:
    """One line for people."""
    words = [f"probe of {link}: {probe['state']}"]
    if probe["reason"] is not None:
        words.append(str(probe["reason"]))
    if probe["sent"] is not None:
        words.append(f"{probe['received']} of {probe['sent']} records arrived")
    latency = probe["latency_ms"]
    if latency["p50"] is not None:
        words.append(f"p50 {latency['p50']:.1f} ms, p99 {latency['p99']:.1f} ms")
    return "; ".join(words)
