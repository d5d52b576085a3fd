"""The links of a stream, and up to where the origin of records is known. Pure.

A link needs no option: its offset map on the aggregate names it. So a link that is added while a
query runs joins at the next trigger. Its datacenter is the one of option `links`. Without that it
is the alias of the source in the copies' names (`jfk` of `jfk.flights`), or else the link's name.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from spark_global.links import MirrorLink
from spark_global.source.maps import MappedPartition
from spark_global.source.provenance import MapRuns


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
    back, and a record whose map is on its way is waited for.
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
