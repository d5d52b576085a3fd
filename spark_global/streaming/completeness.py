"""Until when a batch of a stream is complete, per datacenter. Shell, on the driver.

With option `carry_completeness` the positions of a stream also have

    "complete": {"JFK": {"through": 1385600000000, "proved": null, "gaps": 0}}

in milliseconds. Every record that the datacenter committed before `through` lies below the
positions, or was left out; `gaps` counts the entries of the journals about what was left out. It is
in the checkpoint, so a batch that runs again says the same. Each datacenter with a copy or a
statement is named, with nulls while nothing is known.

The order matters: first the statements are read, then the ends of the copies, then the positions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from spark_global.cut.statements import StatementReader, Statements
from spark_global.kept.completeness import Completeness
from spark_global.kept.said import Through
from spark_global.kept.sightings import Sighting
from spark_global.source.options import ReadOptions
from spark_global.streaming.planner import StreamPlanner, Survey
from spark_global.streaming.positions import COMPLETE, StreamPositions

_NOTHING: Final[Mapping[str, int | None]] = {"through": None, "proved": None, "gaps": 0}


class CompletenessFollower:
    """Follows what the mirrors of a stream state; one call at a time."""

    def __init__(self, planner: StreamPlanner, options: ReadOptions) -> None:
        self._topic = options.topic
        self._planner = planner
        self._stated = Completeness(planner, StatementReader(options.maps))
        self._statements: Statements = {}

    async def close(self) -> None:
        await self._stated.close()

    async def poll(self) -> None:
        """Read the statements of the links that the planner knows; call it before the ends."""
        self._statements = await self._stated.poll()

    def note(self) -> None:
        """Note the statements with the ends that the planner has read after them."""
        survey = self._planner.survey
        assert survey is not None, "the planner has just looked"
        also = without_copies(survey, self._statements, self._topic)
        self._stated.note(self._statements, also)

    def carried(self, start: Mapping[str, Any], end: StreamPositions) -> dict[str, Any]:
        """Return what the positions `end` say of completeness; `start` are those before them."""
        survey = self._planner.survey
        assert survey is not None, "the planner has just looked"
        copied = _datacenters(survey)
        stated = without_copies(survey, self._statements, self._topic)
        reached = {
            name: {"through": each.through_ms, "proved": each.proved_ms, "gaps": each.gaps}
            for name, each in self._stated.reached(end).items()
        }
        before: Mapping[str, Any] = start.get(COMPLETE, {})
        unknown = dict.fromkeys(copied | stated.keys(), _NOTHING)
        return {COMPLETE: dict(sorted({**unknown, **before, **reached}.items()))}


def without_copies(
    survey: Survey, statements: Statements, topic: str | None
) -> dict[str, Sighting]:
    """Return a sighting of each datacenter that states a topic of which there is no copy. Pure.

    A copy would have been there before its records were stated, so there is nothing to reach.
    """
    copied = _datacenters(survey)
    found: dict[str, Sighting] = {}
    for link in survey.options.links:
        own = [
            each
            for (name, _), each in statements.get(link.name or "", {}).items()
            if topic in (None, name)
        ]
        if not own or link.datacenter in copied:
            continue
        through = [each.complete_through_ms for each in own]
        proved = [each.proved_through_ms for each in own]
        stated = Through(
            min(ms for ms in through if ms is not None) if None not in through else None,
            min(ms for ms in proved if ms is not None) if None not in proved else None,
            sum(each.gaps for each in own),
        )
        found[link.datacenter] = Sighting(stated=stated, ends={})
    return found


def _datacenters(survey: Survey) -> set[str]:
    return {
        each.origin.datacenter
        for origins in survey.topics.values()
        for each in origins
        if each.origin.datacenter is not None
    }
