"""Rates and waits. That they are Kafka's: tests/compat/test_quota_oracle.py."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from local_cluster.quotas.windowed_rate import WindowedRate

STEPS = st.lists(st.tuples(st.integers(0, 3_000), st.integers(0, 10**6)), min_size=1, max_size=40)


def test_a_first_burst_is_spread_over_all_windows() -> None:
    rate = WindowedRate(windows=11, window_ms=1_000)
    rate.record(1_000, 0)
    assert rate.rate(0) == 100
    assert rate.wait_ms(100, 0) == 0
    assert rate.wait_ms(50, 0) == 10_000


def test_what_is_old_does_not_count() -> None:
    rate = WindowedRate(windows=3, window_ms=1_000)
    rate.record(900, 0)
    assert rate.rate(2_999) == 900 / 2.999
    assert rate.rate(3_000) == 0


def test_what_is_taken_back_was_never_there() -> None:
    rate = WindowedRate()
    rate.record(700, 5)
    rate.record(300, 10)
    rate.record(-300, 10)
    assert rate.rate(10) == 700 / 10.005


@given(STEPS, st.integers(1, 10**5), st.integers(1, 20), st.integers(1, 2_000))
def test_only_who_is_above_the_quota_waits_and_a_whole_span_is_enough(
    steps: list[tuple[int, int]], quota: int, windows: int, window_ms: int
) -> None:
    rate = WindowedRate(windows=windows, window_ms=window_ms)
    now_ms = 0
    for pause_ms, value in steps:
        now_ms += pause_ms
        rate.record(value, now_ms)
        assert rate.rate(now_ms) >= 0
        if rate.rate(now_ms) <= quota:
            assert rate.wait_ms(quota, now_ms) == 0
        elif rate.rate(now_ms) > quota * 2:
            assert rate.wait_ms(quota, now_ms) > 0
    assert rate.rate(now_ms + windows * window_ms) == 0


@given(STEPS)
def test_a_rate_keeps_no_more_than_its_windows(steps: list[tuple[int, int]]) -> None:
    rate = WindowedRate(windows=5, window_ms=100)
    now_ms = 0
    for pause_ms, value in steps:
        now_ms += pause_ms
        rate.record(value, now_ms)
        assert len(rate._windows) <= 6
