"""A windowed rate: which bytes count, for how long, and when it exceeds the quota."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from local_cluster.replication.rate_quota import RateQuota


def quota(bytes_per_second_max: int, *, windows: int = 11, window_ms: int = 1000) -> RateQuota:
    made = RateQuota(windows=windows, window_ms=window_ms)
    made.bytes_per_second_max = bytes_per_second_max
    return made


def test_without_a_limit_nothing_exceeds_it() -> None:
    unlimited = RateQuota()
    unlimited.record(1 << 50, 0)
    assert not unlimited.is_exceeded(0)


def test_a_rate_is_never_taken_over_less_than_a_window() -> None:
    limited = quota(100)
    limited.record(100, 5000)
    assert (limited.rate(5000), limited.is_exceeded(5000)) == (100.0, False)
    limited.record(1, 5001)
    assert limited.is_exceeded(5001)


def test_an_exceeded_quota_recovers_with_time() -> None:
    limited = quota(100)
    limited.record(500, 0)
    assert limited.is_exceeded(4_999)
    assert not limited.is_exceeded(5_000)


def test_bytes_older_than_all_windows_are_dropped() -> None:
    limited = quota(1)
    limited.record(1_000_000, 0)
    assert limited.is_exceeded(10_999)
    assert (limited.rate(11_000), limited.is_exceeded(11_000)) == (0.0, False)


def test_a_quota_of_zero() -> None:
    limited = quota(0)
    assert not limited.is_exceeded(0), "the first bytes pass, as in Kafka"
    limited.record(1, 0)
    assert limited.is_exceeded(5_000)


@given(
    st.lists(st.tuples(st.integers(0, 3_000), st.integers(0, 10_000)), max_size=60),
    st.integers(1, 2_000),
)
def test_a_caller_that_checks_first_stays_near_the_limit(
    moves: list[tuple[int, int]], limit: int
) -> None:
    """Over any span of all windows, at most the limit and the last response move."""
    limited = quota(limit)
    now_ms = 0
    moved: list[tuple[int, int]] = []
    for after_ms, size_bytes in moves:
        now_ms += after_ms
        if not limited.is_exceeded(now_ms):
            limited.record(size_bytes, now_ms)
            moved.append((now_ms, size_bytes))
    for index, (start_ms, _) in enumerate(moved):
        within = [size for at_ms, size in moved[index:] if at_ms - start_ms < 11_000]
        assert sum(within[:-1]) <= limit * 11 + max(within)
