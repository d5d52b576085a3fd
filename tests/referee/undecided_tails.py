"""Stops of which the mirror says that nobody can tell where to go on. Pure.

A worker was killed between a copy and its map, and source and target have both compacted such
copies since. That stop is documented, and only an operator's repair ends it: it is counted.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any, Final

from tests.referee.deployment import RUNNING

REASON: Final = re.compile(
    r"the source lost records that were copied and not mapped, "
    r"and nothing tells whether offset \d+ was copied as well"
)


def is_undecided(stop: str | None) -> bool:
    """Whether a partition stopped for that, as `heliograph mirror repair` tells of it."""
    return REASON.fullmatch(stop or "") is not None


def explain_link(
    link: Mapping[str, Any], undecided: Collection[tuple[str | None, int | None]]
) -> bool:
    """Whether these partitions are all that `heliograph status` has to say of a link.

    It knows the reasons of one worker. Another one's partitions show only in the lag.
    """
    stopped = {(each["topic"], each["partition"]) for each in link["standing_still"]}
    return (
        bool(undecided)
        and stopped <= set(undecided)
        and not link["standing_still_more"]
        and (link["state"] == RUNNING or REASON.search(link["reason"] or "") is not None)
    )
