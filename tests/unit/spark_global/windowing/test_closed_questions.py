"""Records of a window are found until it is closed, and what comes too late is counted."""

from __future__ import annotations

import pytest

from spark_global.streaming.positions import CheckpointError
from spark_global.windowing.closed_questions import CLOSED_QUESTIONS
from spark_global.windowing.closing import (
    Closing,
    Complete,
    Count,
    Counted,
    Span,
    WindowKind,
    close_windows,
)
from spark_global.windowing.parts import (
    AskedState,
    after_batch,
    closed_starts,
    decode_asked,
    encode_asked,
    open_records,
    parts_to_read,
    too_late,
)

REACH = 3
HOW = Closing(WindowKind.STRICT, REACH)
FIRST, SECOND, THIRD = Span(0, 10), Span(10, 20), Span(20, 30)


def play(
    before: AskedState, batch: int, spans: dict[Span, int], through: int, *earlier: Span
) -> AskedState:
    """Return the state after a batch with so many records per window."""
    counted = [Counted(span, "jfk", Count(n, 0)) for span, n in spans.items()]
    shifted = [Counted(span, "jfk", Count(1, 0)) for span in earlier]
    windows, rows = close_windows(before.windows, counted, {"jfk": Complete(through, None)}, HOW)
    rows += too_late(before, shifted, HOW)
    state = after_batch(before, batch, counted, windows, rows)
    assert decode_asked(encode_asked(state)) == state
    return state


def test_a_window_is_read_from_all_batches_that_have_records_of_it() -> None:
    state = play(AskedState(), 0, {FIRST: 2, THIRD: 1}, through=12)
    assert closed_starts(state) == [] and open_records(state) == 3
    state = play(state, 1, {FIRST: 1, SECOND: 4}, through=13)
    assert closed_starts(state) == [0] and open_records(state) == 5
    assert parts_to_read(state, 0) == [(0, FIRST), (1, FIRST)]
    # Records of the second window may belong to answers of the first one, those of the third not.
    assert parts_to_read(state, REACH) == [(0, FIRST), (1, FIRST), (1, SECOND)]
    state = play(state, 2, {}, through=33)
    assert parts_to_read(state, 0) == [(0, THIRD), (1, SECOND)]
    assert play(state, 3, {}, through=33).parts == {3: []}


def test_a_record_of_a_closed_window_is_counted_and_not_read() -> None:
    state = play(AskedState(), 0, {FIRST: 2}, through=13)
    state = play(state, 1, {FIRST: 5, SECOND: 1}, through=13)
    assert [(row.start_ms, row.records) for row in state.rows if row.is_late] == [(0, 5)]
    assert state.parts == {1: [SECOND]}


def test_a_record_that_only_an_earlier_closed_window_lacks_is_counted() -> None:
    state = play(AskedState(), 0, {FIRST: 2}, through=12)
    assert play(state, 1, {SECOND: 1}, 12, FIRST).rows == []
    state = play(state, 1, {}, through=13)
    state = play(state, 2, {SECOND: 1}, 13, FIRST)
    assert [(row.start_ms, row.records, row.is_late) for row in state.rows] == [(0, 1, True)]
    assert state.parts == {2: [SECOND]}


def test_a_state_that_cannot_be_read_is_refused() -> None:
    with pytest.raises(CheckpointError, match="answers of version 2"):
        decode_asked(b'{"version":2}')
    with pytest.raises(CheckpointError, match="broken"):
        decode_asked(b"{}")


def test_a_question_names_its_columns() -> None:
    for question, how in CLOSED_QUESTIONS.values():
        assert how.reach is None or how.reach in question.parameters
        assert how.time in question.statement
