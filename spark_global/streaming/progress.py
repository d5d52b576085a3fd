"""What a query says of itself beside its committed offsets. Pure.

The positions of a query are the committed offsets of a group. Each has a metadata text, which is a
JSON object here, so the progress needs no topic and no right of its own:

    version     1
    at_ms       when it was published, by the driver's clock
    query       id of the query; null until the first batch of a run
    batch       id of the batch that is done; null as above
    datacenter  whose records the partition has; null if unknown
    records     how many of the datacenter's records are not read; null if unknown
    seconds     how far the query is behind the datacenter; null if unknown
    at_least    whether `seconds` is only a lower bound
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Final

from spark_global.streaming.lag import DatacenterLag

PROGRESS_VERSION: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a query is behind one datacenter."""

    at_ms: int
    query: str | None = None
    batch: int | None = None
    datacenter: str | None = None
    records: int | None = None
    seconds: float | None = None
    at_least: bool = False

    def encode(self) -> str:
        """Return the metadata text."""
        return json.dumps({"version": PROGRESS_VERSION, **asdict(self)}, separators=(",", ":"))


def decode_progress(metadata: str) -> Progress | None:
    """Read a metadata text; None for that of any other group."""
    try:
        found = json.loads(metadata)
    except ValueError:
        return None
    if not isinstance(found, dict) or found.pop("version", None) != PROGRESS_VERSION:
        return None
    try:
        return Progress(**found)
    except TypeError:
        return None


def notes_of_topics(
    lags: Iterable[DatacenterLag],
    datacenters: Mapping[str, str | None],
    *,
    query: str,
    batch: int,
    at_ms: int,
) -> dict[str, str]:
    """Return the metadata text per aggregate topic; `datacenters` has the name of each topic's."""
    by_name = {lag.datacenter: lag for lag in lags}
    notes = {}
    for topic, name in datacenters.items():
        lag = by_name.get(name)
        progress = Progress(
            at_ms=at_ms,
            query=query,
            batch=batch,
            datacenter=name,
            records=lag.records if lag is not None else None,
            seconds=lag.seconds if lag is not None else None,
            at_least=lag.is_at_least if lag is not None else False,
        )
        notes[topic] = progress.encode()
    return notes


def newest(published: Iterable[Progress]) -> list[Progress]:
    """Return one entry per datacenter of what one group published last."""
    entries = list(published)
    last_ms = max((each.at_ms for each in entries), default=0)
    found = {each.datacenter: each for each in entries if each.at_ms == last_ms}
    return [found[name] for name in sorted(found, key=lambda name: name or "")]
