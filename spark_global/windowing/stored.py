"""The state of windows after a batch as JSON, with the rows of the batch. Pure.

A batch that runs again takes its rows from here, also if its options are others by then. A state
that an older version wrote has no gaps: they are taken as unknown, and none is named. It has the
times of completeness in `closed_ms`, so windows that it holds open are not closed by them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from spark_global.streaming.positions import COMPLETE, FORMERLY, LINKS, CheckpointError
from spark_global.windowing.closing import (
    Complete,
    Count,
    Span,
    WindowKind,
    WindowRow,
    WindowState,
)

_VERSION: Final = 1


def encode_state(kind: WindowKind, state: WindowState, rows: list[WindowRow]) -> bytes:
    """Return the state after a batch, and its rows."""
    document = {
        "version": _VERSION,
        "kind": kind,
        "opened": [[*span, counts] for span, counts in sorted(state.opened.items())],
        "complete": {name: each[:4] for name, each in state.complete.items()},
        "closed_end_ms": state.closed_end_ms,
        "rows": rows,
    }
    return json.dumps(document, separators=(",", ":")).encode()


def decode_state(text: bytes, kind: WindowKind) -> tuple[WindowState, list[WindowRow]]:
    """Read what `encode_state` wrote. Raises CheckpointError."""
    try:
        document: Any = json.loads(text)
        version, kept = document["version"], document["kind"]
        if version != _VERSION or kept != kind:
            raise CheckpointError(
                f"the checkpoint has {kept} of version {version}, not {kind} of {_VERSION}; give "
                "a new path"
            )
        opened = {
            Span(start, end): {name: Count(*count) for name, count in counts.items()}
            for start, end, counts in document["opened"]
        }
        older = document.get("closed_ms")
        state = WindowState(
            opened=opened,
            complete={name: _decode_member(*each) for name, each in document["complete"].items()},
            closed_end_ms=document["closed_end_ms"] if older is None else _below(older, opened),
        )
        return state, [_decode_row(row) for row in document["rows"]]
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        if isinstance(error, CheckpointError):
            raise
        raise CheckpointError(f"the state of windows is broken: {error!r}") from error


def _decode_member(
    through_ms: int | None, proved_ms: int | None, gaps: int = 0, links: Sequence[str] = ()
) -> Complete:
    return Complete(through_ms, proved_ms, gaps, tuple(links))


def _below(times: Mapping[str, int], opened: Iterable[Span]) -> dict[str, int]:
    first_open = min((span.end_ms for span in opened), default=None)
    return {
        name: ms if first_open is None else min(ms, first_open - 1) for name, ms in times.items()
    }


def _decode_row(fields: list[Any]) -> WindowRow:
    is_older = len(fields) == len(WindowRow._fields) - 1
    whole = [*fields, []] if is_older else fields
    return WindowRow(*whole)


def complete_of_batch(offsets: str) -> Mapping[str, Complete]:
    """Return how complete a batch is, by the text of its file in the checkpoint's `offsets`."""
    document: Any = json.loads(offsets.splitlines()[-1])
    found: Mapping[str, Any] = document.get(COMPLETE, {})
    return {name: decode_complete(each) for name, each in found.items()}


def decode_complete(said: Mapping[str, Any]) -> Complete:
    """Read what the positions of a stream say of one datacenter."""
    about, former = (tuple(said.get(name, ())) for name in (LINKS, FORMERLY))
    return Complete(said["through"], said["proved"], said.get("gaps", 0), about, former)
