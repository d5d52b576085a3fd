"""What an operator's orders hold back in a link, and what it left out for good. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

_SIDES = (("source", "source_bytes_per_second"), ("target", "target_bytes_per_second"))


def held_back(reported: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entries of a link's row in the status: gaps, paused parts and rates.

    Null is unknown. `reported` is what the link's worker reports.
    """
    controls, gaps = reported.get("controls"), reported.get("gaps")
    if controls is None:
        return {"gaps": gaps, "paused": None, "throttle": None}
    rates = {side: controls[key] for side, key in _SIDES if controls[key]}
    return {"gaps": gaps, "paused": list(controls["paused"]), "throttle": rates}


def held_back_lines(link: Mapping[str, Any]) -> Iterator[str]:
    """Yield what people should know of a link that does its work otherwise."""
    name = link["name"]
    if link["gaps"]:
        yield f"link {name} has {link['gaps']} gaps: `heliograph gaps` lists what was not copied"
    for part in link["paused"] or ():
        yield f"link {name}: an operator has paused {_part(part)}"
    for side, rate in (link["throttle"] or {}).items():
        yield f"link {name}: an operator has set {rate} bytes per second at the {side}"


def _part(part: Mapping[str, Any]) -> str:
    topic, partition = part["topic"], part["partition"]
    if topic is None:
        return "all of it"
    return f"topic {topic}" if partition is None else f"partition {topic}-{partition}"
