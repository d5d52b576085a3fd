"""Which batches hold the records of a window, and the state of such a query as JSON. Pure.

The state has which batches hold records of which open window. So the records of a window are found
without a list of files, and a batch that runs again reads the same ones.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from spark_global.streaming.positions import CheckpointError
from spark_global.windowing.closing import (
    Closing,
    Counted,
    Span,
    WindowKind,
    WindowRow,
    WindowState,
    is_closed,
)
from spark_global.windowing.stored import decode_state, encode_state

_VERSION: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedState:
    """What is known after a batch."""

    windows: WindowState = field(default_factory=WindowState)
    rows: list[WindowRow] = field(default_factory=list)
    """The windows that this batch closed; the late records of this batch."""
    parts: Mapping[int, list[Span]] = field(default_factory=dict)
    """By batch: its windows that were open before this batch closed some."""


def after_batch(
    before: AskedState,
    batch: int,
    counted: Iterable[Counted],
    windows: WindowState,
    rows: list[WindowRow],
) -> AskedState:
    """Return the state after a batch whose windows are closed; `before` is that of the last one."""
    late = {row.start_ms for row in rows if row.is_late}
    parts = {
        each: spans
        for each, found in before.parts.items()
        if (spans := [span for span in found if span in before.windows.opened])
    }
    # A batch without a part is named too, so that its records are deleted.
    parts[batch] = sorted({each.span for each in counted if each.span.start_ms not in late})
    return AskedState(windows=windows, rows=rows, parts=parts)


def too_late(before: AskedState, earlier: Iterable[Counted], how: Closing) -> list[WindowRow]:
    """Return rows of records that came when an earlier window that they belong to was closed."""
    return [
        WindowRow(
            start_ms=each.span.start_ms,
            datacenters=[each.datacenter],
            records=each.added.records,
            value_bytes=0,
            missing=[],
            is_late=True,
            with_gaps=[],
        )
        for each in earlier
        if is_closed(before.windows, each, how)
    ]


def closed_starts(state: AskedState) -> list[int]:
    """Return the starts of the windows that the batch closed."""
    return sorted(row.start_ms for row in state.rows if not row.is_late)


def parts_to_read(state: AskedState, reach_ms: int) -> list[tuple[int, Span]]:
    """Return the parts of the windows that the batch closed, and of those in their reach."""
    starts = set(closed_starts(state))
    every = [(batch, span) for batch, spans in sorted(state.parts.items()) for span in spans]
    closed = {span for _, span in every if span.start_ms in starts}
    return [
        (batch, span)
        for batch, span in every
        if any(
            each.start_ms <= span.start_ms <= max(each.start_ms, each.end_ms - 1 + reach_ms)
            for each in closed
        )
    ]


def open_records(state: AskedState) -> int:
    """Return how many records wait for their windows to close."""
    return sum(
        count.records for counts in state.windows.opened.values() for count in counts.values()
    )


def encode_asked(state: AskedState) -> bytes:
    """Return the state after a batch as JSON."""
    windows = encode_state(WindowKind.STRICT, state.windows, state.rows)
    parts = {str(batch): spans for batch, spans in state.parts.items()}
    document = {"version": _VERSION, "windows": json.loads(windows), "parts": parts}
    return json.dumps(document, separators=(",", ":")).encode()


def decode_asked(text: bytes) -> AskedState:
    """Read what `encode_asked` wrote. Raises CheckpointError."""
    try:
        document: Any = json.loads(text)
        if document["version"] != _VERSION:
            raise CheckpointError(
                f"the checkpoint has answers of version {document['version']}, not {_VERSION}; "
                "give a new path"
            )
        windows, rows = decode_state(json.dumps(document["windows"]).encode(), WindowKind.STRICT)
        parts = {
            int(batch): [Span(*span) for span in spans]
            for batch, spans in document["parts"].items()
        }
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        if isinstance(error, CheckpointError):
            raise
        raise CheckpointError(f"the state of answers is broken: {error!r}") from error
    return AskedState(windows=windows, rows=rows, parts=parts)
