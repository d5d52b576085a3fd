"""The state of windows after a batch as JSON, with the rows of the batch. Pure.

A batch that runs again takes its rows from here, also if its options are others by then. A state
that an older version wrote has no gaps: they are taken as unknown, and none is named.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from spark_global.streaming.positions import COMPLETE, CheckpointError
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
        "complete": state.complete,
        "closed_ms": state.closed_ms,
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
        state = WindowState(
            opened={
                Span(start, end): {name: Count(*count) for name, count in counts.items()}
                for start, end, counts in document["opened"]
            },
            complete={name: Complete(*each) for name, each in document["complete"].items()},
            closed_ms=document["closed_ms"],
        )
        return state, [_decode_row(row) for row in document["rows"]]
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        if isinstance(error, CheckpointError):
            raise
        raise CheckpointError(f"the state of windows is broken: {error!r}") from error


def _decode_row(fields: list[Any]) -> WindowRow:
    is_older = len(fields) == len(WindowRow._fields) - 1
    whole = [*fields, []] if is_older else fields
    return WindowRow(*whole)


def complete_of_batch(offsets: str) -> Mapping[str, Complete]:
    """Return how complete a batch is, by the text of its file in the checkpoint's `offsets`."""
    document: Any = json.loads(offsets.splitlines()[-1])
    found: Mapping[str, Any] = document.get(COMPLETE, {})
    return {
        name: Complete(each["through"], each["proved"], each.get("gaps", 0))
        for name, each in found.items()
    }
