"""When a round of syncs begins, at times that the test chooses."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from local_cluster.server.flushing.flush_gathering import (
    GATHER_SECONDS_MAX,
    SKIPPED_ROUNDS_MAX,
    FlushGathering,
)

SYNC_SECONDS = 0.0002


def requests(gathering: FlushGathering, count: int) -> None:
    for _ in range(count):
        gathering.requested()


def after_a_round(count: int) -> tuple[FlushGathering, float]:
    """A gathering, and the time at which its first round, of so many requests, ended."""
    gathering = FlushGathering()
    requests(gathering, count)
    assert gathering.begins(10.0)
    ended = 10.0 + SYNC_SECONDS
    gathering.ended(ended)
    return gathering, ended


def test_one_request_at_a_time_never_waits() -> None:
    gathering, now = after_a_round(1)
    for _ in range(100):
        gathering.requested()
        assert gathering.begins(now)
        now += SYNC_SECONDS
        gathering.ended(now)


def test_a_round_waits_for_as_many_as_were_in_flight() -> None:
    gathering, ended = after_a_round(5)
    requests(gathering, 4)
    assert not gathering.begins(ended)
    gathering.requested()
    assert gathering.begins(ended)


def test_requests_that_came_during_the_round_count() -> None:
    gathering = FlushGathering()
    gathering.requested()
    assert gathering.begins(10.0)
    requests(gathering, 7)
    gathering.ended(10.0 + SYNC_SECONDS)
    assert not gathering.begins(10.0 + SYNC_SECONDS)
    gathering.requested()
    assert gathering.begins(10.0 + SYNC_SECONDS)


def test_a_wait_ends_after_as_long_as_the_last_round_took() -> None:
    gathering, ended = after_a_round(2)
    gathering.requested()
    assert not gathering.begins(ended + 0.9 * SYNC_SECONDS)
    assert gathering.begins(ended + 1.1 * SYNC_SECONDS)


def test_a_long_round_is_followed_by_a_short_wait() -> None:
    gathering = FlushGathering()
    requests(gathering, 2)
    assert gathering.begins(10.0)
    gathering.ended(11.0)
    gathering.requested()
    assert gathering.begins(11.0 + 1.1 * GATHER_SECONDS_MAX)


def test_waits_in_vain_become_rare_until_one_brings_something() -> None:
    gathering, now = after_a_round(2)
    gathering.requested()
    rounds_between_waits: list[int] = []
    rounds = 0
    for _ in range(210):
        if not gathering.begins(now):
            rounds_between_waits.append(rounds)
            rounds = 0
            now += 1.1 * SYNC_SECONDS
            assert gathering.begins(now)
        rounds += 1
        # The second client always sends while the round of the first runs.
        gathering.requested()
        now += SYNC_SECONDS
        gathering.ended(now)
    longest = SKIPPED_ROUNDS_MAX + 1
    assert rounds_between_waits == [0, 2, 3, 5, 9, 17, 33, longest, longest]
    gathering.requested()
    assert gathering.begins(now), "both are there"
    now += SYNC_SECONDS
    gathering.ended(now)
    gathering.requested()
    assert not gathering.begins(now), "waiting pays again"


@given(st.lists(st.tuples(st.integers(1, 20), st.integers(0, 20), st.floats(0, 0.01))))
def test_no_round_waits_longer_than_the_limit(rounds: list[tuple[int, int, float]]) -> None:
    gathering, now = FlushGathering(), 0.0
    for before, during, took_seconds in rounds:
        requests(gathering, before)
        if not gathering.begins(now):
            now += 1.01 * GATHER_SECONDS_MAX
            assert gathering.begins(now)
        requests(gathering, during)
        now += took_seconds
        gathering.ended(now)
