"""The exit code of `heliograph status`. Pure.

    0    everything of this host runs and responds, and every link does its work
    4    it does not
    6    all of that, but another host does not answer, or does not run everything of its own
    7    all is well everywhere, but the journal of a link has gaps: records that were not copied
    8    none of that, but an operator has paused or throttled a part of a link

Codes above 4 are for those who ask for them: a gap stays in the journal, and a pause is meant.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

WELL: Final = 0
UNHEALTHY: Final = 4
HOSTS: Final = 6
GAPS: Final = 7
HELD_BACK: Final = 8


def status_exit_code(document: Mapping[str, Any], *, is_detailed: bool) -> int:
    """Return the code of a status document, the first that fits."""
    if document["state"] != "running":
        return UNHEALTHY
    if not is_detailed:
        return WELL
    if any(not _is_well(each) for each in document.get("hosts", ())):
        return HOSTS
    if any(link["gaps"] for link in document["links"]):
        return GAPS
    if any(link["paused"] or link["throttle"] for link in document["links"]):
        return HELD_BACK
    return WELL


def _is_well(host: Mapping[str, Any]) -> bool:
    return host["state"] == "answers" and all(
        each["state"] == "running" for each in host["daemons"]
    )
