"""Windows close when they should, and every record is in exactly one final row."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_global.streaming.positions import CheckpointError
from spark_global.windowing.closing import (
    ALL,
    Closing,
    Complete,
    Count,
    Counted,
    Span,
    WindowKind,
    WindowRow,
    WindowState,
    close_windows,
)
from spark_global.windowing.stored import complete_of_batch, decode_state, encode_state

STRICT, FAST, DATACENTER = WindowKind.STRICT, WindowKind.FAST, WindowKind.DATACENTER
Batch = tuple[dict[tuple[int, str], int], dict[str, int | None]]
"""Records by window and datacenter, and until when a datacenter is complete."""


def through(times: Mapping[str, int | None]) -> dict[str, Complete]:
    return {name: Complete(time, None) for name, time in times.items()}


def run(kind: WindowKind, *batches: Batch, lateness: int = 0) -> list[list[WindowRow]]:
    """Return the rows of each batch. Windows are 10 long, a record has one byte."""
    state, answers = WindowState(), []
    for records, complete in batches:
        counted = [
            Counted(Span(start, start + 10), name, Count(n, n))
            for (start, name), n in records.items()
        ]
        state, rows = close_windows(state, counted, through(complete), Closing(kind, lateness))
        again, same = decode_state(encode_state(kind, state, rows), kind)
        assert (again, same) == (state, rows)
        answers.append(rows)
    return answers


def row(
    start: int,
    names: list[str],
    n: int,
    missing: list[str] | None = None,
    *,
    late: bool = False,
    gaps: list[str] | None = None,
) -> WindowRow:
    return WindowRow(start, names, n, n, missing or [], late, gaps or [])


LIFE: tuple[Batch, ...] = (
    ({(0, "jfk"): 2, (0, "lga"): 1, (10, "jfk"): 3}, {"jfk": 9, "lga": 9}),
    ({(10, "jfk"): 1}, {"jfk": 20, "lga": 9}),  # lga is dead
    ({}, {"jfk": 30, "lga": 9}),
    ({(0, "lga"): 4, (10, "lga"): 5}, {"jfk": 31, "lga": 19}),  # lga is back
    ({}, {"jfk": 31, "lga": 20}),
    ({(0, "jfk"): 7}, {"jfk": 32, "lga": 20}),  # a producer gives an old timestamp
)


def test_strict_windows_wait_for_a_dead_datacenter() -> None:
    both = ["jfk", "lga"]
    assert run(STRICT, *LIFE) == [
        [],
        [],
        [],
        [row(0, both, 7)],
        [row(10, both, 9)],
        [row(0, ["jfk"], 7, late=True)],
    ]
    assert run(STRICT, *LIFE, lateness=1)[3:] == [
        [row(0, both, 7)],
        [],
        [row(0, ["jfk"], 7, late=True)],
    ]


def test_fast_windows_go_on_and_name_who_is_missing() -> None:
    both = ["jfk", "lga"]
    assert run(FAST, *LIFE) == [
        [row(0, both, 3, both), row(10, ["jfk"], 3, both)],
        [row(0, both, 3, ["lga"]), row(10, ["jfk"], 4, ["lga"])],
        [],
        [row(0, both, 7), row(10, both, 9, ["lga"])],
        [row(10, both, 9)],
        [row(0, ["jfk"], 7, late=True)],
    ]


def test_windows_of_a_datacenter_do_not_wait_for_another_one() -> None:
    assert run(DATACENTER, *LIFE) == [
        [],
        [row(0, ["jfk"], 2), row(10, ["jfk"], 4)],
        [],
        [row(0, ["lga"], 5)],
        [row(10, ["lga"], 5)],
        [row(0, ["jfk"], 7, late=True)],
    ]


@pytest.mark.parametrize("kind", WindowKind)
def test_nothing_is_final_before_a_datacenter_is_known(kind: WindowKind) -> None:
    foreign: Batch = ({(0, ALL): 3}, {})
    assert run(kind, foreign, ({}, {"jfk": 10})) == [[], [row(0, [], 3)]]


@pytest.mark.parametrize("kind", [STRICT, DATACENTER])
def test_records_of_unknown_origin_wait_for_all(kind: WindowKind) -> None:
    foreign: Batch = ({(0, ALL): 3}, {"jfk": 10, "lga": None})
    assert run(kind, foreign, ({}, {"jfk": 10, "lga": 10})) == [[], [row(0, [], 3)]]


def test_a_datacenter_that_joins_is_waited_for_and_what_is_closed_stays_closed() -> None:
    answers = run(
        STRICT,
        ({(0, "jfk"): 1, (10, "jfk"): 1}, {"jfk": 10}),
        ({(0, "lga"): 1}, {"jfk": 20, "lga": None}),
        ({}, {"jfk": 20, "lga": 20}),
    )
    assert answers == [[row(0, ["jfk"], 1)], [row(0, ["lga"], 1, late=True)], [row(10, ["jfk"], 1)]]


def test_what_a_leader_epoch_withdraws_is_waited_for_again_unless_it_is_proved() -> None:
    how = Closing(STRICT, 0)
    counted = [Counted(Span(0, 10), "jfk", Count(1, 1))]
    state, rows = close_windows(
        WindowState(), counted, {"jfk": Complete(20, 5), "lga": Complete(None, None)}, how
    )
    assert not rows
    state, rows = close_windows(
        state, [], {"jfk": Complete(9, None), "lga": Complete(20, None)}, how
    )
    assert not rows
    state, rows = close_windows(state, [], {"jfk": Complete(None, 10)}, how)
    assert rows == [row(0, ["jfk"], 1)]


def after(
    kind: WindowKind, *batches: tuple[dict[str, int], dict[str, Complete]]
) -> list[list[WindowRow]]:
    """Return the rows of batches with records of the window from 0 to 10, by datacenter."""
    state, answers = WindowState(), []
    for records, complete in batches:
        counted = [Counted(Span(0, 10), name, Count(n, n)) for name, n in records.items()]
        state, rows = close_windows(state, counted, complete, Closing(kind, 0))
        state, rows = decode_state(encode_state(kind, state, rows), kind)
        answers.append(rows)
    return answers


def test_a_window_says_which_datacenters_have_gaps() -> None:
    """JFK's journal gets an entry before JFK is complete, LGA's after both are."""
    batches: tuple[tuple[dict[str, int], dict[str, Complete]], ...] = (
        ({"jfk": 2, "lga": 1}, {"jfk": Complete(9, None), "lga": Complete(10, None)}),
        ({}, {"jfk": Complete(9, None, 3)}),
        ({}, {"jfk": Complete(10, None, 0)}),  # another worker does not know the entry yet
        ({"lga": 1}, {"lga": Complete(11, None, 1)}),
    )
    both, late = ["jfk", "lga"], row(0, ["lga"], 1, late=True, gaps=["jfk", "lga"])
    assert after(STRICT, *batches) == [[], [], [row(0, both, 3, gaps=["jfk"])], [late]]
    assert after(FAST, *batches) == [
        [row(0, both, 3, ["jfk"])],
        [row(0, both, 3, ["jfk"], gaps=["jfk"])],
        [row(0, both, 3, gaps=["jfk"])],
        [late],
    ]
    assert after(DATACENTER, *batches) == [
        [row(0, ["lga"], 1)],
        [],
        [row(0, ["jfk"], 2, gaps=["jfk"])],
        [row(0, ["lga"], 1, late=True, gaps=["lga"])],
    ]


def test_a_state_of_an_older_version_has_no_gaps() -> None:
    old = (
        b'{"version":1,"kind":"strict_windows","opened":[[0,10,{"jfk":[2,20]}]],'
        b'"complete":{"jfk":[5,null]},"closed_ms":{"jfk":5},'
        b'"rows":[[-10,["jfk"],1,10,[],false]]}'
    )
    state, rows = decode_state(old, STRICT)
    assert state.complete == {"jfk": Complete(5, None, 0)}
    assert rows == [WindowRow(-10, ["jfk"], 1, 10, [], False, [])]
    _, rows = close_windows(state, [], {"jfk": Complete(10, None, 1)}, Closing(STRICT, 0))
    assert rows == [WindowRow(0, ["jfk"], 2, 20, [], False, ["jfk"])]
    batch = 'v1\n{}\n{"complete":{"jfk":{"through":5,"proved":null},%s}}'
    news = '"lga":{"through":6,"proved":4,"gaps":2}'
    assert complete_of_batch(batch % news) == {
        "jfk": Complete(5, None, 0),
        "lga": Complete(6, 4, 2),
    }


def test_a_state_of_an_older_version_keeps_its_windows_open() -> None:
    """It has no lateness: a window that waits is not closed by the time alone."""
    old = (
        b'{"version":1,"kind":"strict_windows","opened":[[0,10,{"jfk":[2,20]}]],'
        b'"complete":{"jfk":[12,null]},"closed_ms":{"jfk":12,"":12},"rows":[]}'
    )
    state, _ = decode_state(old, STRICT)
    how = Closing(STRICT, 5)
    more = Counted(Span(0, 10), "jfk", Count(1, 1))
    state, rows = close_windows(state, [more], {"jfk": Complete(14, None)}, how)
    assert rows == []
    _, rows = close_windows(state, [], {"jfk": Complete(15, None)}, how)
    assert rows == [WindowRow(0, ["jfk"], 3, 21, [], False, [])]


@pytest.mark.parametrize("kind", WindowKind)
def test_a_window_stays_closed_if_the_next_run_waits_longer(kind: WindowKind) -> None:
    window = Span(0, 10)
    counted = [Counted(window, "jfk", Count(2, 2))]
    complete = {"jfk": Complete(10, None)}
    state, rows = close_windows(WindowState(), counted, complete, Closing(kind, 0))
    assert rows == [row(0, ["jfk"], 2)]
    more = [Counted(window, "jfk", Count(1, 1)), Counted(Span(10, 20), "jfk", Count(1, 1))]
    state, rows = close_windows(state, more, {"jfk": Complete(24, None)}, Closing(kind, 5))
    assert [each for each in rows if not each.missing] == [row(0, ["jfk"], 1, late=True)]
    _, rows = close_windows(state, [], {"jfk": Complete(25, None)}, Closing(kind, 5))
    assert rows == [row(10, ["jfk"], 1)]


@pytest.mark.parametrize("kind", [STRICT, DATACENTER])
def test_a_datacenter_with_a_new_name_is_not_waited_for_under_its_old_one(
    kind: WindowKind,
) -> None:
    how, window = Closing(kind, 0), Span(0, 10)
    state, _ = close_windows(
        WindowState(),
        [Counted(window, "ewr", Count(2, 2)), Counted(Span(-10, 0), "ewr", Count(1, 1))],
        {"jfk": Complete(30, None), "ewr": Complete(5, None, 1)},
        how,
    )
    state, _ = decode_state(encode_state(kind, state, []), kind)
    news = {"jfk": Complete(30, None), "Newark": Complete(5, None, formerly=("ewr",))}
    late = Counted(Span(-10, 0), "Newark", Count(1, 1))
    more = [Counted(window, "Newark", Count(3, 3)), late]
    gaps = ["Newark"]
    state, rows = close_windows(state, more, news, how)
    assert rows == [row(-10, ["Newark"], 1, late=True, gaps=gaps)]
    assert state.complete.keys() == {"jfk", "Newark"}
    news["Newark"] = Complete(10, None, formerly=("ewr",))
    state, rows = close_windows(state, [], news, how)
    assert rows == [row(0, ["Newark"], 5, gaps=gaps)]


def test_two_links_that_become_one_datacenter_are_as_complete_as_the_least() -> None:
    how, window = Closing(STRICT, 0), Span(10, 20)
    state, rows = close_windows(
        WindowState(),
        [Counted(window, "JFK", Count(2, 2)), Counted(window, "jfk2", Count(1, 1))],
        {"JFK": Complete(30, 30), "jfk2": Complete(15, 15)},
        how,
    )
    assert rows == []
    one = {"JFK": Complete(15, 15, formerly=("jfk2",))}
    state, rows = close_windows(state, [], one, how)
    assert rows == [] and state.complete == {"JFK": Complete(15, 15)}
    _, rows = close_windows(state, [], {"JFK": Complete(20, None, formerly=("jfk2",))}, how)
    assert rows == [row(10, ["JFK"], 3)]


def test_a_link_that_joins_a_datacenter_is_waited_for() -> None:
    how, window = Closing(STRICT, 0), Span(10, 20)
    state, rows = close_windows(
        WindowState(),
        [Counted(window, "jfk", Count(2, 2))],
        {"jfk": Complete(30, 30, links=("a",)), "lga": Complete(5, 5)},
        how,
    )
    joined = Complete(None, None, links=("a", "b"))
    state, rows = close_windows(state, [], {"jfk": joined, "lga": Complete(40, 40)}, how)
    assert rows == []
    state, _ = decode_state(encode_state(STRICT, state, []), STRICT)
    more = [Counted(window, "jfk", Count(1, 1))]
    _, rows = close_windows(state, more, {"jfk": Complete(20, 1, links=("a", "b"))}, how)
    assert rows == [row(10, ["jfk"], 3)]


def test_a_state_of_another_question_is_refused() -> None:
    with pytest.raises(CheckpointError, match="strict_windows of version 1, not fast_windows"):
        decode_state(encode_state(STRICT, WindowState(), []), FAST)
    with pytest.raises(CheckpointError, match="broken"):
        decode_state(b"{}", FAST)


_batch = st.tuples(
    st.dictionaries(
        st.tuples(st.sampled_from([0, 10, 20]), st.sampled_from(["jfk", "lga", ALL])),
        st.integers(1, 3),
        max_size=4,
    ),
    st.dictionaries(st.sampled_from(["jfk", "lga"]), st.none() | st.integers(0, 40), max_size=2),
)


@given(st.lists(_batch, max_size=8), st.sampled_from(WindowKind), st.integers(0, 3))
def test_every_record_is_in_one_final_row(
    batches: list[Batch], kind: WindowKind, lateness: int
) -> None:
    end: Batch = ({}, {"jfk": 100, "lga": 100})
    rows = [row for rows in run(kind, *batches, end, lateness=lateness) for row in rows]
    final = [each for each in rows if not each.missing]
    produced, found = Counter[int](), Counter[int]()
    for records, _ in batches:
        for (start, _), n in records.items():
            produced[start] += n
    for each in final:
        found[each.start_ms] += each.records
    assert found == produced
    in_time = [(each.start_ms, *each.datacenters) for each in final if not each.is_late]
    whole = [each[:1] if kind is not DATACENTER else each for each in in_time]
    assert len(whole) == len(set(whole))
