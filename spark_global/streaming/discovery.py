"""The links of a stream, and up to where the origin of records is known. Pure.

A link needs no option: its offset map on the aggregate names it. So a link that is added while a
query runs joins at the next trigger. Its datacenter is the one of option `links`. Without that it
is the alias of the source in the copies' names (`jfk` of `jfk.flights`), or else the link's name.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np

from local_cluster.client.model import TopicPartition
from spark_global.links import MirrorLink
from spark_global.source.maps import MappedPartition
from spark_global.source.provenance import MapRuns

MAP_SECONDS_MAX: Final = 60.0
"""Seconds that a record waits for its map while the maps of other links go on behind it. A link
that cannot write its map stops copying after half of that."""
_LOOK_SECONDS: Final = 5.0
"""Seconds between two ends that are remembered."""


def with_discovered(
    given: Sequence[MirrorLink], mapped: Iterable[MappedPartition]
) -> tuple[MirrorLink, ...]:
    """Return the given links, and after them those that only their maps name."""
    aliases: dict[str, str | None] = {}
    for entry in mapped:
        if aliases.get(entry.link) is None:
            aliases[entry.link] = _alias(entry)
    links = list(given)
    named = {link.name for link in given}
    for name, alias in sorted(aliases.items()):
        if name in named:
            continue
        unnamed = next((link for link in given if link.name is None and link.source == alias), None)
        if unnamed is not None:
            links[links.index(unnamed)] = replace(unnamed, name=name)
        else:
            source = alias or name
            links.append(MirrorLink(source=source, datacenter=source, name=name))
    return tuple(links)


def _alias(entry: MappedPartition) -> str | None:
    """Return the source's alias in a copy's name; None if the copy has the source's name."""
    suffix = "." + entry.source_topic
    if not entry.aggregate_topic.endswith(suffix):
        return None
    return entry.aggregate_topic.removesuffix(suffix) or None


def known_end(maps: Sequence[MapRuns], start: int, end: int) -> int:
    """Return how far, within [start, end], the origin of every record is known.

    That is the end of the unbroken runs of all maps together. Below the lowest `target_next` a
    record without a run is known as well: no link copied it. So a link that is silent holds nobody
    back, and a record whose map is on its way is waited for. `MapWaits` bounds that.
    """
    if not maps:
        return start
    reached = max(start, min(end, min(runs.target_next for runs in maps)))
    covered = MapRuns.union(maps)
    run_ends = covered.targets + covered.counts
    first = int(np.searchsorted(run_ends, reached, side="right"))
    starts, ends = covered.targets[first:], run_ends[first:]
    before = np.concatenate([np.array([reached], dtype=np.int64), ends[:-1]])
    gaps = np.flatnonzero(starts > before)
    unbroken = int(gaps[0]) if len(gaps) else len(starts)
    return min(end, int(ends[unbroken - 1])) if unbroken else reached


class Stop(NamedTuple):
    """Where the reading of a partition stops for now."""

    known: int
    """The end of what can be read."""
    mapped: int
    """The end of what can be read when no map is waited for any more."""
    passed: int = 0
    """No map is waited for below this offset."""


class MapWaits:
    """How long the maps of links that merge have gone on behind records without a map.

    If a source and its worker die together, the last records have no map until that source is back.
    They hold no other datacenter back for longer than `MAP_SECONDS_MAX`.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        """`clock` is in seconds, and never goes back."""
        self._clock = clock
        self._ends: dict[TopicPartition, deque[tuple[float, int]]] = {}

    def stop(self, at: TopicPartition, maps: Sequence[MapRuns], start: int, end: int) -> Stop:
        """Return where reading stops in [start, end); `maps` are those of the links that merge."""
        mapped = min(end, max((runs.target_next for runs in maps), default=0))
        passed = min(self._mapped_before(at, mapped), end)
        known = known_end(maps, start, end)
        if passed <= known:
            return Stop(known, max(known, mapped))
        known = known_end(maps, passed, end)
        return Stop(known, max(known, mapped), passed)

    def _mapped_before(self, at: TopicPartition, mapped: int) -> int:
        """Return the end of all maps as of `MAP_SECONDS_MAX` ago, or 0; note that of now."""
        now = self._clock()
        ends = self._ends.setdefault(at, deque())
        if not ends or now - ends[-1][0] >= _LOOK_SECONDS:
            ends.append((now, mapped))
        while len(ends) > 1 and now - ends[1][0] >= MAP_SECONDS_MAX:
            ends.popleft()
        since, end = ends[0]
        return end if now - since >= MAP_SECONDS_MAX else 0
