"""Keys of closed windows are ranked as a sort of all records would rank them."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_global.streaming.positions import CheckpointError
from spark_global.windowing.closing import ALL, Complete, Span
from spark_global.windowing.ranking import (
    CountedKey,
    OpenKeysError,
    RankedKey,
    RankingState,
    decode_ranking,
    encode_ranking,
    rank_keys,
)

FIRST, SECOND = Span(0, 10), Span(10, 20)


def play(
    state: RankingState, counted: list[CountedKey], limit: int = 10, **through: int
) -> tuple[RankingState, list[RankedKey]]:
    complete = {name: Complete(ms, None) for name, ms in through.items()}
    after, rows = rank_keys(state, counted, complete, lateness_ms=0, limit=limit)
    assert decode_ranking(encode_ranking(after)) == after
    return after, rows


def test_a_window_is_ranked_once_when_every_datacenter_is_complete() -> None:
    first = [
        CountedKey(FIRST, "jfk", b"b", 2),
        CountedKey(FIRST, "lga", b"a", 2),
        CountedKey(FIRST, ALL, b"c", 1),
        CountedKey(SECOND, "jfk", b"d", 1),
    ]
    state, rows = play(RankingState(), first, jfk=10, lga=9)
    assert rows == []
    state, rows = play(state, [CountedKey(FIRST, "lga", b"b", 1)], limit=2, jfk=10, lga=10)
    assert rows == [RankedKey(0, b"b", 3, 2, 1), RankedKey(0, b"a", 2, 1, 2)]
    # A record of a closed window is counted, and ranked nowhere.
    state, rows = play(state, [CountedKey(FIRST, "jfk", b"a", 4)], jfk=20, lga=20)
    assert rows == [RankedKey(0, None, None, None, None, 4), RankedKey(10, b"d", 1, 1, 1)]
    assert state.keys == {}


def test_a_datacenter_with_a_new_name_is_one_datacenter() -> None:
    counted = [CountedKey(FIRST, "ewr", b"a", 2)]
    state, _ = play(RankingState(), counted, ewr=5)
    more = [CountedKey(FIRST, "Newark", b"a", 1)]
    news = {"Newark": Complete(10, None, formerly=("ewr",))}
    _, rows = rank_keys(state, more, news, lateness_ms=0, limit=10)
    assert rows == [RankedKey(0, b"a", 3, 1, 1)]


RECORDS = st.lists(
    st.tuples(st.sampled_from([0, 10, 20]), st.sampled_from("jl"), st.sampled_from([b"x", b"y"])),
    max_size=12,
)


@given(st.lists(st.tuples(RECORDS, st.integers(0, 30)), max_size=5))
def test_every_record_is_ranked_or_late(
    batches: list[tuple[list[tuple[int, str, bytes]], int]],
) -> None:
    state, found, late, through = RankingState(), Counter[tuple[int, bytes]](), 0, 0
    sent = [*batches, ([], 30)]
    for records, ms in sent:
        through = max(through, ms)
        counts = Counter(records)
        counted = [
            CountedKey(Span(at, at + 10), name, key, n) for (at, name, key), n in counts.items()
        ]
        state, rows = play(state, counted, j=through, l=through)
        late += sum(row.late_records for row in rows)
        for row in rows:
            if row.key is not None:
                assert (row.start_ms, row.key) not in found, "a window is ranked once"
                found[row.start_ms, row.key] = row.records or 0
    assert found.total() + late == sum(len(records) for records, _ in sent)


def test_too_many_open_keys_fail_with_the_name_of_who_is_behind() -> None:
    counted = [CountedKey(FIRST, "jfk", bytes([n]), 1) for n in range(3)]
    complete = {"jfk": Complete(5, None), "lga": Complete(None, None)}
    with pytest.raises(OpenKeysError, match=r"3 keys .* more than 2; lga is the least complete"):
        rank_keys(RankingState(), counted, complete, lateness_ms=0, limit=10, open_keys_max=2)


def test_a_state_that_cannot_be_read_is_refused() -> None:
    with pytest.raises(CheckpointError, match="broken"):
        decode_ranking("{}")
