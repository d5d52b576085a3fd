"""Rates over Kafka's windows."""

from __future__ import annotations

from mirror_maker.metrics.latency import WINDOW_MS, WindowedRate


def test_rates_are_of_two_windows_as_kafkas_are() -> None:
    rate = WindowedRate()
    assert rate.per_second(0) is None
    rate.observe(600, 1_000)
    assert rate.per_second(1_000) == 600 / 30, "no burst at the start"
    assert rate.per_second(16_000) == 600 / 45
    rate.observe(300, 1_000 + WINDOW_MS)
    assert rate.per_second(1_000 + WINDOW_MS) == 900 / 30
    assert rate.per_second(1_000 + 2 * WINDOW_MS) == 300 / 30, "the first window is forgotten"
    assert rate.per_second(1_000 + 10 * WINDOW_MS) == 0.0
