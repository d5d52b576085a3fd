"""What the commits of a table say about its records, whatever the format. Pure.

heliograph.kind              why it was committed
heliograph.aggregate-offsets {"jfk.flights": {"0": [start, end]}}, what the commit adds
heliograph.source-offsets    [{"datacenter", "topic", "partition", "first", "end", "records"}]
heliograph.complete-through  {"JFK": {"through": time, "proved": time, "gaps": 0, "links": []}}
heliograph.positions-hash    hash of the positions after the commit
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from spark_global.cut.offsets import time_text
from spark_global.streaming.positions import StreamPositions

KIND: Final = "heliograph.kind"
AGGREGATE_OFFSETS: Final = "heliograph.aggregate-offsets"
SOURCE_OFFSETS: Final = "heliograph.source-offsets"
COMPLETE_THROUGH: Final = "heliograph.complete-through"
POSITIONS_HASH: Final = "heliograph.positions-hash"

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)


class Through(NamedTuple):
    """Until when a table has every record of a datacenter."""

    through_ms: int | None
    """Every record that was committed before this time is in the table, or left out by a rule."""
    proved_ms: int | None
    """The same, and no later leader epoch can withdraw it."""
    gaps: int
    """Entries of the journals of its links: records that were left out."""
    links: tuple[str, ...] = ()
    """The links that it is about, sorted; empty if that is unknown."""
    formerly: tuple[str, ...] = ()
    """Names of the datacenter in earlier runs. They are not written."""


class SourceRange(NamedTuple):
    """Source offsets of one partition that a snapshot adds."""

    datacenter: str | None
    topic: str
    partition: int
    first: int | None
    """None if the origin of the records is unknown."""
    end: int | None
    records: int


def said_of_batch(
    start: StreamPositions,
    end: StreamPositions,
    ranges: Iterable[SourceRange],
    complete: Mapping[str, Through],
) -> dict[str, str]:
    """Return what the commit of a batch says; `complete` is that of the table after it."""
    return {
        AGGREGATE_OFFSETS: _text(aggregate_ranges(start, end)),
        SOURCE_OFFSETS: _text([each._asdict() for each in united(ranges)]),
        COMPLETE_THROUGH: complete_text(complete),
        POSITIONS_HASH: positions_hash(end),
    }


def aggregate_ranges(
    start: StreamPositions, end: StreamPositions
) -> dict[str, dict[str, list[int]]]:
    """Return [start, end) of each partition that has advanced, by topic and partition."""
    found: dict[str, dict[str, list[int]]] = {}
    for at, offset in sorted(end.offsets.items()):
        first = start.offsets.get(at, offset)
        if first < offset:
            found.setdefault(at.topic, {})[str(at.partition)] = [first, offset]
    return found


def united(ranges: Iterable[SourceRange]) -> list[SourceRange]:
    """Return one range per partition: the least one that has all of them."""
    found: dict[tuple[str, str, int], SourceRange] = {}
    for each in ranges:
        at = each.datacenter or "", each.topic, each.partition
        before = found.get(at)
        if before is not None:
            firsts = [x for x in (before.first, each.first) if x is not None]
            ends = [x for x in (before.end, each.end) if x is not None]
            each = each._replace(
                first=min(firsts, default=None),
                end=max(ends, default=None),
                records=before.records + each.records,
            )
        found[at] = each
    return [found[at] for at in sorted(found)]


def positions_hash(positions: StreamPositions) -> str:
    """Return a short hash of positions."""
    return hashlib.sha256(positions_text(positions).encode()).hexdigest()[:16]


def decode_complete(text: str) -> dict[str, Through]:
    """Read the property `heliograph.complete-through`. Raises ValueError and TypeError."""
    return {
        str(name): Through(
            _time(each["through"]),
            _time(each["proved"]),
            int(each["gaps"]),
            tuple(each.get("links", ())),
        )
        for name, each in json.loads(text).items()
    }


def said_of(through: Through) -> dict[str, int | list[str] | None]:
    """Return a statement as a JSON document has it."""
    return {
        "through_ms": through.through_ms,
        "proved_ms": through.proved_ms,
        "gaps": through.gaps,
        "links": list(through.links),
    }


def describe_complete(complete: Mapping[str, Through]) -> list[str]:
    """Return until when a table is complete, one line per datacenter."""
    return [
        f"{name}: "
        + ("not known" if each.through_ms is None else f"complete through {_iso(each.through_ms)}")
        + (f", with {each.gaps} gaps" if each.gaps else "")
        for name, each in sorted(complete.items())
    ]


def with_news(complete: Mapping[str, Through], news: Mapping[str, Through]) -> dict[str, Through]:
    """Return newer times; a datacenter without news keeps its own.

    What is proved stays proved, and a gap stays one, also if another link says so no more. What was
    proved without a link that has joined since is not proved of the datacenter.
    """
    found = dict(complete)
    for name, each in news.items():
        for known in [found.pop(former, None) for former in each.formerly] + [found.get(name)]:
            each = each if known is None else _later(known, each)
        found[name] = each._replace(formerly=())
    return found


def _later(before: Through, after: Through) -> Through:
    gaps = max(before.gaps, after.gaps)
    if has_more_links(before.links, after.links):
        return after._replace(gaps=gaps)
    proved = [each for each in (before.proved_ms, after.proved_ms) if each is not None]
    through = [each for each in (after.through_ms, *proved) if each is not None]
    links = after.links or before.links
    return Through(max(through, default=None), max(proved, default=None), gaps, links)


def has_more_links(before: Iterable[str], after: Iterable[str]) -> bool:
    """Return whether a link has joined; what is about unknown links is about all."""
    known = set(before)
    return bool(known) and not set(after) <= known


def complete_text(complete: Mapping[str, Through]) -> str:
    """Return the property `heliograph.complete-through`."""
    return _text(
        {
            name: {
                "through": _iso(each.through_ms),
                "proved": _iso(each.proved_ms),
                "gaps": each.gaps,
                **({"links": list(each.links)} if each.links else {}),
            }
            for name, each in sorted(complete.items())
        }
    )


def positions_text(positions: StreamPositions) -> str:
    """Return positions as text; equal positions give equal text."""
    return _text(positions.encode())


def _text(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


def _iso(time_ms: int | None) -> str | None:
    return None if time_ms is None else time_text(time_ms)


def _time(text: str | None) -> int | None:
    return None if text is None else (datetime.fromisoformat(text) - _EPOCH) // _MILLISECOND
