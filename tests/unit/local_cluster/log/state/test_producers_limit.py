"""A log remembers a limited number of producers: idle ones go first, open transactions stay."""

from __future__ import annotations

from local_cluster.log.state.producer_state import PRODUCERS_MAX, ProducerState
from local_cluster.records.header import TRANSACTIONAL_BIT, BatchHeader

IN_TRANSACTION = 5


def header(producer_id: int, attributes: int = 0) -> BatchHeader:
    return BatchHeader(0, 100, 0, 2, 0, attributes, 0, 0, 0, producer_id, 0, 0, 1)


def test_the_producers_that_were_idle_longest_are_forgotten() -> None:
    state = ProducerState()
    for number in range(PRODUCERS_MAX):
        attributes = TRANSACTIONAL_BIT if number == IN_TRANSACTION else 0
        state.record(header(number, attributes), number, number, now_ms=number)
    assert len(state) == PRODUCERS_MAX
    state.record(header(1), PRODUCERS_MAX, 0, now_ms=PRODUCERS_MAX)
    state.record(header(PRODUCERS_MAX), PRODUCERS_MAX + 1, 0, now_ms=PRODUCERS_MAX)
    assert len(state) == PRODUCERS_MAX - PRODUCERS_MAX // 10 + 1
    assert state.get(0) is None
    assert state.get(PRODUCERS_MAX // 20) is None
    for kept in (1, IN_TRANSACTION, PRODUCERS_MAX // 2, PRODUCERS_MAX):
        assert state.get(kept) is not None


def test_verifications_under_way_are_limited() -> None:
    state = ProducerState()
    first = state.begin_verification(0)
    for number in range(1, PRODUCERS_MAX):
        state.begin_verification(number)
    assert state.is_verified(0, first)
    last = state.begin_verification(PRODUCERS_MAX)
    assert state.is_verified(PRODUCERS_MAX, last)
    assert not state.is_verified(0, first), "it is asked again"
