"""The most frequent keys of windows that every datacenter has completed, batch by batch. Pure.

The answers are those of the question `top_keys`. Spark allows no ranking in a stream, so keys are
counted in a state until their window closes. Records that come after that are counted by window.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from spark_global.streaming.positions import CheckpointError
from spark_global.windowing.closing import (
    ALL,
    Closing,
    Complete,
    Count,
    Counted,
    Span,
    WindowKind,
    WindowState,
    close_windows,
    former_names,
    is_closed,
)
from spark_global.windowing.stored import decode_state, encode_state

OPEN_KEYS_MAX: Final = 1_000_000
"""Most keys of all open windows together: each batch writes them into the state again."""

Keys = Mapping[bytes, Mapping[str, int]]
"""Records by key and datacenter."""


class OpenKeysError(Exception):
    """More keys wait for their windows to close than may wait."""


class CountedKey(NamedTuple):
    """What a batch adds to one key of one window of one datacenter."""

    span: Span
    datacenter: str
    """`ALL` if the origin of the records is unknown."""
    key: bytes
    records: int


class RankedKey(NamedTuple):
    """A row to write; a row of late records has no key."""

    start_ms: int
    key: bytes | None
    records: int | None
    datacenters: int | None
    place: int | None
    late_records: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RankingState:
    """What is known after a batch."""

    windows: WindowState = field(default_factory=WindowState)
    keys: Mapping[Span, Keys] = field(default_factory=dict)
    """Of the windows that are open."""


def rank_keys(
    state: RankingState,
    counted: Iterable[CountedKey],
    complete: Mapping[str, Complete],
    *,
    lateness_ms: int,
    limit: int,
    open_keys_max: int = OPEN_KEYS_MAX,
) -> tuple[RankingState, list[RankedKey]]:
    """Return the state after a batch, and the rows to write. Raises OpenKeysError."""
    how = Closing(WindowKind.STRICT, lateness_ms)
    names = former_names(complete)
    opened = {
        span: {key: _renamed(each, names) for key, each in keys.items()}
        for span, keys in state.keys.items()
    }
    of_windows = []
    for each in counted:
        of_window = Counted(each.span, each.datacenter, Count(each.records, 0))
        of_windows.append(of_window)
        if not is_closed(state.windows, of_window, how):
            of_key = opened.setdefault(each.span, {}).setdefault(each.key, {})
            of_key[each.datacenter] = of_key.get(each.datacenter, 0) + each.records
    windows, closed = close_windows(state.windows, of_windows, complete, how)
    rows = []
    spans = {span.start_ms: span for span in opened}
    for row in closed:
        if row.is_late:
            rows.append(RankedKey(row.start_ms, None, None, None, None, row.records))
        else:
            rows += _ranked(row.start_ms, opened.pop(spans[row.start_ms]), limit)
    _check_open(opened, windows, open_keys_max)
    return RankingState(windows=windows, keys=opened), rows


def _renamed(counts: Mapping[str, int], names: Mapping[str, str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for name, n in counts.items():
        now = names.get(name, name)
        found[now] = found.get(now, 0) + n
    return found


def _ranked(start_ms: int, keys: Keys, limit: int) -> list[RankedKey]:
    """Return the most frequent keys of a window; the lesser key comes first of equal ones."""
    counts = {key: sum(each.values()) for key, each in keys.items()}
    best = sorted(counts, key=lambda key: (-counts[key], key))[:limit]
    return [
        RankedKey(start_ms, key, counts[key], len(keys[key].keys() - {ALL}), place)
        for place, key in enumerate(best, 1)
    ]


def _check_open(opened: Mapping[Span, Keys], windows: WindowState, open_keys_max: int) -> None:
    found = sum(map(len, opened.values()))
    if found <= open_keys_max:
        return
    complete = windows.complete
    slowest = min(complete, key=lambda name: (complete[name].through_ms or 0, name), default=None)
    raise OpenKeysError(
        f"{found} keys wait for their windows to close, more than {open_keys_max}"
        + (f"; {slowest} is the least complete datacenter" if slowest else "")
        + ". Keep the view by `heliograph spark materialize`, which keeps records in files"
    )


def encode_ranking(state: RankingState) -> str:
    """Return the state after a batch as JSON."""
    windows = json.loads(encode_state(WindowKind.STRICT, state.windows, []))
    keys = [
        [*span, {base64.b64encode(key).decode(): each for key, each in of_span.items()}]
        for span, of_span in sorted(state.keys.items())
    ]
    return json.dumps({"windows": windows, "keys": keys}, separators=(",", ":"))


def decode_ranking(text: str) -> RankingState:
    """Read what `encode_ranking` wrote. Raises CheckpointError."""
    try:
        document: Any = json.loads(text)
        windows, _ = decode_state(json.dumps(document["windows"]).encode(), WindowKind.STRICT)
        keys = {
            Span(start, end): {base64.b64decode(key): each for key, each in of_span.items()}
            for start, end, of_span in document["keys"]
        }
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        if isinstance(error, CheckpointError):
            raise
        raise CheckpointError(f"the state of top keys is broken: {error!r}") from error
    return RankingState(windows=windows, keys=keys)
