"""How a host's topology file stands to that of the others, as lines for people. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def file_lines(document: Mapping[str, Any], *, with_diff: bool = True) -> list[str]:
    """Return the lines for the `file` of a status or a plan."""
    state, number = document["state"], document["generation"]
    newest = f"generation {number} of {document['host']}, {document['written_at']}"
    sentence = {
        "same": f"the file is {newest}",
        "first": "the file is not in ZooKeeper yet; `heliograph up` writes it",
        "advance": f"the file follows {newest}; `heliograph up` makes it the next one",
        "behind": f"the file is behind {newest}",
        "conflict": f"the file and {newest} are edits that do not know of each other",
        "unknown": "the file cannot be compared: no ZooKeeper answers",
    }[state]
    lines = [f"{state}: {sentence}"]
    if state != "unknown":
        lines += [f"not compared: {reason}" for reason in document["silent"]]
    return [*lines, *(document["diff"] if with_diff else ())]
