"""The histogram and the quantiles of a probe."""

from __future__ import annotations

from aggregator.probe.latencies import BOUNDS_MS, RECENT_MAX, Latencies


def test_nothing_is_known_before_the_first_record() -> None:
    latencies = Latencies()
    assert (latencies.last_ms, latencies.quantile_ms(0.5)) == (None, None)


def test_quantiles_are_latencies_that_were_seen() -> None:
    latencies = Latencies()
    for latency_ms in range(100, 0, -1):
        latencies.observe(latency_ms)
    shares = (0.01, 0.5, 0.99, 1.0)
    assert [latencies.quantile_ms(share) for share in shares] == [1, 50, 99, 100]
    assert latencies.last_ms == 1


def test_a_bound_belongs_to_its_bucket_and_what_is_longer_to_the_last_one() -> None:
    latencies = Latencies()
    for latency_ms in (0.2, BOUNDS_MS[0], BOUNDS_MS[0] + 0.1, BOUNDS_MS[-1] + 1):
        latencies.observe(latency_ms)
    assert (latencies.counts[0], latencies.counts[1], latencies.counts[-1]) == (2, 1, 1)


def test_quantiles_are_those_of_the_recent_records() -> None:
    latencies = Latencies()
    for latency_ms in [1_000.0] * RECENT_MAX + [1.0] * RECENT_MAX:
        latencies.observe(latency_ms)
    assert latencies.quantile_ms(1.0) == 1.0
    assert sum(latencies.counts) == 2 * RECENT_MAX
