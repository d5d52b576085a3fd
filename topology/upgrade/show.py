"""An upgrade as a JSON document, and as lines for people. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from topology.upgrade.upgrade_plan import HostTurn, UpgradePlan

JsonObject = dict[str, Any]


def upgrade_document(
    name: str,
    plan: UpgradePlan | None,
    turn: str | None,
    *,
    installed: str,
    levels: Mapping[str, int | None],
) -> JsonObject:
    """Return the document of `heliograph upgrade -o json`.

    `turn` is the host that works now, `levels` the level of formats of each own cluster, None where
    it is unknown.
    """
    return {
        "name": name,
        "installed": installed,
        "state": plan.state if plan is not None else "none",
        "turn": turn,
        "plan": asdict(plan) if plan is not None else None,
        "format_levels": dict(levels),
    }


def upgrade_lines(document: Mapping[str, Any]) -> list[str]:
    """Return the document as lines."""
    plan, name = document["plan"], document["name"]
    if plan is None:
        return [f"{name}: no upgrade was begun; version {document['installed']} is installed here"]
    what = "way back" if plan["is_back"] else "upgrade"
    former = f" from {plan['former']}" if plan["former"] else ""
    lines = [
        f"{name}: {what}{former} to {plan['wanted']} is {document['state']}"
        f" (begun by {plan['begun_by']}, {plan['begun_at']})"
    ]
    for each in plan["hosts"]:
        lines += host_lines(HostTurn(**each))
    levels = ", ".join(
        f"{cluster} {'unknown' if level is None else level}"
        for cluster, level in document["format_levels"].items()
    )
    if levels:
        lines.append(f"format levels: {levels}")
    return [*lines, *advice(document)]


def host_lines(host: HostTurn) -> list[str]:
    """Return how far a host is, with its reason below it."""
    return [
        f"  {host.name}: {host.state.replace('_', ' ')}",
        *(f"    {line}" for line in host.reason.splitlines()),
    ]


def advice(document: Mapping[str, Any]) -> list[str]:
    """Return what to do next, in the state of the document."""
    plan = document["plan"]
    again = "--back" if plan["is_back"] else ""
    on = f"`heliograph upgrade {again}`".replace(" `", "`")
    match document["state"]:
        case "failed":
            way_back = [] if plan["is_back"] else _way_back(plan)
            return [f"no other host begins; when the cause is gone, {on} continues", *way_back]
        case "stopped":
            way_back = [] if plan["is_back"] else _way_back(plan)
            return [f"no other host begins; {on} continues", *way_back]
        case "done" if not plan["is_back"]:
            return [
                *_way_back(plan),
                "`heliograph upgrade --finalize` gives the former version up",
            ]
        case "running" if document["turn"] is None:
            waits = next(each["name"] for each in plan["hosts"] if each["state"] != "done")
            return [
                f"nobody works now: it is the turn of {waits}; `heliograph status` there says"
                " whether its supervisor runs"
            ]
    return []


def _way_back(plan: Mapping[str, Any]) -> list[str]:
    if not plan["former"]:
        return []
    return [f"to go back: install {plan['former']} on each host, then `heliograph upgrade --back`"]
