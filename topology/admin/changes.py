"""Changes to a cluster that a command plans, and what became of each. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from local_cluster.wire.errors import KafkaError


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One change, as people and programs read it."""

    action: str
    """A verb: create, delete, alter."""
    kind: str
    """What it changes: topic, group, config."""
    name: str
    detail: str = ""
    """The new value, or what is lost."""


def changes_document(
    changes: Sequence[Change], results: Sequence[KafkaError | None] | None
) -> dict[str, Any]:
    """Return the changes with their states. `results` is None if they were only planned."""
    return {
        "dry_run": results is None,
        "changes": [
            {
                "action": change.action,
                "kind": change.kind,
                "name": change.name,
                "detail": change.detail,
                **_state(results is not None, results[index] if results is not None else None),
            }
            for index, change in enumerate(changes)
        ],
    }


def _state(is_done: bool, error: KafkaError | None) -> dict[str, Any]:
    if error is not None:
        return {"state": "refused", "error": error.code.name.upper(), "reason": error.message}
    return {"state": "done" if is_done else "planned", "error": None, "reason": None}


def change_lines(document: Mapping[str, Any]) -> list[str]:
    """Return one line per change: `done: create topic orders: 3 partitions`."""
    lines = []
    for each in document["changes"]:
        line = f"{each['state']}: {each['action']} {each['kind']} {each['name']}"
        if each["state"] == "refused":
            reason = f": {each['reason']}" if each["reason"] else ""
            line += f": {each['error']}{reason}"
        elif each["detail"]:
            line += f": {each['detail']}"
        lines.append(line)
    return lines or ["nothing to change"]


def has_refusals(document: Mapping[str, Any]) -> bool:
    """Return whether the cluster refused a change."""
    return any(each["state"] == "refused" for each in document["changes"])
