"""Until when a batch of a stream is complete, per datacenter. Shell, on the driver.

With option `carry_completeness` the positions of a stream also have

    "complete": {"JFK": {"through": 1385600000000, "proved": null, "gaps": 0, "links": ["a"]}}

in milliseconds. Every record that the datacenter committed before `through` lies below the
positions, or was left out; `gaps` counts the entries of the journals about what was left out.
`links` are those that it is about, `formerly` has names that the datacenter had before. All of it
is in the checkpoint, so a batch that runs again says the same. Each datacenter with a copy or a
statement is named, with nulls while nothing is known.

The order matters: first the statements are read, then the ends of the copies, then the positions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from spark_global.cut.statements import StatementReader, Statements
from spark_global.kept.completeness import Completeness
from spark_global.kept.said import Through, has_more_links
from spark_global.links import MirrorLink, former_names
from spark_global.source.options import ReadOptions
from spark_global.streaming.planner import StreamPlanner
from spark_global.streaming.positions import COMPLETE, FORMERLY, LINKS, StreamPositions

_NOTHING: Final[Mapping[str, int | None]] = {"through": None, "proved": None, "gaps": 0}


class CompletenessFollower:
    """Follows what the mirrors of a stream state; one call at a time."""

    def __init__(self, planner: StreamPlanner, options: ReadOptions) -> None:
        self._stated = Completeness(planner, StatementReader(options.maps))
        self._statements: Statements = {}

    async def close(self) -> None:
        await self._stated.close()

    async def poll(self) -> None:
        """Read the statements of the links that the planner knows; call it before the ends."""
        self._statements = await self._stated.poll()

    def note(self) -> None:
        """Note the statements with the ends that the planner has read after them."""
        self._stated.note(self._statements)

    def carried(self, start: Mapping[str, Any], end: StreamPositions) -> dict[str, Any]:
        """Return what the positions `end` say of completeness; `start` are those before them."""
        links: dict[str, set[str]] = {}
        for name, found in self._stated.datacenters().items():
            links.setdefault(name, set()).update(found)
        for name, each in self._stated.without_copies(self._statements).items():
            links.setdefault(name, set()).update(each.stated.links)
        before = with_new_names(start.get(COMPLETE, {}), self._stated.links)
        return {COMPLETE: with_news(before, self._stated.reached(end), links)}


def with_news(
    before: Mapping[str, Mapping[str, Any]],
    reached: Mapping[str, Through],
    links: Mapping[str, Iterable[str]],
) -> dict[str, Mapping[str, Any]]:
    """Return what positions say of completeness, by what those before them said and the news. Pure.

    `links` has the links by datacenter. If one joins, the datacenter is unknown until all of them
    have stated something.
    """
    found: dict[str, Mapping[str, Any]] = {**dict.fromkeys(links, _NOTHING), **before}
    for name, said in before.items():
        if has_more_links(said.get(LINKS, ()), links.get(name, ())):
            every = sorted({*said[LINKS], *links[name]})
            found[name] = {**_NOTHING, "gaps": said["gaps"], LINKS: every}
    for name, each in reached.items():
        about = {LINKS: list(each.links)} if each.links else {}
        known = {"through": each.through_ms, "proved": each.proved_ms, "gaps": each.gaps}
        found[name] = {**known, **about}
    for name, said in before.items():
        if FORMERLY in said:
            found[name] = {**found[name], FORMERLY: said[FORMERLY]}
    return dict(sorted(found.items()))


def with_new_names(
    complete: Mapping[str, Mapping[str, Any]], links: Iterable[MirrorLink]
) -> dict[str, Mapping[str, Any]]:
    """Return what positions say of completeness, by the datacenters that the links have now. Pure.

    A link that joined a running query had its alias or its own name as datacenter. It must not be
    waited for under that name when the options of the next run say which datacenter it is.
    """
    now = former_names(links)
    found = {name: each for name, each in complete.items() if name not in now}
    for name in sorted(complete.keys() & now.keys()):
        each = complete[name]
        known = found.get(now[name], each)
        every = sorted({*known.get(LINKS, ()), *each.get(LINKS, ())})
        found[now[name]] = {
            "through": _least(known["through"], each["through"]),
            "proved": _least(known["proved"], each["proved"]),
            "gaps": max(known["gaps"], each["gaps"]),
            **({LINKS: every} if every else {}),
            FORMERLY: sorted({name, *each.get(FORMERLY, ()), *known.get(FORMERLY, ())}),
        }
    return found


def _least(one: int | None, other: int | None) -> int | None:
    """Return what holds of two links that are one datacenter by now."""
    return None if one is None or other is None else min(one, other)
