"""Stops of which the mirror says that nobody can tell where to go on. Pure.

A worker was killed between a copy and its map, and source and target have both compacted such
copies since. That stop is documented, and only an operator's repair ends it: it is counted.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any, Final

REASON: Final = re.compile(
    r"the source lost records that were copied and not mapped, "
    r"and nothing tells whether offset \d+ was copied as well"
)


def undecided_tails(link: Mapping[str, Any], compacted: Collection[str]) -> set[tuple[str, int]]:
    """Source partitions of a link, as `heliograph status` tells of it, that stopped for that.

    `compacted` are the source topics that compact on both sides: no other one may stop so.
    """
    return {
        (each["topic"], each["partition"])
        for each in link["standing_still"]
        if each["topic"] in compacted
        and (each["state"], each["trouble"]) == ("FAILED", "target")
        and REASON.fullmatch(each["reason"] or "")
    }


def explain_link(link: Mapping[str, Any], undecided: Collection[tuple[str, int]]) -> bool:
    """Whether these partitions are all that the link has to say for itself."""
    return (
        bool(undecided)
        and len(link["standing_still"]) == len(undecided)
        and not link["standing_still_more"]
        and REASON.search(link["reason"] or "") is not None
    )
